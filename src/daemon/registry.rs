//! From the choice of a registry to the registry.

use std::sync::Arc;
use std::time::Duration;

use super::RegistryChoice;
use crate::control::registry::etcd::{EtcdConfigError, EtcdStore};
use crate::control::registry::remote::{RemoteError, RemoteRegistry};
use crate::control::registry::{RegistryAdmin, StoreRegistry};

/// Why a chosen registry cannot be used at all: what was chosen makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum RegistryChoiceError {
    /// Of etcd.
    #[error(transparent)]
    Etcd(#[from] EtcdConfigError),
    /// Of a registry server.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

/// The registry chosen. No contact is made; that is up to the first call. `lease_ttl` is for etcd, a server has its own.
pub fn open_registry(choice: &RegistryChoice, lease_ttl: Duration) -> Result<Arc<dyn RegistryAdmin>, RegistryChoiceError> {
    Ok(match choice {
        RegistryChoice::Etcd(config) => Arc::new(StoreRegistry::new(EtcdStore::new(config)?, lease_ttl)),
        RegistryChoice::Remote(remote) => Arc::new(RemoteRegistry::new(&remote.address, &remote.tls)?),
    })
}
