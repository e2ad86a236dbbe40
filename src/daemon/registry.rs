//! From the choice of a registry to the registry.

use std::sync::Arc;
use std::time::Duration;

use super::RegistryChoice;
#[cfg(feature = "kube")]
use crate::control::kube::KubeAccessError;
use crate::control::registry::etcd::{EtcdConfigError, EtcdStore};
#[cfg(feature = "kube")]
use crate::control::registry::kube::KubeRegistry;
use crate::control::registry::remote::{RemoteError, RemoteRegistry};
use crate::control::registry::static_peers::{StaticError, StaticRegistry};
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
    /// Of peers that were named.
    #[error(transparent)]
    Static(#[from] StaticError),
    /// Of a Kubernetes cluster.
    #[cfg(feature = "kube")]
    #[error("--kube-subnet-mgr: {0}")]
    Kube(#[from] KubeAccessError),
    /// Of one, for a Felt that cannot speak to it.
    #[cfg(not(feature = "kube"))]
    #[error("--kube-subnet-mgr: this Felt was built without the feature `kube`")]
    Kube,
}

/// The registry chosen. No contact is made; that is up to the first call. `lease_ttl` is for etcd; a server has its own,
/// and in a cluster leases have no end. A file of named peers is read at once. Must be called within a runtime.
pub fn open_registry(choice: &RegistryChoice, lease_ttl: Duration) -> Result<Arc<dyn RegistryAdmin>, RegistryChoiceError> {
    Ok(match choice {
        RegistryChoice::Etcd(config) => Arc::new(StoreRegistry::new(EtcdStore::new(config)?, lease_ttl)),
        #[cfg(feature = "kube")]
        RegistryChoice::Kube(cluster) => Arc::new(KubeRegistry::new(cluster)?),
        #[cfg(not(feature = "kube"))]
        RegistryChoice::Kube(_) => return Err(RegistryChoiceError::Kube),
        RegistryChoice::Remote(remote) => Arc::new(RemoteRegistry::new(&remote.address, &remote.tls)?),
        RegistryChoice::Static(plan) => Arc::new(StaticRegistry::open(plan)?),
    })
}
