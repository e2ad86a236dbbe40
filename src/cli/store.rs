//! The embedded store of a registry server, as commands open it.

use std::io::ErrorKind;
use std::path::Path;

use super::Failure;
use crate::control::registry::embedded::{EmbeddedStore, OpenError};

/// Opens the store in `file`, or makes it there.
pub async fn open(file: &Path) -> Result<EmbeddedStore, Failure> {
    EmbeddedStore::open(file).await.map_err(failure)
}

fn failure(error: OpenError) -> Failure {
    match &error {
        OpenError::Locked { .. } => Failure::NotPermitted(error.into()),
        OpenError::Directory { source, .. } | OpenError::File { source, .. }
            if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
        {
            Failure::NotPermitted(error.into())
        }
        _ => Failure::Internal(error.into()),
    }
}
