//! What all files hold, kept from look to look: which of them to read, and what changes by that.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::super::documents::Format;
use super::super::reading::{self, Item, Outcome};
use super::super::{Complaint, SourceNews, SourceReport};
use super::look::{Look, Place};
use crate::control::settling::{Settling, Standing};
use crate::policy::Change;
use crate::policy::model::{Object, ObjectId};

/// The files of some paths.
pub(super) struct Folder {
    paths: Vec<PathBuf>,
    files: BTreeMap<Place, Known>,
    /// What is wrong with a path, as it was said.
    hidden: BTreeMap<usize, String>,
    /// What counts, as it was told.
    told: BTreeMap<ObjectId, Object>,
    synced: bool,
    /// Objects that two files hold, with those files, as it was said.
    doubled: HashSet<(ObjectId, PathBuf, PathBuf)>,
}

/// What is known of a file.
#[derive(Default)]
struct Known {
    settling: Settling,
    /// It was not there in the look before.
    missed: bool,
    /// Whether it could ever be parsed.
    parsed: bool,
    objects: BTreeMap<ObjectId, Object>,
}

impl Folder {
    /// Nothing looked at yet.
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            files: BTreeMap::new(),
            hidden: BTreeMap::new(),
            told: BTreeMap::new(),
            synced: false,
            doubled: HashSet::new(),
        }
    }

    /// Takes in a look; `read` reads a file. `None`: there is nothing to tell.
    pub(super) fn take(&mut self, look: Look, read: impl Fn(&Path) -> Result<(String, Format), String>) -> Option<SourceReport> {
        let mut complaints = self.say_what_is_hidden(&look);
        let mut changed = self.forget(&look);
        let mut waiting = false;
        for (place, stamp) in look.files {
            let known = self.files.entry(place.clone()).or_default();
            known.missed = false;
            match known.settling.look(stamp) {
                Standing::Read => {}
                Standing::Due => changed |= known.take(&place.1, read(&place.1), &mut complaints),
                Standing::Moving => waiting = true,
            }
        }
        let is_whole = !waiting && self.hidden.is_empty() && self.files.values().all(|known| known.parsed);
        let news = if changed || (is_whole && !self.synced) { self.news(is_whole, &mut complaints) } else { SourceNews::none() };
        (news != SourceNews::none() || !complaints.is_empty()).then_some(SourceReport { news, complaints })
    }

    /// Says of each path that cannot be looked at why, when that is new.
    fn say_what_is_hidden(&mut self, look: &Look) -> Vec<Complaint> {
        let news = look.hidden.iter().filter(|(number, why)| self.hidden.get(number) != Some(why));
        let complaints = news.filter_map(|(number, why)| {
            let path = self.paths.get(*number)?.display().to_string();
            let had = self.files.keys().any(|(of, _)| of == number);
            let follows = if had { "what it held stays in force" } else { "waiting for it" };
            Some(Complaint::error(path, format!("{why}; {follows}")))
        });
        let complaints = complaints.collect();
        self.hidden.clone_from(&look.hidden);
        complaints
    }

    /// Forgets files that are gone for the second time. Whether anything counted in them.
    fn forget(&mut self, look: &Look) -> bool {
        let mut changed = false;
        self.files.retain(|place, known| {
            let is_there = look.files.contains_key(place) || look.hidden.contains_key(&place.0);
            let is_gone = !is_there && known.missed;
            known.missed = !is_there;
            changed |= is_gone;
            !is_gone
        });
        changed
    }

    /// What has changed since it was told last; the whole, the first time that all is known.
    fn news(&mut self, is_whole: bool, complaints: &mut Vec<Complaint>) -> SourceNews {
        let all = self.all(complaints);
        let news = if is_whole && !self.synced {
            self.synced = true;
            SourceNews::Snapshot(all.values().cloned().collect())
        } else {
            let put = all.iter().filter(|(id, object)| self.told.get(*id) != Some(*object));
            let put = put.map(|(_, object)| Change::Put(object.clone()));
            let gone = self.told.keys().filter(|id| !all.contains_key(*id)).cloned().map(Change::Delete);
            SourceNews::Changes(put.chain(gone).collect())
        };
        self.told = all;
        news
    }

    /// Everything that counts: of two objects of one name, that of the later file.
    fn all(&mut self, complaints: &mut Vec<Complaint>) -> BTreeMap<ObjectId, Object> {
        let mut all = BTreeMap::<ObjectId, (&Path, &Object)>::new();
        let mut doubled = HashSet::new();
        for ((_, path), known) in &self.files {
            for (id, object) in &known.objects {
                if let Some((other, _)) = all.insert(id.clone(), (path.as_path(), object)) {
                    doubled.insert((id.clone(), other.to_owned(), path.clone()));
                }
            }
        }
        let all = all.into_iter().map(|(id, (_, object))| (id, object.clone())).collect();
        let mut news: Vec<_> = doubled.difference(&self.doubled).collect();
        news.sort_unstable();
        for (id, earlier, later) in news {
            let text = format!("{id} is in {} too; the one here counts", earlier.display());
            complaints.push(Complaint::remark(later.display().to_string(), text));
        }
        self.doubled = doubled;
        all
    }
}

impl Known {
    /// Takes in what the file holds now. Whether anything of it counts.
    fn take(&mut self, path: &Path, text: Result<(String, Format), String>, complaints: &mut Vec<Complaint>) -> bool {
        let place = path.display().to_string();
        let items = text.and_then(|(text, format)| reading::read(&text, format).map_err(|error| error.to_string()));
        let items = match items {
            Ok(items) => items,
            Err(error) => {
                let follows = if self.parsed { "what it held before stays in force" } else { "nothing in it is in force" };
                complaints.push(Complaint::error(place, format!("{error}; {follows}")));
                return false;
            }
        };
        let mut before = std::mem::take(&mut self.objects);
        let mut keeps_all = false;
        for item in items {
            complaints.extend(item.complaints(&place));
            let Item { line, outcome, .. } = item;
            match outcome {
                Outcome::Object { object, .. } => {
                    let id = object.id();
                    if self.objects.insert(id.clone(), *object).is_some() {
                        let text = format!("{id} is above in this file, too; this one counts");
                        complaints.push(Complaint::remark(format!("{place}, line {line}"), text));
                    }
                }
                Outcome::Skipped { .. } => {}
                Outcome::Unreadable { id: Some(id), .. } => {
                    if let Some(object) = before.remove(&id) {
                        self.objects.entry(id).or_insert(object);
                    }
                }
                Outcome::Unreadable { id: None, .. } => keeps_all = true,
            }
        }
        // Of what cannot be told, nobody knows whom it would close: until the file has been read without it, nothing is open.
        self.parsed |= !keeps_all;
        if keeps_all {
            for (id, object) in before {
                self.objects.entry(id).or_insert(object);
            }
        }
        true
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
