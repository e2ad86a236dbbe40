//! A store in memory whose calls interleave, with a hook to let somebody else be faster.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::control::registry::RegistryError;
use crate::control::registry::store::{Listing, Store};
use crate::lease::{Lease, LeaseAttrs, SubnetKey, Update};

type Hook = Box<dyn FnOnce(&mut Records) + Send>;

/// What the store holds.
#[derive(Default)]
pub(super) struct Records {
    pub(super) config: Option<String>,
    pub(super) leases: BTreeMap<SubnetKey, Lease>,
    pub(super) nodes: BTreeMap<SubnetKey, String>,
    /// Keys whose value nobody can read: there, but in no list.
    pub(super) unreadable: Vec<SubnetKey>,
    pub(super) revision: u64,
    /// How many writes were tried.
    pub(super) writes: usize,
    /// Runs before the next write.
    pub(super) before_write: Option<Hook>,
}

impl Records {
    /// Puts a record as some other client would.
    pub(super) fn put(&mut self, subnet: SubnetKey, attrs: &LeaseAttrs, ttl: Option<Duration>) -> Lease {
        self.revision += 1;
        let lease = Lease { subnet, attrs: attrs.clone(), ttl, revision: self.revision };
        self.leases.insert(subnet, lease.clone());
        lease
    }
}

#[derive(Default)]
pub(super) struct FakeStore(pub(super) Mutex<Records>);

impl FakeStore {
    pub(super) fn records(&self) -> std::sync::MutexGuard<'_, Records> {
        self.0.lock().unwrap()
    }

    async fn for_write(&self) -> std::sync::MutexGuard<'_, Records> {
        tokio::task::yield_now().await;
        let mut records = self.records();
        records.writes += 1;
        if let Some(hook) = records.before_write.take() {
            hook(&mut records);
        }
        records
    }
}

#[async_trait]
impl Store for FakeStore {
    fn describe(&self) -> String {
        "fake store".into()
    }

    fn config_place(&self) -> String {
        "the fake store".into()
    }

    async fn config(&self) -> Result<Option<String>, RegistryError> {
        Ok(self.records().config.clone())
    }

    async fn put_config(&self, text: &str) -> Result<(), RegistryError> {
        self.records().config = Some(text.into());
        Ok(())
    }

    async fn watch_config(&self) -> mpsc::Receiver<String> {
        mpsc::channel(1).1
    }

    async fn list(&self) -> Result<Listing, RegistryError> {
        tokio::task::yield_now().await;
        let records = self.records();
        Ok(Listing { leases: records.leases.values().cloned().collect(), revision: records.revision })
    }

    async fn create(
        &self,
        subnet: &SubnetKey,
        attrs: &LeaseAttrs,
        ttl: Option<Duration>,
    ) -> Result<Option<Lease>, RegistryError> {
        let mut records = self.for_write().await;
        let there = records.leases.contains_key(subnet) || records.unreadable.contains(subnet);
        Ok((!there).then(|| records.put(*subnet, attrs, ttl)))
    }

    async fn replace(&self, lease: &Lease, attrs: &LeaseAttrs, ttl: Option<Duration>) -> Result<Option<Lease>, RegistryError> {
        let mut records = self.for_write().await;
        let unchanged = records.leases.get(&lease.subnet).is_some_and(|there| there.revision == lease.revision);
        Ok(unchanged.then(|| records.put(lease.subnet, attrs, ttl)))
    }

    async fn delete(&self, subnet: &SubnetKey, revision: Option<u64>) -> Result<bool, RegistryError> {
        let mut records = self.for_write().await;
        let matches = records.leases.get(subnet).is_some_and(|there| revision.is_none_or(|known| known == there.revision));
        if matches {
            records.leases.remove(subnet);
            records.nodes.remove(subnet);
        }
        Ok(matches)
    }

    async fn watch_leases(&self) -> mpsc::Receiver<Update> {
        mpsc::channel(1).1
    }

    async fn node_of(&self, subnet: &SubnetKey) -> Result<Option<String>, RegistryError> {
        Ok(self.records().nodes.get(subnet).cloned())
    }

    async fn note_node(&self, lease: &Lease, node: &str) -> Result<(), RegistryError> {
        self.records().nodes.insert(lease.subnet, node.into());
        Ok(())
    }
}
