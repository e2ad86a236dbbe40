//! What a node makes of what it hears: from the watch, from its own calls to the registry, from its workers.

use std::sync::atomic::Ordering::Relaxed;

use super::calls::Outcome;
use super::clock;
use super::complaint::Complaint;
use super::node::{Node, Trouble};
use super::run::RunError;
use super::worker::WorkerNews;
use crate::control::registry::{RegistryError, Renewal};
use crate::lease::{Change, Lease, LeaseWarning, OwnNews, Route, Update, ViewChange};
use crate::net::Endpoint;

impl Node {
    pub(super) fn on_leases(&mut self, update: Update) {
        let whole = matches!(update.change, Change::Snapshot(_));
        let change = self.overlay.view.update(update);
        self.apply(&change);
        match change.own {
            None => {}
            Some(OwnNews::Seen(lease)) => {
                self.keeper.own_seen(clock::now(), lease);
                self.announce_elsewhere();
                self.show_expiry();
            }
            Some(OwnNews::Doubtful) => self.keeper.renew_now(clock::now()),
            Some(OwnNews::Removed) if self.pending.is_some() => {
                tracing::info!("the old lease is given back");
                self.lose();
            }
            Some(OwnNews::Removed) => {
                tracing::warn!("our lease is gone from the registry: acquiring it again");
                self.lose();
            }
            Some(OwnNews::Taken(lease)) => {
                tracing::error!(subnet = %lease.subnet.v4, by = %lease.attrs.public_ip, "our subnet is now leased by another node");
                self.lose();
            }
        }
        if whole {
            self.metrics.gauges.resyncs.fetch_add(1, Relaxed);
            self.synced = true;
        }
    }

    pub(super) fn on_outcome(&mut self, outcome: Outcome) -> Result<(), RunError> {
        match outcome {
            Outcome::Acquired(Ok(lease)) => {
                self.metrics.gauges.acquired.fetch_add(1, Relaxed);
                return self.on_acquired(&lease);
            }
            Outcome::Acquired(Err(error)) => {
                self.failed("acquire a subnet", &error, |trouble| &mut trouble.acquire);
                self.acquire_failed();
            }
            Outcome::Renewed(Ok(Renewal::Renewed(lease))) => self.on_renewed(&lease),
            Outcome::Renewed(Ok(Renewal::Lost)) => {
                tracing::warn!("our lease is no longer ours: acquiring one again");
                self.lose();
            }
            Outcome::Renewed(Err(error)) => {
                self.failed("renew the lease", &error, |trouble| &mut trouble.renew);
                self.keeper.renew_failed(clock::now());
            }
        }
        Ok(())
    }

    fn on_renewed(&mut self, lease: &Lease) {
        if self.trouble.renew.is_over() {
            tracing::info!("lease renewed");
        }
        self.metrics.gauges.renewed.fetch_add(1, Relaxed);
        self.keeper.renewed(self.calls.begun(), lease.clone());
        // Unless the watch said meanwhile that it is lost.
        if self.keeper.held().is_some() {
            let change = self.overlay.view.set_own(Some(lease));
            self.apply(&change);
            self.announce_elsewhere();
        }
        self.show_expiry();
    }

    pub(super) fn on_worker(&mut self, news: WorkerNews) {
        match news {
            WorkerNews::DeviceGone { worker, error } => {
                tracing::warn!("worker {worker} lost its TUN queue: {error}; making the device anew");
            }
            WorkerNews::SocketGone { worker, error } => {
                tracing::warn!("worker {worker} lost its socket: {error}; making it anew");
            }
        }
        self.raise_again();
    }

    /// Forgets what workers said of the ports they had: with several of them, each says that the device is gone.
    pub(super) fn forget_worker_news(&mut self) {
        while self.worker_news.try_recv().is_ok() {}
    }

    fn failed(&mut self, what: &str, error: &RegistryError, matter: impl FnOnce(&mut Trouble) -> &mut Complaint) {
        self.metrics.gauges.registry_errors.fetch_add(1, Relaxed);
        if matter(&mut self.trouble).is_news(error) {
            tracing::warn!("failed to {what}: {error}; trying again");
        }
    }

    /// The lease is lost: nothing is forwarded for it any more, and it is wanted back.
    pub(super) fn lose(&mut self) {
        self.keeper.lost(clock::now());
        self.let_go();
    }

    /// Puts changes of the view in force.
    pub(super) fn apply(&mut self, change: &ViewChange) {
        change.apply_to(&self.overlay.table);
        // Others may lease by now what was ours.
        if self.bearer.as_ref().is_some_and(|bearer| !bearer.former().is_empty()) {
            self.tell_policy();
        }
        for route in &change.routes {
            if let Route::Set(_, Endpoint::V4(peer)) = route {
                self.paths.set(*peer.ip());
            }
        }
        for warning in &change.warnings {
            // While we move to another network, a second lease of ours is what we asked for, and is there before we hear of it.
            if self.pending.is_none() || !matches!(warning, LeaseWarning::OwnAddress { .. }) {
                tracing::warn!("{warning}");
            }
        }
        self.metrics.gauges.peers.store(self.overlay.view.peers() as u64, Relaxed);
    }
}
