//! The one watch of the registry that all waiting clients share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::control::registry::feed::Feed;
use crate::control::registry::log::LeaseLog;
use crate::control::registry::{CALL_TIMEOUT, RegistryError};
use crate::lease::Update;

/// How long a write waits for its own effect to come back through the watch, so that a client reads what it wrote.
pub(super) const ECHO: Duration = Duration::from_secs(1);

/// The leases as the registry's watch tells them, and how many clients wait for more.
#[derive(Debug)]
pub(super) struct Upstream {
    name: String,
    feed: Arc<Feed>,
    ready: watch::Receiver<bool>,
    waiting: Arc<AtomicUsize>,
}

impl Upstream {
    /// Starts to follow `updates`, which are those of the registry called `name`.
    pub(super) fn follow(name: String, mut updates: mpsc::Receiver<Update>) -> Self {
        let feed = Arc::new(Feed::new(LeaseLog::new()));
        let (started, ready) = watch::channel(false);
        let target = Arc::downgrade(&feed);
        tokio::spawn(async move {
            while let Some(update) = updates.recv().await {
                let Some(feed) = target.upgrade() else { return };
                feed.apply(update);
                started.send_replace(true);
            }
        });
        Self { name, feed, ready, waiting: Arc::default() }
    }

    /// The feed, once the registry has been heard of.
    pub(super) async fn feed(&self) -> Result<&Feed, RegistryError> {
        let mut ready = self.ready.clone();
        match timeout(CALL_TIMEOUT, ready.wait_for(|ready| *ready)).await {
            Ok(Ok(_)) => Ok(&self.feed),
            _ => Err(RegistryError::Unreachable { registry: self.name.clone(), reason: "no leases heard of yet".into() }),
        }
    }

    /// Waits, not for long, until the watch has shown what `seen` looks for.
    pub(super) async fn echo(&self, seen: impl Fn(&LeaseLog) -> bool) {
        // Without the echo the write stands all the same.
        let _ = timeout(ECHO, self.feed.until(|log, _| seen(log))).await;
    }

    /// Counts a client as waiting for as long as the guard lives.
    pub(super) fn wait(&self) -> Waiting {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(Arc::clone(&self.waiting))
    }

    /// How many clients wait for news at this moment.
    pub(super) fn waiting(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.waiting)
    }
}

/// See [`Upstream::wait`].
#[derive(Debug)]
pub(super) struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
