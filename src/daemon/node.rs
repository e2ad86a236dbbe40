//! One node's control: a single task that hears from the registry, the keeper's clock, the workers and the kernel, and
//! turns what it hears into leases, routes, devices and snapshots.
//!
//! Everything that may wait on the network is a [call](super::calls) beside it, so the loop itself always moves; its pulse
//! says so. What it decides by lives in `lease`; this module only carries it out, in an order that half-applies nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::bearer::Bearer;
use super::calls::Calls;
use super::clock;
use super::complaint::Complaint;
use super::interface::External;
use super::options::RunOptions;
use super::overlay::Overlay;
use super::paths::Paths;
use super::policy::PolicyControl;
use super::reconfigure::Pending;
use super::rules::{HostRules, Prepared};
use super::run::RunError;
use super::tuning::{Sizes, Tuning};
use super::worker::{Snapshot, WorkerNews};
use super::workers::Workers;
use crate::control::registry::{AcquireRequest, Registry};
use crate::forward::Tunnel;
use crate::lease::{Action, Keeper, KeeperSettings};
use crate::lease::{LeaseAttrs, NetworkConfig};
use crate::net::{Endpoint, Moment, Prefix4};
use crate::obs::{Health, Metrics, Pulse};
use crate::sync::Publisher;

/// How often the loop moves when nothing happens: its pulse, and a try to mend what could not be mended at once.
const TICK: Duration = Duration::from_secs(1);

/// A running node.
pub struct Node {
    pub(super) options: RunOptions,
    pub(super) external: External,
    pub(super) config: NetworkConfig,
    pub(super) overlay: Overlay,
    pub(super) keeper: Keeper,
    pub(super) bearer: Option<Bearer>,
    pub(super) workers: Workers,
    pub(super) snapshots: Publisher<Snapshot>,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) trouble: Trouble,
    pub(super) paths: Paths,
    /// `None`: nothing is judged.
    pub(super) policy: Option<PolicyControl>,
    /// `None`: nothing is done on the host beside the tunnel.
    pub(super) rules: Option<HostRules>,
    /// Whether the table holds all the leases there were when we started.
    pub(super) synced: bool,
    pub(super) announced: bool,
    /// Whether the subnet file says what is so.
    pub(super) file_is_right: bool,
    pub(super) ticks: u32,
    /// A config of another network, in force once a lease of that is acquired.
    pub(super) pending: Option<Pending>,
    /// A config that was not taken, to be tried again: what is wrong with it may lie on this host.
    pub(super) refused: Option<String>,
    pub(super) registry: Arc<dyn Registry>,
    identity: Option<String>,
    pub(super) calls: Calls,
    pub(super) worker_news: mpsc::UnboundedReceiver<WorkerNews>,
    pulse: Pulse,
}

/// What keeps going wrong, each matter said once.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    pub acquire: Complaint,
    pub renew: Complaint,
    pub device: Complaint,
    pub config: Complaint,
    pub backend: Complaint,
    pub interface: Complaint,
    pub file: Complaint,
}

/// What a node is made of.
pub(super) struct Parts {
    pub options: RunOptions,
    pub registry: Arc<dyn Registry>,
    pub node_id: Option<String>,
    pub external: External,
    pub config: NetworkConfig,
    pub overlay: Overlay,
    pub previous: Option<Prefix4>,
    pub rules: Option<Prepared>,
    pub policy: Option<PolicyControl>,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
}

impl Node {
    /// A node with idle workers and no lease yet.
    pub(super) fn new(parts: Parts) -> Result<Self, RunError> {
        let Parts { options, registry, node_id, external, config, overlay, previous, rules, policy, health, metrics } = parts;
        let settings = KeeperSettings { ttl: options.lease_ttl, margin: options.renew_margin };
        let keeper = Keeper::new(settings, previous, rand::random());
        let snapshots = Publisher::new(Snapshot { tunnel: None, table: Arc::clone(&overlay.table) });
        let (sender, worker_news) = mpsc::unbounded_channel();
        let tuning = Tuning { sizes: Sizes::for_batch(options.batch), spin: options.spin };
        let workers =
            Workers::start(options.workers, tuning, &snapshots, policy.as_ref(), &health, &sender).map_err(RunError::Workers)?;
        metrics.set_workers(workers.counters());
        let pulse = health.watch("registry task", clock::now());
        let calls = Calls::new(Arc::clone(&registry));
        let rules = rules.map(|prepared| HostRules::start(prepared, previous)).transpose().map_err(RunError::Workers)?;
        let (trouble, bearer) = (Trouble::default(), None);
        Ok(Self {
            options,
            external,
            config,
            overlay,
            keeper,
            bearer,
            workers,
            snapshots,
            health,
            metrics,
            trouble,
            paths: Paths::default(),
            policy,
            rules,
            synced: false,
            announced: false,
            file_is_right: false,
            ticks: 0,
            pending: None,
            refused: None,
            registry,
            identity: node_id,
            calls,
            worker_news,
            pulse,
        })
    }

    /// Runs until something makes it impossible to go on. Dropping the future stops it between two steps.
    pub(super) async fn run(&mut self) -> Result<(), RunError> {
        let mut leases = self.registry.watch_leases().await;
        let mut configs = self.registry.watch_config().await;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.pulse.beat();
            let deadline = self.act();
            tokio::select! {
                update = leases.recv() => self.on_leases(update.ok_or(RunError::WatchEnded)?),
                text = configs.recv() => self.on_config(&text.ok_or(RunError::WatchEnded)?)?,
                outcome = self.calls.outcome() => self.on_outcome(outcome)?,
                Some(news) = self.worker_news.recv() => self.on_worker(news),
                () = news_of(&mut self.bearer) => self.look_after(),
                () = news_of_rules(&mut self.rules) => self.on_rules(),
                _ = tick.tick() => self.on_tick()?,
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// Takes the device down, or leaves it, and stops the workers.
    pub(super) fn shut_down(mut self) {
        self.health.set_ready(false);
        self.workers.let_go_of_ports();
        if let Some(bearer) = self.bearer.take() {
            bearer.release(self.options.keep_device);
        }
    }

    /// Does what is to be done now; until when nothing more is.
    fn act(&mut self) -> tokio::time::Instant {
        self.see_the_end();
        self.announce();
        let now = clock::now();
        let mut until = now + Duration::from_hours(1);
        if !self.calls.busy() {
            // Where the subnet is to be given up for one of another network, that is tried beside renewing it.
            let moving = self.pending.as_ref().filter(|_| self.keeper.held().is_some()).map(|pending| pending.not_before);
            match self.keeper.next(now) {
                // Ended just now: the next turn says so.
                Action::Drop(_) => {
                    self.let_go();
                    until = now;
                }
                _ if moving.is_some_and(|not_before| now >= not_before) => self.acquire(None),
                Action::Acquire { previous } => self.acquire(previous),
                Action::Renew(lease) => {
                    let attrs = LeaseAttrs { public_ip: self.external.announce, ..lease.attrs.clone() };
                    self.calls.renew(lease, attrs);
                }
                Action::Wait(next) => until = [next, moving].into_iter().flatten().fold(until, Moment::min),
            }
        }
        clock::instant(self.keeper.expires().map_or(until, |expires| expires.min(until)))
    }

    /// Stops forwarding for a lease that has run out by our own clock, also while a call about it is under way.
    fn see_the_end(&mut self) {
        let now = clock::now();
        if let (Some(lease), true) = (self.keeper.held(), self.keeper.expires().is_some_and(|expires| now >= expires)) {
            tracing::error!(
                subnet = %lease.subnet.v4,
                "the lease ran out without the registry being reachable: forwarding stops until it is acquired again"
            );
            self.lose();
        }
    }

    fn acquire(&mut self, previous: Option<Prefix4>) {
        if self.bearer.is_none() {
            self.look_for_interface();
        }
        let attrs = LeaseAttrs::udp(self.external.announce);
        self.calls.acquire(AcquireRequest { attrs, previous, node: self.identity.clone() });
    }

    pub(super) fn show_expiry(&self) {
        self.metrics.gauges.set_lease_expiry(self.keeper.expires());
        self.metrics.gauges.lease_held.store(self.keeper.held().is_some(), Relaxed);
    }

    /// Our place in the overlay while we hold `own`.
    pub(super) fn tunnel(&self, own: Prefix4, mtu: u16) -> Tunnel {
        Tunnel {
            own,
            network: self.overlay.range.network,
            mtu,
            endpoint: Endpoint::from((self.external.announce, self.overlay.port)),
            source_check: self.options.source_check,
        }
    }
}

/// Waits until something changes in the kernel.
async fn news_of(bearer: &mut Option<Bearer>) {
    match bearer {
        Some(bearer) => bearer.news().await,
        None => std::future::pending().await,
    }
}

/// Waits until it changes whether the rules on the host are in force.
async fn news_of_rules(rules: &mut Option<HostRules>) {
    match rules {
        Some(rules) => rules.news().await,
        None => std::future::pending().await,
    }
}
