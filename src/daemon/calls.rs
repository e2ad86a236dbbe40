//! Calls to the registry, made beside the node's loop so that a slow or dead registry never holds anything else up. One at
//! a time: the keeper decides on the next only when it knows how the last one ended.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::clock;
use crate::control::registry::{AcquireRequest, Registry, RegistryError, Renewal};
use crate::lease::{Lease, LeaseAttrs};
use crate::net::Moment;

/// How a call ended.
#[derive(Debug)]
pub enum Outcome {
    /// Of an acquisition.
    Acquired(Result<Lease, RegistryError>),
    /// Of a renewal.
    Renewed(Result<Renewal, RegistryError>),
}

/// The registry, and the call under way.
pub struct Calls {
    registry: Arc<dyn Registry>,
    under_way: Option<JoinHandle<Outcome>>,
    begun: Moment,
}

impl Calls {
    /// No call under way.
    pub fn new(registry: Arc<dyn Registry>) -> Self {
        Self { registry, under_way: None, begun: Moment::ZERO }
    }

    /// Whether a call is under way.
    pub fn busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// When the last call was begun. A lease it gave runs from then on at the latest, however late the answer came.
    pub fn begun(&self) -> Moment {
        self.begun
    }

    /// Begins an acquisition.
    pub fn acquire(&mut self, request: AcquireRequest) {
        let registry = Arc::clone(&self.registry);
        self.begin(async move { Outcome::Acquired(registry.acquire(&request).await) });
    }

    /// Begins a renewal of `lease`, as known, that writes `attrs`.
    pub fn renew(&mut self, lease: Lease, attrs: LeaseAttrs) {
        let registry = Arc::clone(&self.registry);
        self.begin(async move { Outcome::Renewed(registry.renew(&lease, &attrs).await) });
    }

    /// How the call under way ends; never, if there is none. Safe to drop and ask again.
    pub async fn outcome(&mut self) -> Outcome {
        loop {
            let Some(call) = &mut self.under_way else { return std::future::pending().await };
            let ended = call.await;
            self.under_way = None;
            match ended {
                Ok(outcome) => return outcome,
                Err(error) => tracing::error!("a registry call broke off: {error}"),
            }
        }
    }

    fn begin(&mut self, call: impl Future<Output = Outcome> + Send + 'static) {
        self.begun = clock::now();
        self.under_way = Some(tokio::spawn(call));
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        if let Some(call) = &self.under_way {
            call.abort();
        }
    }
}
