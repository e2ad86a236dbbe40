//! The registry that a command by hand is about: the embedded store of a server, or one that others use too.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use super::Failure;
use super::options::Target;
use crate::control::registry::embedded::{EmbeddedStore, OpenError};
use crate::control::registry::{LEASE_TTL, RegistryAdmin, RegistryError, StoreRegistry};
use crate::daemon::open_registry;

/// Does `work` with the registry.
pub fn with_registry<T>(
    target: Target,
    work: impl AsyncFnOnce(&dyn RegistryAdmin) -> Result<T, RegistryError>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime").map_err(Failure::Internal)?;
    runtime.block_on(async {
        let registry: Arc<dyn RegistryAdmin> = match target {
            Target::File(file) => Arc::new(StoreRegistry::with_default_ttl(open(&file).await?)),
            Target::Registry(choice) => open_registry(&choice, LEASE_TTL).map_err(|error| Failure::Usage(error.to_string()))?,
        };
        Ok(work(registry.as_ref()).await?)
    })
}

/// That there is such a store: opening would make the file, which is not what reading is for.
pub fn there(target: &Target) -> Result<(), Failure> {
    match target {
        Target::File(file) if !file.exists() => Err(Failure::Usage(format!("there is no registry store at {}", file.display()))),
        _ => Ok(()),
    }
}

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
