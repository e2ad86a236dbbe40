//! Manifests from files, folders and standard input, and what is wrong with them.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use super::tool_args::ReadArgs;
use crate::cli::{Failure, output};
use crate::control::source::documents::Format;
use crate::control::source::files::manifests_in;
use crate::control::source::reading::{self, Outcome};
use crate::control::source::{Complaint, Weight};
use crate::policy::model::{Object, ObjectId};
use crate::policy::offline::World;

/// Pods named of those that claim one address.
const MOST_NAMED: usize = 4;

/// What was read.
pub struct Found {
    /// The cluster.
    pub world: World,
    /// Objects and files that cannot be used at all.
    pub errors: usize,
    /// Parts of objects that were not understood, and count as whatever lets least through.
    pub remarks: usize,
    keep_going: bool,
}

/// Reads everything, and tells on standard error what is wrong with it.
pub fn world(args: &ReadArgs) -> Result<Found, Failure> {
    let mut objects = Objects::default();
    for path in &args.files {
        if is_stdin(path) {
            let text = text(path)?;
            objects.text("standard input", &text, Format::Yaml);
        } else if path.is_dir() {
            let files = manifests_in(path).map_err(|error| unreadable(path, &error))?;
            if files.is_empty() {
                return Err(Failure::Usage(format!("{}: expected files that end in .yaml, .yml or .json", path.display())));
            }
            for file in files {
                objects.file(&file)?;
            }
        } else {
            objects.file(path)?;
        }
    }
    for complaint in &objects.complaints {
        let weight = if complaint.weight == Weight::Error { "error" } else { "warning" };
        output::complain(&format!("{weight}: {complaint}"));
    }
    let world = World::new(objects.found, args.external.clone());
    for (address, pods) in world.contested() {
        let names: Vec<String> = pods.iter().take(MOST_NAMED).map(ToString::to_string).collect();
        let names = names.join(", ");
        output::complain(&format!(
            "warning: {} pods claim {address}, {names} among them; in a network one of them has it",
            pods.len()
        ));
    }
    let of_weight = |weight| objects.complaints.iter().filter(|complaint| complaint.weight == weight).count();
    let (errors, remarks) = (of_weight(Weight::Error), of_weight(Weight::Remark));
    Ok(Found { world, errors, remarks, keep_going: args.keep_going })
}

/// A whole file, or, for `-`, standard input.
pub fn text(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let done = if is_stdin(path) {
        io::stdin().lock().read_to_end(&mut bytes).map(|_| ())
    } else {
        fs::read(path).map(|read| bytes = read)
    };
    done.map_err(|error| unreadable(path, &error))?;
    String::from_utf8(bytes).map_err(|error| Failure::Usage(format!("{}: expected UTF-8 text: {error}", name(path))))
}

/// What a file is called in messages.
pub fn name(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

impl Found {
    /// Whether what was read is enough to answer by. After the answer was given: it stands, for what it is worth.
    ///
    /// # Errors
    /// Exit code 2, if objects are missing, and nobody said to go on without them.
    pub fn is_whole(&self) -> Result<(), Failure> {
        self.judge(self.errors)
    }

    /// The same, where an answer counts only if everything was understood as it was meant.
    pub fn is_understood(&self) -> Result<(), Failure> {
        self.judge(self.errors + self.remarks)
    }

    fn judge(&self, faults: usize) -> Result<(), Failure> {
        if faults == 0 || self.keep_going {
            return Ok(());
        }
        let what = if faults == 1 { "1 thing was" } else { &format!("{faults} things were") };
        Err(Failure::Usage(format!(
            "{what} not understood, so the answer is that for the rest; correct it, or go by that with --keep-going"
        )))
    }
}

/// Objects, by where they were first seen.
#[derive(Default)]
struct Objects {
    found: Vec<Object>,
    places: HashMap<ObjectId, String>,
    complaints: Vec<Complaint>,
}

impl Objects {
    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let format = reading::format_of(path).unwrap_or(Format::Yaml);
        self.text(&name(path), &text(path)?, format);
        Ok(())
    }

    fn text(&mut self, place: &str, text: &str, format: Format) {
        let items = match reading::read(text, format) {
            Ok(items) => items,
            Err(error) => return self.complaints.push(Complaint::error(place, error.to_string())),
        };
        for item in items {
            self.complaints.extend(item.complaints(place));
            let Outcome::Object { object, .. } = item.outcome else { continue };
            let here = format!("{place}, line {}", item.line);
            if let Some(before) = self.places.insert(object.id(), here.clone()) {
                let text = format!("{} was in {before} already; what comes last counts", object.id());
                self.complaints.push(Complaint::error(here, text));
            }
            self.found.push(*object);
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::Usage(format!("cannot read {}: {error}", name(path)))
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}
