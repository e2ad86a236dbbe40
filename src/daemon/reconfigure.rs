//! What a node does when another network config is put into the registry while it runs.
//!
//! | what changes | what follows |
//! |---|---|
//! | limits, or a network that our subnet is also one of | in force at once; the lease stays |
//! | a network that our subnet is none of | another subnet is acquired; the old lease is held, and served, until then |
//! | backend, port, MTU | the next start, and a line in the log |
//! | anything that makes no sense here | nothing, and a line in the log |
//!
//! The registry reads the config by itself when it gives out a subnet, so it may know it sooner or later than we do. A lease
//! is only ever held under a config that admits it.

use std::time::Duration;

use super::clock;
use super::device::foresee;
use super::node::Node;
use super::overlay::{Difference, Overlay, OverlayError};
use super::run::RunError;
use crate::lease::{Lease, NetworkConfig};
use crate::net::Moment;
use crate::sys::netlink::Netlink;

/// First pause between tries to get a subnet of another network, while the old one is still held; doubles up to the second.
const MOVE_PAUSE: Duration = Duration::from_secs(1);
const MOVE_PAUSE_MAX: Duration = Duration::from_mins(1);

/// A config whose network our subnet is none of: in force once a lease of that network is acquired.
pub(super) struct Pending {
    config: NetworkConfig,
    overlay: Overlay,
    /// No sooner is a lease asked for.
    pub(super) not_before: Moment,
    pause: Duration,
}

impl Node {
    /// Goes by the config with this text.
    ///
    /// # Errors
    /// When the node cannot go on.
    pub(super) fn on_config(&mut self, text: &str) -> Result<(), RunError> {
        // Whatever was waited for before, this is what counts now.
        self.pending = None;
        match self.understood(text) {
            Ok((config, overlay)) => {
                self.refused = None;
                self.trouble.config.is_over();
                self.reconfigure(config, overlay)
            }
            Err(error) => {
                if self.trouble.config.is_news(&error) {
                    tracing::error!("the new network config is not taken: {error}; running on by the old one");
                }
                self.refused = Some(text.to_owned());
                Ok(())
            }
        }
    }

    /// Holds a lease that was just acquired, under the config that admits it; none does while the registry and we have not
    /// read the same one, which passes.
    pub(super) fn on_acquired(&mut self, lease: &Lease) -> Result<(), RunError> {
        let own = lease.subnet.v4;
        if let Some(pending) = self.pending.take_if(|pending| pending.overlay.admits(own)) {
            self.change_over(pending.config, pending.overlay);
        } else if !self.overlay.admits(own) {
            if self.trouble.acquire.is_news("other config") {
                tracing::warn!(subnet = %own, "the registry goes by another network config than we do: waiting until we go by the same one");
            }
            self.acquire_failed();
            return Ok(());
        }
        self.trouble.acquire.is_over();
        self.keeper.acquired(self.calls.begun(), lease.clone());
        self.hold(lease)
    }

    /// Nothing was acquired: waits before the next try, whatever it is for.
    pub(super) fn acquire_failed(&mut self) {
        let now = clock::now();
        self.keeper.acquire_failed(now);
        if let Some(pending) = &mut self.pending {
            pending.not_before = now + pending.pause.mul_f64(rand::random_range(0.5..=1.0));
            pending.pause = (pending.pause * 2).min(MOVE_PAUSE_MAX);
        }
    }

    fn understood(&mut self, text: &str) -> Result<(NetworkConfig, Overlay), RunError> {
        let mut config = NetworkConfig::parse(text).map_err(OverlayError::from)?;
        if config.backend == self.config.backend {
            self.trouble.backend.is_over();
        } else if self.trouble.backend.is_news(format_args!("{:?}", config.backend)) {
            tracing::warn!(
                wanted = ?config.backend,
                "the new network config has another backend, port or MTU: running on by the old one, they take effect at the next start"
            );
        }
        config.backend = self.config.backend.clone();
        config.backend_json = self.config.backend_json.clone();
        let overlay = Overlay::new(&config, self.external.announce)?.given(!self.overlay.any_subnet);
        if overlay.range.network != self.overlay.range.network {
            self.foresee(&overlay)?;
        }
        Ok((config, overlay))
    }

    /// Looks whether the new network is somebody else's on this host.
    fn foresee(&self, overlay: &Overlay) -> Result<(), RunError> {
        let Some(bearer) = &self.bearer else { return Ok(()) };
        let mut plan = bearer.device_plan().clone();
        plan.network = overlay.range.network;
        Ok(foresee(&plan, &Netlink::open()?)?)
    }

    fn reconfigure(&mut self, config: NetworkConfig, overlay: Overlay) -> Result<(), RunError> {
        let held = self.keeper.held().cloned();
        match self.overlay.difference(&overlay, held.as_ref().map(|lease| &lease.subnet.v4)) {
            Difference::None => {}
            Difference::Limits => {
                tracing::info!("the limits of the network have changed");
                self.overlay.range = overlay.range;
                self.config = config;
            }
            Difference::Network => {
                tracing::warn!(network = %overlay.range.network, "the network has changed around our subnet");
                self.change_over(config, overlay);
                if let Some(lease) = held {
                    self.hold(&lease)?;
                }
            }
            Difference::Subnet => {
                tracing::warn!(network = %overlay.range.network, "the network has changed and our subnet is none of it: acquiring another");
                self.pending = Some(Pending { config, overlay, not_before: clock::now(), pause: MOVE_PAUSE });
            }
        }
        Ok(())
    }

    /// Puts another config in force, with all that is known of other nodes' leases.
    fn change_over(&mut self, config: NetworkConfig, mut overlay: Overlay) {
        let change = overlay.take_leases_of(&self.overlay, self.external.announce);
        self.config = config;
        self.overlay = overlay;
        self.apply(&change);
    }
}
