//! Policy objects in etcd: `<prefix>/policy/<kind>/<namespace or _>/<name>`, each with its manifest as JSON.

use std::collections::HashSet;

use async_trait::async_trait;
use etcd_client::{Event, EventType, GetOptions, KeyValue, Txn, TxnOp};
use tokio::sync::mpsc;
use tracing::warn;

use super::store::{AHEAD, EtcdStore};
use super::watch::{Closed, Follower};
use crate::control::registry::{PolicyEntry, PolicyEvent, PolicyStore, PolicyUpdate, RegistryError, policy_id, policy_key};
use crate::policy::model::ObjectId;

/// Most operations in one transaction, and most bytes: below etcd's own limits of 128 and 1.5 MiB.
const AT_ONCE: (usize, usize) = (100, 1 << 20);

/// How many keys that name no object are remembered as warned of.
const REMEMBERED: usize = 1024;

#[async_trait]
impl PolicyStore for EtcdStore {
    fn policy_place(&self) -> String {
        format!("keys {} in {} (v3 API)", self.keys().policies(), self.name())
    }

    async fn policies(&self) -> Result<Vec<PolicyEntry>, RegistryError> {
        Ok(self.policies_at().await?.0.iter().filter_map(|kv| entry(&self.keys().policies(), kv)).collect())
    }

    async fn write_policies(&self, events: &[PolicyEvent]) -> Result<(), RegistryError> {
        let below = self.keys().policies();
        let mut operations = Vec::new();
        let mut bytes = 0;
        for event in events {
            let key = policy_key(event.id()).map_err(|error| RegistryError::Unsupported(error.to_string()))?;
            let key = format!("{below}{key}");
            let (size, operation) = match event {
                PolicyEvent::Put(entry) => (entry.body.len(), TxnOp::put(key, entry.body.as_str(), None)),
                PolicyEvent::Deleted(_) => (0, TxnOp::delete(key, None)),
            };
            if operations.len() == AT_ONCE.0 || (bytes + size > AT_ONCE.1 && !operations.is_empty()) {
                self.txn(Txn::new().and_then(std::mem::take(&mut operations))).await?;
                bytes = 0;
            }
            operations.push(operation);
            bytes += size;
        }
        if !operations.is_empty() {
            self.txn(Txn::new().and_then(operations)).await?;
        }
        Ok(())
    }

    async fn watch_policies(&self) -> mpsc::Receiver<PolicyUpdate> {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let below = self.keys().policies();
        self.follow(PolicyFollower { store: self.clone(), below, sender, warned: HashSet::new() });
        receiver
    }
}

impl EtcdStore {
    /// Every key below the policies', and the revision they were read at.
    async fn policies_at(&self) -> Result<(Vec<KeyValue>, i64), RegistryError> {
        let mut found = self.get(self.keys().policies(), Some(GetOptions::new().with_prefix())).await?;
        let revision = found.header().map_or(0, etcd_client::ResponseHeader::revision);
        Ok((found.take_kvs(), revision))
    }
}

/// Sends the objects, then what changes about them.
struct PolicyFollower {
    store: EtcdStore,
    /// What all their keys start with.
    below: String,
    sender: mpsc::Sender<PolicyUpdate>,
    /// Keys that name no object, each warned of once.
    warned: HashSet<Vec<u8>>,
}

impl PolicyFollower {
    fn id(&mut self, kv: &KeyValue) -> Option<ObjectId> {
        let found = id(&self.below, kv);
        if found.is_none() && self.warned.len() < REMEMBERED && self.warned.insert(kv.key().to_vec()) {
            let key: String = String::from_utf8_lossy(kv.key()).chars().take(300).collect();
            warn!(
                "etcd key {key:?} names no policy object and is skipped: expected {}<kind>/<namespace or _>/<name>",
                self.below
            );
        }
        found
    }

    fn put(&mut self, kv: &KeyValue) -> Option<PolicyEntry> {
        Some(PolicyEntry { id: self.id(kv)?, body: body(kv) })
    }

    async fn send(&self, update: PolicyUpdate) -> Result<(), Closed> {
        self.sender.send(update).await.map_err(|_| Closed)
    }
}

#[async_trait]
impl Follower for PolicyFollower {
    fn key(&self) -> (String, bool) {
        (self.below.clone(), true)
    }

    async fn closed(&self) {
        self.sender.closed().await;
    }

    async fn snapshot(&mut self) -> Result<Result<i64, Closed>, RegistryError> {
        let (found, revision) = self.store.policies_at().await?;
        let entries = found.iter().filter_map(|kv| self.put(kv)).collect();
        Ok(self.send(PolicyUpdate::Snapshot(entries)).await.map(|()| revision))
    }

    async fn events(&mut self, _revision: i64, events: &[Event]) -> Result<(), Closed> {
        let mut told = Vec::with_capacity(events.len());
        for event in events {
            let Some(kv) = event.kv() else { continue };
            told.extend(match event.event_type() {
                EventType::Put => self.put(kv).map(PolicyEvent::Put),
                EventType::Delete => id(&self.below, kv).map(PolicyEvent::Deleted),
            });
        }
        if told.is_empty() { Ok(()) } else { self.send(PolicyUpdate::Events(told)).await }
    }
}

fn entry(below: &str, kv: &KeyValue) -> Option<PolicyEntry> {
    Some(PolicyEntry { id: id(below, kv)?, body: body(kv) })
}

fn id(below: &str, kv: &KeyValue) -> Option<ObjectId> {
    policy_id(std::str::from_utf8(kv.key()).ok()?.strip_prefix(below)?)
}

/// What is no text is no JSON either, and is found out by whoever reads it.
fn body(kv: &KeyValue) -> String {
    String::from_utf8_lossy(kv.value()).into_owned()
}
