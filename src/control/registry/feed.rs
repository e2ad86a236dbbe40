//! A [`LeaseLog`] that can be waited on: one writer, any number of watchers.
//!
//! The lock is held for memory work only, never across a disk or network call.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::log::LeaseLog;
use crate::lease::{SubnetKey, Update};

/// How many updates may wait for a slow receiver; what comes later stays in the log and is merged.
const IN_FLIGHT: usize = 8;

/// A log and its bell.
#[derive(Debug)]
pub struct Feed {
    log: Mutex<LeaseLog>,
    changed: watch::Sender<()>,
}

impl Feed {
    /// A feed that starts with `log`.
    pub fn new(log: LeaseLog) -> Self {
        Self { log: Mutex::new(log), changed: watch::Sender::new(()) }
    }

    /// Takes in an update and wakes every watcher.
    pub fn apply(&self, update: Update) {
        self.read(|log, now| log.apply(update, now));
        self.changed.send_replace(());
    }

    /// Looks at the log, with the present moment. Short work only: writers and watchers wait meanwhile.
    pub fn read<T>(&self, look: impl FnOnce(&mut LeaseLog, Instant) -> T) -> T {
        look(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner), Instant::now())
    }

    /// Completes at the next change after this call.
    pub fn bell(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// What comes after `cursor`, as soon as there is something; at once and everything without one.
    pub async fn after(&self, cursor: Option<u64>) -> Update {
        let Some(cursor) = cursor else { return self.read(|log, now| log.snapshot(now)) };
        self.wait(|log, now| log.since(cursor, now)).await
    }

    /// What happens to `subnet` after `cursor`, as soon as something does.
    pub async fn after_of(&self, subnet: &SubnetKey, mut cursor: u64) -> Update {
        self.wait(|log, now| {
            let update = log.since_of(subnet, cursor, now);
            // What was looked through for others' changes is not looked through again.
            cursor = log.revision();
            update
        })
        .await
    }

    /// The updates as a stream: a snapshot, then events. Ends with the receiver or with `end`.
    pub fn stream(self: &Arc<Self>, end: CancellationToken) -> mpsc::Receiver<Update> {
        let (sender, receiver) = mpsc::channel(IN_FLIGHT);
        let feed = Arc::clone(self);
        tokio::spawn(async move {
            let mut cursor = None;
            loop {
                let update = tokio::select! {
                    update = feed.after(cursor) => update,
                    () = sender.closed() => return,
                    () = end.cancelled() => return,
                };
                cursor = Some(update.revision);
                if sender.send(update).await.is_err() {
                    return;
                }
            }
        });
        receiver
    }

    /// Waits until `look` says yes.
    pub async fn until(&self, look: impl Fn(&LeaseLog, Instant) -> bool) {
        self.wait(|log, now| look(log, now).then_some(())).await;
    }

    async fn wait<T>(&self, mut look: impl FnMut(&LeaseLog, Instant) -> Option<T>) -> T {
        // Subscribed before looking, so that no change falls between.
        let mut bell = self.bell();
        loop {
            if let Some(found) = self.read(|log, now| look(log, now)) {
                return found;
            }
            if bell.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
