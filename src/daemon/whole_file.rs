//! Files that readers see whole: the old one or the new one, never a part.
//!
//! The bytes go to a file of a random name beside it, reach the disk, and take the name then.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Permissions of a new file; those of a file already there are kept.
const MODE: u32 = 0o644;
/// Permissions of directories made for it.
const DIRECTORY_MODE: u32 = 0o755;

/// A file that could not be put there.
#[derive(Debug, thiserror::Error)]
#[error("{step} failed: {source}")]
pub struct WholeFileError {
    step: &'static str,
    source: io::Error,
}

/// Puts a file of these bytes at `path`, making parent directories as needed. What is there and no file, such as a terminal, is
/// written to.
///
/// # Errors
/// When that fails; a file that was there is as it was then.
pub fn put(path: &Path, bytes: &[u8]) -> Result<(), WholeFileError> {
    let failed = |step| move |source| WholeFileError { step, source };
    // A link stays one.
    let target = fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    let present = fs::metadata(path).ok();
    if present.as_ref().is_some_and(|present| !present.is_file() && !present.is_dir()) {
        let written = OpenOptions::new().write(true).open(path).and_then(|mut open| open.write_all(bytes));
        return written.map_err(failed("writing to it"));
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directories = DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory);
    directories.map_err(failed("making its directory"))?;
    let mode = present.map_or(MODE, |present| present.permissions().mode() & 0o7777);
    let temporary = directory.join(format!(".{name}.{:016x}", rand::random::<u64>()));
    let put = write_synced(&temporary, bytes, mode)
        .map_err(failed("writing it under a temporary name"))
        .and_then(|()| fs::rename(&temporary, path).map_err(failed("renaming the new one to it")));
    if put.is_err() {
        // Whatever is left of it is in nobody's way; the error to report is the first one.
        _ = fs::remove_file(&temporary);
        return put;
    }
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed("syncing its directory"))
}

fn write_synced(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    // The mode of open is cut by the umask, this one is not.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_one_and_a_device_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        put(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        put(Path::new("/dev/null"), b"x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn what_cannot_be_replaced_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = put(folder.path(), b"x").unwrap_err();
        assert!(error.to_string().starts_with("renaming"), "{error}");
    }
}
