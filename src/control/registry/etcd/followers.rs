//! What is watched: the network config, and the leases.

use async_trait::async_trait;
use etcd_client::{Event, EventType};
use tokio::sync::mpsc;

use super::store::EtcdStore;
use super::watch::{Closed, Follower};
use crate::control::registry::RegistryError;
use crate::lease::{Change, LeaseEvent, Update};

/// Sends the config's text whenever it differs from what was sent last.
pub(super) struct ConfigFollower {
    store: EtcdStore,
    key: String,
    sender: mpsc::Sender<String>,
    sent: Option<String>,
}

impl ConfigFollower {
    pub(super) fn new(store: EtcdStore, key: String, sender: mpsc::Sender<String>) -> Self {
        Self { store, key, sender, sent: None }
    }

    async fn send(&mut self, text: String) -> Result<(), Closed> {
        if self.sent.as_ref() == Some(&text) {
            return Ok(());
        }
        self.sent = Some(text.clone());
        self.sender.send(text).await.map_err(|_| Closed)
    }
}

#[async_trait]
impl Follower for ConfigFollower {
    fn key(&self) -> (String, bool) {
        (self.key.clone(), false)
    }

    async fn closed(&self) {
        self.sender.closed().await;
    }

    async fn snapshot(&mut self) -> Result<Result<i64, Closed>, RegistryError> {
        let (text, revision) = self.store.config_at().await?;
        let sent = match text {
            Some(text) => self.send(text).await,
            None => Ok(()),
        };
        Ok(sent.map(|()| revision))
    }

    async fn events(&mut self, _revision: i64, events: &[Event]) -> Result<(), Closed> {
        for event in events {
            if let (EventType::Put, Some(kv)) = (event.event_type(), event.kv()) {
                self.send(String::from_utf8_lossy(kv.value()).into_owned()).await?;
            }
        }
        Ok(())
    }
}

/// Sends the leases, then what changes about them.
pub(super) struct LeaseFollower {
    store: EtcdStore,
    sender: mpsc::Sender<Update>,
}

impl LeaseFollower {
    pub(super) fn new(store: EtcdStore, sender: mpsc::Sender<Update>) -> Self {
        Self { store, sender }
    }

    async fn send(&self, revision: u64, change: Change) -> Result<(), Closed> {
        self.sender.send(Update { revision, change }).await.map_err(|_| Closed)
    }
}

#[async_trait]
impl Follower for LeaseFollower {
    fn key(&self) -> (String, bool) {
        (self.store.keys().leases(), true)
    }

    async fn closed(&self) {
        self.sender.closed().await;
    }

    async fn snapshot(&mut self) -> Result<Result<i64, Closed>, RegistryError> {
        let listing = self.store.watched().await?;
        let revision = i64::try_from(listing.revision).unwrap_or(i64::MAX);
        let sent = self.send(listing.revision, Change::Snapshot(listing.leases)).await;
        Ok(sent.map(|()| revision))
    }

    async fn events(&mut self, revision: i64, events: &[Event]) -> Result<(), Closed> {
        let reader = self.store.reader();
        let mut changes = Vec::with_capacity(events.len());
        for event in events {
            let Some(kv) = event.kv() else { continue };
            match event.event_type() {
                EventType::Put => changes.extend(reader.read(kv).map(Ok)),
                EventType::Delete => changes.extend(reader.deleted(kv.key()).map(Err)),
            }
        }
        let records = changes.iter().filter_map(|change| change.as_ref().ok().cloned()).collect();
        let mut leases = self.store.told(records).await.into_iter();
        let events: Vec<LeaseEvent> = changes
            .into_iter()
            .filter_map(|change| match change {
                Ok(_) => leases.next().map(LeaseEvent::Added),
                Err(subnet) => Some(LeaseEvent::Removed(subnet)),
            })
            .collect();
        if events.is_empty() {
            return Ok(());
        }
        self.send(u64::try_from(revision).unwrap_or_default(), Change::Events(events)).await
    }
}
