//! The [`Store`] itself: one writer at a time on a blocking thread, reads and watches from the feed.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::error;

use super::disk::{Contents, Disk};
use super::error::OpenError;
use super::record::Record;
use super::shelf::Shelf;
use crate::control::registry::feed::Feed;
use crate::control::registry::log::LeaseLog;
use crate::control::registry::store::{Listing, Store};
use crate::control::registry::{PolicyEvent, PolicyStore, RegistryError};
use crate::lease::{Change, Lease, LeaseAttrs, LeaseEvent, SubnetKey, Update};

/// How long ended leases stay when the disk refuses to have them deleted, until the next attempt.
const EXPIRY_RETRY: Duration = Duration::from_secs(5);

/// Leases and the network config in a file or in memory. Cloning gives another handle on the same store.
///
/// When the last handle is dropped, the file is closed and every watch ends.
#[derive(Clone, Debug)]
pub struct EmbeddedStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    /// Held for the length of a write, including its sync.
    disk: Mutex<Disk>,
    feed: Arc<Feed>,
    shelf: Arc<Shelf>,
    config: watch::Sender<Option<Arc<str>>>,
    /// Changed only with `disk` held.
    nodes: Mutex<HashMap<SubnetKey, String>>,
    end: CancellationToken,
    _end_on_drop: DropGuard,
}

/// What is to be done about one subnet.
enum Write {
    /// Create or rewrite the lease, for so long.
    Put {
        attrs: LeaseAttrs,
        ttl: Option<Duration>,
    },
    /// Note the node; the lease and its revision stay.
    Note {
        node: String,
    },
    Delete,
}

impl EmbeddedStore {
    /// Opens the file at `path`, or creates it with its directory.
    pub async fn open(path: &Path) -> Result<Self, OpenError> {
        let name = format!("store {}", path.display());
        let path = path.to_owned();
        let file = path.clone();
        let opened = tokio::task::spawn_blocking(move || Disk::open(&file)).await;
        let (disk, contents) = opened.map_err(|error| OpenError::Corrupt { path, reason: error.to_string() })??;
        Ok(Self::start(name, disk, contents))
    }

    /// A store without a file, empty, gone when dropped.
    pub fn in_memory() -> Result<Self, RegistryError> {
        let disk = Disk::in_memory().map_err(|error| refused("store in memory", &error))?;
        Ok(Self::start("store in memory".into(), disk, Contents::default()))
    }

    fn start(name: String, disk: Disk, contents: Contents) -> Self {
        let revision = contents.revision.saturating_add(1).max(now_unix(Duration::as_micros));
        let now = now_unix(Duration::as_millis);
        let leases = contents.records.iter().map(|(subnet, record)| record.lease(*subnet, now)).collect();
        let nodes = contents.records.into_iter().filter_map(|(subnet, record)| Some((subnet, record.node?))).collect();
        let feed = Arc::new(Feed::new(LeaseLog::new()));
        feed.apply(Update { revision, change: Change::Snapshot(leases) });
        let end = CancellationToken::new();
        let inner = Arc::new(Inner {
            name,
            disk: Mutex::new(disk),
            feed: Arc::clone(&feed),
            shelf: Arc::new(Shelf::new(contents.policies)),
            config: watch::Sender::new(contents.config.map(Arc::from)),
            nodes: Mutex::new(nodes),
            end: end.clone(),
            _end_on_drop: end.clone().drop_guard(),
        });
        tokio::spawn(expire(Arc::downgrade(&inner), feed, end));
        Self { inner }
    }

    /// One transaction about `subnet`, on a blocking thread: it completes also if the caller goes away.
    async fn write<F>(&self, subnet: SubnetKey, decide: F) -> Result<Option<Lease>, RegistryError>
    where
        F: FnOnce(Option<Lease>) -> Option<Write> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        self.blocking(move || inner.write(subnet, decide)).await
    }

    /// Writes policy objects, given beside their keys.
    pub(super) async fn put_policies(&self, writes: Vec<(String, PolicyEvent)>) -> Result<(), RegistryError> {
        let inner = Arc::clone(&self.inner);
        self.blocking(move || {
            let changes = writes.iter().map(|(key, event)| match event {
                PolicyEvent::Put(entry) => (key.clone(), Some(entry.body.as_str())),
                PolicyEvent::Deleted(_) => (key.clone(), None),
            });
            let disk = locked(&inner.disk);
            disk.put_policies(&changes.collect::<Vec<_>>())?;
            inner.shelf.apply(writes.into_iter().map(|(_, event)| event).collect());
            Ok(())
        })
        .await
    }

    pub(super) fn shelf(&self) -> &Arc<Shelf> {
        &self.inner.shelf
    }

    /// Cancelled when the last handle is dropped.
    pub(super) fn end(&self) -> CancellationToken {
        self.inner.end.clone()
    }

    async fn blocking<T, F>(&self, work: F) -> Result<T, RegistryError>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, redb::Error> + Send + 'static,
    {
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done.map_err(|error| refused(&self.inner.name, &error)),
            Err(error) => Err(RegistryError::Protocol { registry: self.inner.name.clone(), reason: error.to_string() }),
        }
    }
}

impl Inner {
    fn write(
        &self,
        subnet: SubnetKey,
        decide: impl FnOnce(Option<Lease>) -> Option<Write>,
    ) -> Result<Option<Lease>, redb::Error> {
        let disk = locked(&self.disk);
        self.expire(&disk)?;
        let (held, revision) = self.feed.read(|log, now| (log.lease(&subnet, now), log.revision() + 1));
        let Some(write) = decide(held.clone()) else { return Ok(None) };
        let now = now_unix(Duration::as_millis);
        match write {
            Write::Put { attrs, ttl } => {
                let lease = Lease { subnet, attrs, ttl, revision };
                let node = locked(&self.nodes).get(&subnet).cloned();
                disk.commit(&[(subnet, Some(Record::of(&lease, node, now)))], revision)?;
                self.publish(revision, vec![LeaseEvent::Added(lease.clone())]);
                Ok(Some(lease))
            }
            Write::Note { node } => {
                let Some(lease) = held else { return Ok(None) };
                disk.commit(&[(subnet, Some(Record::of(&lease, Some(node.clone()), now)))], revision - 1)?;
                locked(&self.nodes).insert(subnet, node);
                Ok(Some(lease))
            }
            Write::Delete => {
                disk.commit(&[(subnet, None)], revision)?;
                locked(&self.nodes).remove(&subnet);
                self.publish(revision, vec![LeaseEvent::Removed(subnet)]);
                Ok(held)
            }
        }
    }

    /// Deletes every lease that has ended.
    fn expire(&self, disk: &Disk) -> Result<(), redb::Error> {
        let (ended, revision) = self.feed.read(|log, now| (log.expired(now), log.revision() + 1));
        if ended.is_empty() {
            return Ok(());
        }
        disk.commit(&ended.iter().map(|subnet| (*subnet, None)).collect::<Vec<_>>(), revision)?;
        locked(&self.nodes).retain(|subnet, _| !ended.contains(subnet));
        self.publish(revision, ended.into_iter().map(LeaseEvent::Removed).collect());
        Ok(())
    }

    fn publish(&self, revision: u64, events: Vec<LeaseEvent>) {
        self.feed.apply(Update { revision, change: Change::Events(events) });
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    fn describe(&self) -> String {
        self.inner.name.clone()
    }

    fn config_place(&self) -> String {
        format!("key `config` of {}", self.inner.name)
    }

    async fn config(&self) -> Result<Option<String>, RegistryError> {
        Ok(self.inner.config.borrow().as_deref().map(str::to_owned))
    }

    async fn put_config(&self, text: &str) -> Result<(), RegistryError> {
        let (inner, text) = (Arc::clone(&self.inner), Arc::<str>::from(text));
        self.blocking(move || {
            let disk = locked(&inner.disk);
            disk.put_config(&text)?;
            inner.config.send_if_modified(|config| {
                let changed = config.as_ref() != Some(&text);
                *config = Some(text);
                changed
            });
            Ok(())
        })
        .await
    }

    async fn watch_config(&self) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel(1);
        let (mut config, end) = (self.inner.config.subscribe(), self.inner.end.clone());
        config.mark_changed();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    changed = config.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                    () = end.cancelled() => return,
                }
                let text = config.borrow_and_update().as_deref().map(str::to_owned);
                if let Some(text) = text
                    && sender.send(text).await.is_err()
                {
                    return;
                }
            }
        });
        receiver
    }

    async fn list(&self) -> Result<Listing, RegistryError> {
        Ok(self.inner.feed.read(|log, now| Listing { leases: log.leases(now).collect(), revision: log.revision() }))
    }

    async fn read(&self, subnet: &SubnetKey) -> Result<Option<Lease>, RegistryError> {
        Ok(self.inner.feed.read(|log, now| log.lease(subnet, now)))
    }

    async fn create(
        &self,
        subnet: &SubnetKey,
        attrs: &LeaseAttrs,
        ttl: Option<Duration>,
    ) -> Result<Option<Lease>, RegistryError> {
        let attrs = attrs.clone();
        self.write(*subnet, move |held| held.is_none().then_some(Write::Put { attrs, ttl })).await
    }

    async fn replace(&self, lease: &Lease, attrs: &LeaseAttrs, ttl: Option<Duration>) -> Result<Option<Lease>, RegistryError> {
        let (attrs, revision) = (attrs.clone(), lease.revision);
        let unchanged = move |held: Option<Lease>| held.is_some_and(|held| held.revision == revision);
        self.write(lease.subnet, move |held| unchanged(held).then_some(Write::Put { attrs, ttl })).await
    }

    async fn delete(&self, subnet: &SubnetKey, revision: Option<u64>) -> Result<bool, RegistryError> {
        let matches = move |held: Lease| revision.is_none_or(|revision| held.revision == revision);
        let deleted = self.write(*subnet, move |held| held.is_some_and(matches).then_some(Write::Delete)).await?;
        Ok(deleted.is_some())
    }

    async fn watch_leases(&self) -> mpsc::Receiver<Update> {
        self.inner.feed.stream(self.inner.end.clone())
    }

    fn policy_store(&self) -> Result<Arc<dyn PolicyStore>, RegistryError> {
        Ok(Arc::new(self.clone()))
    }

    async fn node_of(&self, subnet: &SubnetKey) -> Result<Option<String>, RegistryError> {
        Ok(locked(&self.inner.nodes).get(subnet).cloned())
    }

    async fn note_node(&self, lease: &Lease, node: &str) -> Result<(), RegistryError> {
        let (node, revision) = (node.to_owned(), lease.revision);
        let unchanged = move |held: Option<Lease>| held.is_some_and(|held| held.revision == revision);
        self.write(lease.subnet, move |held| unchanged(held).then_some(Write::Note { node })).await.map(drop)
    }
}

/// Ends leases on time for as long as the store lives.
async fn expire(store: Weak<Inner>, feed: Arc<Feed>, end: CancellationToken) {
    let mut bell = feed.bell();
    let mut failing = false;
    loop {
        let deadline = feed.read(|log, _| log.next_deadline());
        let due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {}
            _ = bell.changed() => continue,
            () = end.cancelled() => return,
        }
        let Some(inner) = store.upgrade() else { return };
        let done = tokio::task::spawn_blocking(move || inner.expire(&locked(&inner.disk))).await;
        match done {
            Ok(Ok(())) => failing = false,
            Ok(Err(reason)) => {
                if !failing {
                    error!(%reason, "registry store: ended leases cannot be deleted; trying again");
                }
                failing = true;
                tokio::time::sleep(EXPIRY_RETRY).await;
            }
            Err(_) => return,
        }
    }
}

/// A disk that fails is a registry that cannot be reached: nothing was changed, and the same call may work later.
fn refused(name: &str, error: &redb::Error) -> RegistryError {
    let hint = match error {
        redb::Error::PreviousIo => "; the file was closed after a disk error: restart once the disk is well",
        _ => "",
    };
    RegistryError::Unreachable { registry: name.to_owned(), reason: format!("{error}{hint}") }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_unix(unit: fn(&Duration) -> u128) -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(unit(&since)).unwrap_or(u64::MAX)
}
