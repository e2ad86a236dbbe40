//! Looks at files that exist only here.

use std::cell::RefCell;

use super::super::look::look;
use super::*;

/// Files in a folder of their own, and what is known of them.
struct Stand {
    directory: tempfile::TempDir,
    folder: Folder,
    paths: Vec<PathBuf>,
    reads: RefCell<usize>,
}

impl Stand {
    /// Looks at the folder itself.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let paths = vec![directory.path().to_owned()];
        Self { folder: Folder::new(paths.clone()), directory, paths, reads: RefCell::default() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.at(name), text).unwrap();
    }

    fn look(&mut self) -> Option<SourceReport> {
        self.folder.take(look(&self.paths), |path| {
            *self.reads.borrow_mut() += 1;
            super::super::look::read(path)
        })
    }

    /// What the second of two looks gives; the first must give nothing.
    fn twice(&mut self) -> Option<SourceReport> {
        assert_eq!(self.look(), None);
        self.look()
    }

    /// The same, in words.
    fn told(&mut self) -> Vec<String> {
        let Some(report) = self.twice() else { return Vec::new() };
        let news = match report.news {
            SourceNews::Snapshot(objects) => objects.iter().map(|object| format!("has {}", name(object))).collect(),
            SourceNews::Changes(changes) => changes
                .iter()
                .map(|change| match change {
                    Change::Put(object) => format!("put {}", name(object)),
                    Change::Delete(id) => format!("delete {id}"),
                })
                .collect::<Vec<_>>(),
        };
        let place = self.directory.path().display().to_string();
        let said = report.complaints.iter().map(|complaint| complaint.to_string().replace(&place, "DIR"));
        news.into_iter().chain(said).collect()
    }
}

/// Name and label.
fn name(object: &Object) -> String {
    match object {
        Object::Namespace(namespace) => {
            format!("{}={}", namespace.name, namespace.labels.get("is").map_or("", String::as_str))
        }
        other => other.id().to_string(),
    }
}

fn namespace(name: &str, label: &str) -> String {
    format!("---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n  labels: {{is: \"{label}\"}}\n")
}

#[test]
fn a_file_counts_once_it_stands_still_and_is_read_once() {
    let mut stand = Stand::new();
    stand.write("a.yaml", &namespace("a", "one"));
    assert_eq!(stand.look(), None);
    // Written on meanwhile.
    stand.write("a.yaml", &(namespace("a", "two") + &namespace("b", "two")));
    assert_eq!(stand.look(), None);
    assert_eq!(stand.told_now(), ["has a=two", "has b=two"]);
    assert_eq!((stand.look(), stand.look(), *stand.reads.borrow()), (None, None, 1));
    stand.write("a.yaml", &namespace("b", "three"));
    assert_eq!(stand.told(), ["put b=three", "delete Namespace a"]);
}

#[test]
fn an_empty_folder_is_synced_and_has_nothing() {
    let mut stand = Stand::new();
    assert_eq!(stand.look(), Some(SourceReport { news: SourceNews::Snapshot(Vec::new()), complaints: Vec::new() }));
}

#[test]
fn a_file_that_goes_takes_its_objects_along_at_the_second_look() {
    let mut stand = Stand::new();
    stand.write("a.yaml", &namespace("a", "x"));
    stand.write("b.yaml", &namespace("b", "x"));
    assert_eq!(stand.told(), ["has a=x", "has b=x"]);
    std::fs::remove_file(stand.at("a.yaml")).unwrap();
    assert_eq!(stand.look(), None);
    // Back in time, as with editors that delete before they write: nothing has happened.
    stand.write("a.yaml", &namespace("a", "x"));
    assert_eq!((stand.look(), stand.look()), (None, None));
    std::fs::remove_file(stand.at("a.yaml")).unwrap();
    assert_eq!(stand.told(), ["delete Namespace a"]);
}

#[test]
fn a_broken_file_changes_nothing_and_is_said_once() {
    let mut stand = Stand::new();
    stand.write("a.yaml", &(namespace("a", "x") + &namespace("b", "x")));
    assert_eq!(stand.told(), ["has a=x", "has b=x"]);
    stand.write("a.yaml", &(namespace("a", "y") + "---\nb: [\n"));
    let told = stand.told();
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("DIR/a.yaml: line 8: ") && told[0].ends_with("before stays in force"), "{told:?}");
    assert_eq!((stand.look(), stand.look()), (None, None));
    stand.write("a.yaml", &namespace("a", "y"));
    assert_eq!(stand.told(), ["put a=y", "delete Namespace b"]);
}

#[test]
fn nothing_is_synced_before_every_file_could_be_parsed() {
    let mut stand = Stand::new();
    stand.write("a.yaml", "a: [");
    stand.write("b.yaml", &namespace("b", "x"));
    let told = stand.told();
    assert_eq!(told[0], "put b=x", "what is known counts already, in part");
    assert!(told[1].ends_with("nothing in it is in force"), "{told:?}");
    assert!(!stand.folder.synced);
    stand.write("a.yaml", &namespace("a", "x"));
    assert_eq!(stand.told(), ["has a=x", "has b=x"]);
    // Once synced, a new broken file is only said.
    stand.write("c.yaml", "a: [");
    assert_eq!(stand.told().len(), 1);
    assert!(stand.folder.synced);
}

#[test]
fn an_unreadable_object_stays_as_it_was() {
    let mut stand = Stand::new();
    stand.write("a.yaml", &(namespace("a", "x") + &namespace("b", "x") + &namespace("c", "x")));
    assert_eq!(stand.told(), ["has a=x", "has b=x", "has c=x"]);
    stand.write("a.yaml", &(namespace("a", "y") + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: b, labels: 7}\n"));
    let told = stand.told();
    assert_eq!(told[..2], ["put a=y", "delete Namespace c"]);
    assert!(told.len() == 3 && told[2].starts_with("DIR/a.yaml, line 8: Namespace b: "), "{told:?}");
    // Nobody knows which one this was to be.
    stand.write("a.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {labels: {}}\n");
    let told = stand.told();
    assert!(told.len() == 1 && told[0].contains("`metadata.name`"), "{told:?}");
}

#[test]
fn of_two_objects_of_one_name_the_later_file_counts() {
    let mut stand = Stand::new();
    stand.write("a.yaml", &namespace("a", "first"));
    stand.write("b.yaml", &namespace("a", "second"));
    let said = "DIR/b.yaml: Namespace a is in DIR/a.yaml too; the one here counts";
    assert_eq!(stand.told(), ["has a=second", said]);
    stand.write("a.yaml", &(namespace("a", "third") + &namespace("z", "z")));
    assert_eq!(stand.told(), ["put z=z"]);
    std::fs::remove_file(stand.at("b.yaml")).unwrap();
    assert_eq!(stand.told(), ["put a=third"]);
    stand.write("a.yaml", &(namespace("a", "one") + &namespace("a", "two")));
    let told = stand.told();
    assert_eq!(told[..2], ["put a=two", "delete Namespace z"]);
    assert_eq!(told[2], "DIR/a.yaml, line 8: Namespace a is above in this file, too; this one counts");
}

#[test]
fn a_folder_that_cannot_be_looked_at_keeps_what_it_held() {
    let mut stand = Stand::new();
    let (inner, elsewhere) = (stand.at("inner"), stand.at("elsewhere"));
    stand.paths = vec![inner.clone()];
    stand.folder = Folder::new(stand.paths.clone());
    let report = stand.look().unwrap();
    assert!(report.news == SourceNews::none() && report.complaints[0].text.contains("waiting for it"), "{report:?}");
    assert_eq!(stand.look(), None);
    std::fs::create_dir(&inner).unwrap();
    stand.write("inner/a.yaml", &namespace("a", "x"));
    assert_eq!(stand.told(), ["has a=x"]);
    std::fs::rename(&inner, &elsewhere).unwrap();
    let report = stand.look().unwrap();
    assert!(report.news == SourceNews::none() && report.complaints[0].text.contains("stays in force"), "{report:?}");
    assert_eq!((stand.look(), stand.look()), (None, None));
    std::fs::rename(&elsewhere, &inner).unwrap();
    assert_eq!((stand.look(), stand.look()), (None, None));
}

#[test]
fn a_swapped_configmap_is_read_anew() {
    use std::os::unix::fs::symlink;
    let mut stand = Stand::new();
    for version in ["..1", "..2"] {
        std::fs::create_dir(stand.at(version)).unwrap();
        stand.write(&format!("{version}/p.yaml"), &namespace("a", version.trim_matches('.')));
    }
    symlink("..1", stand.at("..data")).unwrap();
    symlink("..data/p.yaml", stand.at("p.yaml")).unwrap();
    assert_eq!(stand.told(), ["has a=1"]);
    symlink("..2", stand.at("..new")).unwrap();
    std::fs::rename(stand.at("..new"), stand.at("..data")).unwrap();
    assert_eq!(stand.told(), ["put a=2"]);
}

impl Stand {
    /// What one look gives, in words, where the one before it was looked at already.
    fn told_now(&mut self) -> Vec<String> {
        let report = self.look().expect("something to tell");
        let SourceNews::Snapshot(objects) = report.news else { panic!("{report:?}") };
        objects.iter().map(|object| format!("has {}", name(object))).collect()
    }
}
