//! Why a store file could not be opened.

use std::io;
use std::path::PathBuf;

/// What is wrong with the file, where it is, and what to do.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum OpenError {
    /// The directory is missing and could not be made.
    #[error("registry store {path}: the directory could not be created: {source}", path = .path.display())]
    Directory { path: PathBuf, source: io::Error },
    /// The file could not be opened or created.
    #[error("registry store {path}: {source}; the file must be readable and writable by this user, on a writable disk", path = .path.display())]
    File { path: PathBuf, source: io::Error },
    /// Another process has it.
    #[error("registry store {path} is in use by another process; stop that one or give this one its own file with --store", path = .path.display())]
    Locked { path: PathBuf },
    /// Not our file, or damaged.
    #[error(
        "registry store {path} is not a readable store: {reason}; restore it from a backup, or move it away to start empty (nodes then take new subnets)",
        path = .path.display()
    )]
    Corrupt { path: PathBuf, reason: String },
    /// Written by a version that knows more.
    #[error("registry store {path} has format {found}, this version knows format {known}; use the version of felt that wrote it", path = .path.display())]
    Format { path: PathBuf, found: String, known: &'static str },
}
