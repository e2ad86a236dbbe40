//! A registry made of a key-value store: the acquire, renew and reserve rules, written once for every store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{PolicyStore, RegistryError, no_policies};
use crate::lease::{Lease, LeaseAttrs, SubnetKey, Update};

/// The leases and the revision they were read at.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Every readable lease.
    pub leases: Vec<Lease>,
    /// The store's revision as of this listing.
    pub revision: u64,
}

/// What a key-value store offers. Each writing call is one transaction: it happens whole or not at all.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Which store this is, for messages.
    fn describe(&self) -> String;
    /// Where the config is looked for, for messages: the exact key and API.
    fn config_place(&self) -> String;

    /// The config's text; `None` if there is none.
    async fn config(&self) -> Result<Option<String>, RegistryError>;
    /// Puts the config.
    async fn put_config(&self, text: &str) -> Result<(), RegistryError>;
    /// See [`Registry::watch_config`](super::Registry::watch_config).
    async fn watch_config(&self) -> mpsc::Receiver<String>;

    /// Every lease. Unreadable records are skipped, each warned of once.
    async fn list(&self) -> Result<Listing, RegistryError>;
    /// [`list`](Self::list) for those who only ask who holds what: whether a lease ends is right, the time left may be a guess.
    async fn holders(&self) -> Result<Listing, RegistryError> {
        self.list().await
    }
    /// One lease; `None` if there is none or it is unreadable.
    async fn read(&self, subnet: &SubnetKey) -> Result<Option<Lease>, RegistryError> {
        Ok(self.list().await?.leases.into_iter().find(|lease| lease.subnet == *subnet))
    }
    /// Creates the lease if its key is absent. `ttl` `None` makes a reservation. `None` returned: somebody was faster.
    async fn create(&self, subnet: &SubnetKey, attrs: &LeaseAttrs, ttl: Option<Duration>)
    -> Result<Option<Lease>, RegistryError>;
    /// Rewrites the lease if its record's revision is still `lease.revision`. `None` returned: it is not. The node noted beside
    /// the lease stays.
    async fn replace(&self, lease: &Lease, attrs: &LeaseAttrs, ttl: Option<Duration>) -> Result<Option<Lease>, RegistryError>;
    /// Deletes the lease; with `revision`, only if the record's revision is still that. Whether something was deleted.
    async fn delete(&self, subnet: &SubnetKey, revision: Option<u64>) -> Result<bool, RegistryError>;
    /// See [`Registry::watch_leases`](super::Registry::watch_leases).
    async fn watch_leases(&self) -> mpsc::Receiver<Update>;

    /// The node noted beside the lease (see [`AcquireRequest::node`](super::AcquireRequest::node)), if any.
    async fn node_of(&self, subnet: &SubnetKey) -> Result<Option<String>, RegistryError>;
    /// Notes the node beside the lease, for as long as the lease lives.
    async fn note_node(&self, lease: &Lease, node: &str) -> Result<(), RegistryError>;

    /// See [`Registry::policy_store`](super::Registry::policy_store).
    fn policy_store(&self) -> Result<Arc<dyn PolicyStore>, RegistryError> {
        Err(no_policies(&self.describe()))
    }

    /// See [`Registry::forget_connections`](super::Registry::forget_connections).
    fn forget_connections(&self) {}
}
