//! What a node does to stay as it is while the host changes around it: device, sockets, underlay, subnet file.

use super::bearer::{Bearer, Condition};
use super::clock;
use super::node::Node;
use super::paths::Narrow;
use super::run::{self, RunError};
use crate::net::Prefix4;

/// Every so many ticks the host is looked at even if nothing was heard of it: routes that vanish with a device are not told of.
const LOOK_ANYWAY_TICKS: u32 = 10;

impl Node {
    /// Looks at the host now and then without a cause: not all that matters is told of.
    ///
    /// # Errors
    /// When the node cannot go on.
    pub(super) fn on_tick(&mut self) -> Result<(), RunError> {
        self.ticks = self.ticks.wrapping_add(1);
        self.look_at_paths();
        self.show_bearer();
        if !self.file_is_right
            && let Some(lease) = self.keeper.held().cloned()
        {
            self.write_file(&lease);
        }
        let in_trouble = self.bearer.as_ref().is_some_and(|bearer| !bearer.is_up()) || self.trouble.device.is_said();
        let anyway = self.ticks.is_multiple_of(LOOK_ANYWAY_TICKS);
        if in_trouble || anyway {
            self.look_after();
        }
        match self.refused.clone() {
            Some(text) if anyway => self.on_config(&text),
            _ => Ok(()),
        }
    }

    /// Puts right what has changed in the kernel since the last look.
    pub(super) fn look_after(&mut self) {
        if self.bearer.is_none() {
            return;
        }
        self.follow_interface();
        let Some(bearer) = &mut self.bearer else { return };
        match bearer.check() {
            Ok(Condition::Good) => _ = self.trouble.device.is_over(),
            Ok(Condition::Mended) => tracing::warn!("the TUN device or what leads to it had been changed: its state is restored"),
            Ok(Condition::Gone) => self.raise_again(),
            Err(error) => {
                if self.trouble.device.is_news(&error) {
                    tracing::warn!("the TUN device cannot be looked after: {error}");
                }
            }
        }
    }

    /// Makes device and sockets anew; without success, the next tick tries again.
    pub(super) fn raise_again(&mut self) {
        if let Some(own) = self.bearer.as_ref().map(Bearer::subnet) {
            self.raise_again_as(own);
        }
    }

    /// As [`raise_again`](Self::raise_again), for a node that holds `own`.
    pub(super) fn raise_again_as(&mut self, own: Prefix4) {
        let plan = self.plan(own);
        // The old queues must be closed before the device can be attached to again.
        self.workers.let_go_of_ports();
        self.forget_worker_news();
        let Some(bearer) = &mut self.bearer else { return };
        bearer.abandon();
        match plan.and_then(|plan| bearer.replace(&plan)) {
            Ok(ports) => {
                self.workers.equip(ports);
                self.show_bearer();
                if self.trouble.device.is_over() {
                    tracing::info!("the TUN device is back");
                }
                self.publish();
            }
            Err(error) => {
                if self.trouble.device.is_news(&error) {
                    tracing::error!("{error}; trying again every second");
                }
            }
        }
    }

    /// Looks where the underlay is now, before there is anything to move: the address that is about to be announced.
    pub(super) fn look_for_interface(&mut self) {
        if let Ok(found) = run::external(&self.options)
            && found.differs_from(&self.external)
        {
            self.external = found;
        }
    }

    /// Notices that the underlay interface or its address has changed, and moves there.
    fn follow_interface(&mut self) {
        let found = match run::external(&self.options) {
            Ok(found) => found,
            Err(error) => {
                if self.trouble.interface.is_news(&error) {
                    tracing::warn!("{error}; keeping to {}", self.external.bind);
                }
                return;
            }
        };
        self.trouble.interface.is_over();
        if !found.differs_from(&self.external) {
            if self.external.up != found.up {
                found.remark();
                self.external = found;
            }
            return;
        }
        tracing::warn!(interface = found.name, bind = %found.bind, public_ip = %found.announce, underlay_mtu = found.mtu, "the underlay has changed: moving there");
        found.remark();
        self.external = found;
        // Those from the old address would hang until they time out.
        self.registry.forget_connections();
        self.announce_elsewhere();
        self.raise_again();
        if let Some(lease) = self.keeper.held().cloned() {
            self.write_file(&lease);
        }
    }

    /// Has the lease rewritten if it does not name the address we have now.
    pub(super) fn announce_elsewhere(&mut self) {
        let Some(mut lease) = self.keeper.held().cloned() else { return };
        if lease.attrs.public_ip == self.external.announce {
            return;
        }
        // The view learns first, or it would take what we write for another node's.
        let former = std::mem::replace(&mut lease.attrs.public_ip, self.external.announce);
        let change = self.overlay.view.set_moving(&lease, former);
        self.apply(&change);
        self.keeper.renew_now(clock::now());
    }

    /// Says which peers are behind something narrower.
    fn look_at_paths(&mut self) {
        let underlay_mtu = self.underlay_mtu();
        match self.paths.look(underlay_mtu) {
            Ok(None) => {}
            Ok(Some(Narrow { peer, mtu, others })) => tracing::warn!(
                %peer, path_mtu = mtu, underlay_mtu, others,
                "the way to some peers is narrower than the tunnel was made for, so that large packets are refused or split: \
                 set `\"MTU\":{mtu}` in the Backend of the network config"
            ),
            Err(error) => tracing::debug!("the ways to peers cannot be looked at: {error}"),
        }
    }
}
