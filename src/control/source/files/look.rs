//! One look at the paths: which files there are, and what tells a changed one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::super::documents::{Format, LARGEST};
use super::super::reading::format_of;
use crate::control::settling::Stamp;

/// A file's place among all: the number of the path it was found under, and its own path.
pub(super) type Place = (usize, PathBuf);

/// What there was to see.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// The files found.
    pub files: BTreeMap<Place, Stamp>,
    /// Paths, by their number, where nothing could be looked at, and why.
    pub hidden: BTreeMap<usize, String>,
}

/// Looks at `paths`, each a folder or a file.
pub(super) fn look(paths: &[PathBuf]) -> Look {
    let mut look = Look::default();
    for (number, path) in paths.iter().enumerate() {
        if let Err(error) = look_at(number, path, &mut look.files) {
            look.files.retain(|(of, _), _| *of != number);
            look.hidden.insert(number, format!("cannot be looked at: {error}"));
        }
    }
    look
}

/// The files that count under `path`, a folder or a file, in their order.
///
/// # Errors
/// When it cannot be looked at.
pub fn manifests_in(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = BTreeMap::new();
    look_at(0, path, &mut files)?;
    Ok(files.into_keys().map(|(_, file)| file).collect())
}

/// A file's text, and how it is to be read. What is larger than a manifest may be is not read at all.
///
/// # Errors
/// What is wrong with the file, in a few words.
pub fn read(path: &Path) -> Result<(String, Format), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("expected at most {} MiB, found more; split it", LARGEST >> 20));
    }
    let text = String::from_utf8(bytes).map_err(|error| format!("expected UTF-8 text: {error}"))?;
    Ok((text, format_of(path).unwrap_or(Format::Yaml)))
}

fn look_at(number: usize, path: &Path, files: &mut BTreeMap<Place, Stamp>) -> io::Result<()> {
    let found = fs::metadata(path)?;
    if !found.is_dir() {
        if !found.is_file() {
            return Err(io::Error::other("neither a folder nor a file"));
        }
        files.insert((number, path.to_owned()), Stamp::of(&found));
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().first().is_none_or(|first| *first == b'.');
        if is_hidden || format_of(Path::new(&entry.file_name())).is_none() {
            continue;
        }
        // Followed, since ConfigMaps are mounted as links. One that leads nowhere is gone, as is a file that went just now.
        if let Ok(found) = fs::metadata(entry.path())
            && found.is_file()
        {
            files.insert((number, entry.path()), Stamp::of(&found));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn of_a_folder_only_manifests_count() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["b.yaml", "a.json", "c.yml", ".hidden.yaml", "d.yaml~", ".e.yaml.swp", "f.txt", "#g.yaml#", "yaml"] {
            fs::write(at(name), "").unwrap();
        }
        fs::create_dir(at("sub.yaml")).unwrap();
        symlink("nowhere", at("dangling.yaml")).unwrap();
        symlink("f.txt", at("link.yaml")).unwrap();
        let found = look(&[folder.path().to_owned(), at("f.txt"), at("gone.yaml")]);
        let names: Vec<_> =
            found.files.keys().map(|(of, path)| (*of, path.file_name().unwrap().to_str().unwrap().to_owned())).collect();
        let expected = [(0, "a.json"), (0, "b.yaml"), (0, "c.yml"), (0, "link.yaml"), (1, "f.txt")];
        assert_eq!(names, expected.map(|(of, name)| (of, name.to_owned())));
        assert_eq!(found.hidden.keys().collect::<Vec<_>>(), [&2]);
    }

    #[test]
    fn a_change_shows_and_so_does_a_link_that_leads_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // As Kubernetes mounts a ConfigMap.
        for (version, text) in [("..1", "a: 1"), ("..2", "a: 2")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("p.yaml"), text).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/p.yaml", at("p.yaml")).unwrap();
        let paths = [folder.path().to_owned()];
        let (first, again) = (look(&paths).files, look(&paths).files);
        assert_eq!((first.len(), &first), (1, &again));
        symlink("..2", at("..new")).unwrap();
        fs::rename(at("..new"), at("..data")).unwrap();
        let swapped = look(&paths).files;
        assert!(swapped.len() == 1 && swapped != first);
        fs::write(at("..2").join("p.yaml"), "a: 23").unwrap();
        assert_ne!(look(&paths).files, swapped);
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, b"a: \xff").unwrap();
        assert!(read(&file).unwrap_err().contains("UTF-8"));
        File::create(&file).unwrap().set_len(LARGEST + 1).unwrap();
        assert!(read(&file).unwrap_err().contains("at most 64 MiB"));
    }
}
