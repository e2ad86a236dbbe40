//! A [`Registry`] over any [`Store`]: acquire, renew and reserve, written once.
//!
//! Invariants: a subnet is only ever created if absent and rewritten if unchanged, so no node's record is overwritten by mistake;
//! a lost race is answered with a fresh list, never with a write; a reservation stays one whatever its node does.

mod acquire;
mod admin;
#[cfg(test)]
mod fake;
mod range;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::store::Store;
use super::{AcquireRequest, LEASE_TTL, PolicyStore, Registry, RegistryError, Renewal, is_still_ours};
use crate::lease::{Lease, LeaseAttrs, SubnetKey, Update};

/// How often a rewrite is tried against a record that somebody else keeps changing.
const REWRITE_ATTEMPTS: u32 = 10;

/// Flannel's subnet manager over a key-value store.
#[derive(Debug)]
pub struct StoreRegistry<S> {
    store: S,
    ttl: Duration,
}

impl<S: Store> StoreRegistry<S> {
    /// A registry whose leases last `ttl` unless renewed; nodes use [`LEASE_TTL`], tests less.
    pub fn new(store: S, ttl: Duration) -> Self {
        Self { store, ttl }
    }

    /// A registry with flannel's lease time.
    pub fn with_default_ttl(store: S) -> Self {
        Self::new(store, LEASE_TTL)
    }

    /// The store underneath.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// How long a lease lasts unless renewed.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Rewrites a record without turning a reservation into a lease or the other way round.
    async fn rewrite(&self, lease: &Lease, attrs: &LeaseAttrs) -> Result<Option<Lease>, RegistryError> {
        self.store.replace(lease, attrs, lease.ttl.map(|_| self.ttl)).await
    }
}

#[async_trait]
impl<S: Store> Registry for StoreRegistry<S> {
    fn describe(&self) -> String {
        self.store.describe()
    }

    async fn config(&self) -> Result<String, RegistryError> {
        let config = self.store.config().await?;
        config.ok_or_else(|| RegistryError::NoConfig { place: self.store.config_place() })
    }

    async fn watch_config(&self) -> mpsc::Receiver<String> {
        self.store.watch_config().await
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<Lease, RegistryError> {
        self.take(request).await
    }

    async fn renew(&self, lease: &Lease, attrs: &LeaseAttrs) -> Result<Renewal, RegistryError> {
        // Without a revision, as over the lease API, there is nothing a rewrite could be compared with.
        let mut known = Some(lease.clone()).filter(|lease| lease.revision != 0);
        for _ in 0..REWRITE_ATTEMPTS {
            let current = match known.take() {
                Some(known) => known,
                // The record moved. Under our address it is still ours: renewed by an earlier call whose answer was lost, or
                // reserved by hand; what it is now decides whether it ends.
                None => match self.store.read(&lease.subnet).await? {
                    Some(current) if is_still_ours(&current, lease, attrs) => current,
                    _ => return Ok(Renewal::Lost),
                },
            };
            if let Some(renewed) = self.rewrite(&current, attrs).await? {
                return Ok(Renewal::Renewed(renewed));
            }
        }
        Err(RegistryError::Raced { attempts: REWRITE_ATTEMPTS })
    }

    async fn revoke(&self, subnet: &SubnetKey) -> Result<(), RegistryError> {
        self.store.delete(subnet, None).await.map(drop)
    }

    async fn watch_leases(&self) -> mpsc::Receiver<Update> {
        self.store.watch_leases().await
    }

    fn policy_store(&self) -> Result<Arc<dyn PolicyStore>, RegistryError> {
        self.store.policy_store()
    }

    fn forget_connections(&self) {
        self.store.forget_connections();
    }
}
