//! Several sources as one: what each of them has, and what of that counts.
//!
//! Where two have an object of one name, that of the earlier source counts; if it goes there, the later one's does again.
//! Snapshots are compared by value with what their source had before, so only true changes come out.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::SourceNews;
use crate::policy::Change;
use crate::policy::model::{Object, ObjectId};

/// The objects of several sources.
#[derive(Debug)]
pub struct Merge {
    sources: Vec<Held>,
    counts: BTreeMap<&'static str, u64>,
}

/// What one source has.
#[derive(Debug, Default)]
struct Held {
    objects: HashMap<ObjectId, Object>,
    synced: bool,
}

/// What news amount to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// What changes in all.
    pub changes: Vec<Change>,
    /// Objects that are new at this source and do not count, because an earlier one has them.
    pub shadowed: Vec<ObjectId>,
}

impl Merge {
    /// So many sources, of which nothing is known yet.
    #[must_use]
    pub fn new(sources: usize) -> Self {
        Self { sources: (0..sources).map(|_| Held::default()).collect(), counts: BTreeMap::new() }
    }

    /// Whether every source has said what it has.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.sources.iter().all(|source| source.synced)
    }

    /// How many objects count, by kind as manifests spell it; kinds that were there once stay, with 0.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(kind, count)| (*kind, *count))
    }

    /// Everything that counts.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        let earlier = |source: usize, id: &ObjectId| self.sources.iter().take(source).any(|held| held.objects.contains_key(id));
        self.sources.iter().enumerate().flat_map(move |(source, held)| {
            held.objects.iter().filter(move |(id, _)| !earlier(source, id)).map(|(_, object)| object)
        })
    }

    /// Takes in what source number `source` has to say. One that does not exist has nothing to say.
    pub fn take(&mut self, source: usize, news: SourceNews) -> Taken {
        let mut taken = Taken::default();
        let Some(held) = self.sources.get_mut(source) else { return taken };
        match news {
            SourceNews::Changes(changes) => {
                for change in changes {
                    self.apply(source, change, &mut taken);
                }
            }
            SourceNews::Snapshot(objects) => {
                held.synced = true;
                let there: HashSet<ObjectId> = objects.iter().map(Object::id).collect();
                let mut gone: Vec<ObjectId> = held.objects.keys().filter(|id| !there.contains(*id)).cloned().collect();
                gone.sort_unstable();
                // What is new comes first: policies that are to take the place of others must be there before these go.
                let put = objects.into_iter().map(Change::Put);
                for change in put.chain(gone.into_iter().map(Change::Delete)) {
                    self.apply(source, change, &mut taken);
                }
            }
        }
        taken
    }

    fn apply(&mut self, source: usize, change: Change, taken: &mut Taken) {
        let id = match &change {
            Change::Put(object) => object.id(),
            Change::Delete(id) => id.clone(),
        };
        let was_there = self.sources.iter().any(|held| held.objects.contains_key(&id));
        let is_shadowed = self.sources.iter().take(source).any(|held| held.objects.contains_key(&id));
        let Some(held) = self.sources.get_mut(source) else { return };
        let before = match change {
            Change::Put(object) if held.objects.get(&id) == Some(&object) => return,
            Change::Put(object) => {
                if !is_shadowed {
                    taken.changes.push(Change::Put(object.clone()));
                }
                held.objects.insert(id.clone(), object)
            }
            Change::Delete(_) => {
                let Some(before) = held.objects.remove(&id) else { return };
                if !is_shadowed {
                    let next = self.sources.iter().skip(source).find_map(|held| held.objects.get(&id));
                    taken.changes.push(next.map_or_else(|| Change::Delete(id.clone()), |next| Change::Put(next.clone())));
                }
                Some(before)
            }
        };
        if is_shadowed && before.is_none() {
            taken.shadowed.push(id.clone());
        }
        let is_there = self.sources.iter().any(|held| held.objects.contains_key(&id));
        let count = self.counts.entry(kind_of(&id)).or_default();
        match (was_there, is_there) {
            (false, true) => *count += 1,
            (true, false) => *count = count.saturating_sub(1),
            _ => {}
        }
    }
}

/// The kind of an object, as manifests spell it.
fn kind_of(id: &ObjectId) -> &'static str {
    match id {
        ObjectId::Namespace(_) => "Namespace",
        ObjectId::Node(_) => "Node",
        ObjectId::Pod { .. } => "Pod",
        ObjectId::Policy { kind, .. } => kind.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::{Labels, Namespace};

    fn namespace(name: &str, label: &str) -> Object {
        let labels = Labels::from([("is".to_owned(), label.to_owned())]);
        Object::Namespace(Namespace { name: name.into(), labels })
    }

    fn put(name: &str, label: &str) -> Change {
        Change::Put(namespace(name, label))
    }

    fn delete(name: &str) -> Change {
        Change::Delete(ObjectId::Namespace(name.into()))
    }

    #[test]
    fn a_snapshot_is_compared_by_value_with_what_that_source_had() {
        let mut merge = Merge::new(1);
        assert_eq!(merge.take(0, SourceNews::Changes(vec![put("a", "1")])).changes, [put("a", "1")]);
        assert!(!merge.is_synced());
        let first = merge.take(0, SourceNews::Snapshot(vec![namespace("a", "1"), namespace("b", "1")]));
        assert_eq!(first.changes, [put("b", "1")]);
        assert!(merge.is_synced());
        let second = merge.take(0, SourceNews::Snapshot(vec![namespace("b", "2"), namespace("c", "1")]));
        assert_eq!(second.changes, [put("b", "2"), put("c", "1"), delete("a")]);
        assert_eq!(merge.take(0, SourceNews::Changes(vec![delete("nobody"), put("c", "1")])), Taken::default());
        assert_eq!(merge.counts().collect::<Vec<_>>(), [("Namespace", 2)]);
    }

    #[test]
    fn the_earlier_source_counts_and_the_later_one_again_when_it_is_gone() {
        let mut merge = Merge::new(2);
        let taken = merge.take(1, SourceNews::Snapshot(vec![namespace("a", "later")]));
        assert_eq!((taken.changes.as_slice(), taken.shadowed.len()), (&[put("a", "later")][..], 0));
        assert_eq!(merge.take(0, SourceNews::Snapshot(vec![namespace("a", "earlier")])).changes, [put("a", "earlier")]);
        let taken = merge.take(1, SourceNews::Changes(vec![put("a", "changed")]));
        assert_eq!(taken, Taken::default(), "said when it was new only");
        assert_eq!(merge.take(0, SourceNews::Snapshot(Vec::new())).changes, [put("a", "changed")]);
        assert_eq!(merge.take(0, SourceNews::Changes(vec![put("a", "x")])).changes, [put("a", "x")]);
        let taken = merge.take(1, SourceNews::Changes(vec![delete("a"), put("a", "y")]));
        assert_eq!((taken.changes.len(), taken.shadowed.as_slice()), (0, &[ObjectId::Namespace("a".into())][..]));
        assert_eq!(merge.objects().collect::<Vec<_>>(), [&namespace("a", "x")]);
        assert_eq!(merge.counts().collect::<Vec<_>>(), [("Namespace", 1)]);
        merge.take(0, SourceNews::Snapshot(Vec::new()));
        assert_eq!(merge.take(1, SourceNews::Snapshot(Vec::new())).changes, [delete("a")]);
        assert_eq!(merge.counts().collect::<Vec<_>>(), [("Namespace", 0)]);
        assert_eq!(merge.take(2, SourceNews::Snapshot(vec![namespace("z", "z")])), Taken::default());
    }
}
