//! What a node does as it comes to hold a lease, changes to another one, or loses it: rules on the host, the device, the file, the
//! snapshot.

use std::sync::Arc;

use super::bearer::{Bearer, BearerError, Plan};
use super::node::Node;
use super::policy::PolicyScope;
use super::rules::{HostRules, RuleSet};
use super::run::RunError;
use super::subnet_env::SubnetEnv;
use super::worker::Snapshot;
use crate::lease::Lease;
use crate::net::Prefix4;

impl Node {
    /// Works under `lease` from now on: policy, device, file, packets; where the subnet changes, the file before the device.
    ///
    /// # Errors
    /// When there is no device yet and none can be made.
    pub(super) fn hold(&mut self, lease: &Lease) -> Result<(), RunError> {
        let own = lease.subnet.v4;
        self.say_what_is_held(own);
        let change = self.overlay.view.set_own(Some(lease));
        self.apply(&change);
        self.show_expiry();
        if self.bearer.is_none() {
            self.raise(own)?;
        }
        self.want_rules(own);
        // The file has containers started: from their first packet on, policy stands in the way.
        self.cover(own);
        self.tell_policy();
        // Where the subnet changes, readers of the file learn of it before the first packet goes by it.
        self.write_file(lease);
        self.readdress(own);
        self.publish();
        self.announce_elsewhere();
        Ok(())
    }

    /// Works without a lease: packets are dropped and counted until there is one again.
    pub(super) fn let_go(&mut self) {
        self.health.set_ready(false);
        let change = self.overlay.view.set_own(None);
        self.apply(&change);
        self.publish();
        self.show_expiry();
    }

    /// Sees whether this node is ready, and says so when it is for the first time. Asked once per turn of the loop. It is ready once it
    /// holds a lease, has its device and the rules demanded of it, has told of its subnet, and knows all peers; and while nothing
    /// stands in the way of policy scope `node`.
    pub(super) fn announce(&mut self) {
        let up = self.bearer.as_ref().is_some_and(Bearer::is_up);
        let hindrance = self.bearer.as_ref().and_then(Bearer::hindrance);
        self.health.set_hindrance(hindrance);
        let rules = self.rules.as_ref().is_none_or(HostRules::is_in_force);
        let ready = self.synced && self.keeper.held().is_some() && up && hindrance.is_none() && self.file_is_right && rules;
        self.health.set_ready(ready);
        if ready && !self.announced {
            self.announced = true;
            self.registry.network_is_up();
            tracing::info!(peers = self.overlay.view.peers(), "ready");
            // Where no service manager listens, nothing is sent. One that is gone is no reason not to forward.
            if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
                tracing::warn!("the service manager cannot be told that this node is ready: {error}");
            }
        }
    }

    /// What the device and sockets of a node that holds `own` should be.
    ///
    /// # Errors
    /// When the underlay leaves no room for packets.
    pub(super) fn plan(&self, own: Prefix4) -> Result<Plan, BearerError> {
        let (network, port) = (self.overlay.range.network, self.overlay.port);
        Plan::new(&self.options, own, network, &self.external, self.underlay_mtu(), port)
    }

    /// Largest outer packet, by the config or else the interface.
    pub(super) fn underlay_mtu(&self) -> u32 {
        self.overlay.underlay_mtu.map_or(self.external.mtu, u32::from)
    }

    /// Has the workers go by what is held now.
    pub(super) fn publish(&self) {
        let mtu = self.bearer.as_ref().map_or(0, Bearer::mtu);
        // Before the workers forward for a subnet, policy has to know that it is ours.
        self.tell_policy();
        let tunnel = self.keeper.held().map(|lease| self.tunnel(lease.subnet.v4, mtu));
        self.snapshots.publish(Snapshot { tunnel, table: Arc::clone(&self.overlay.table) });
        self.workers.wake();
    }

    /// Tells policy which subnet is ours, and which were: of these, what no other node leases is still ours to judge.
    pub(super) fn tell_policy(&self) {
        let (Some(policy), Some(lease)) = (&self.policy, self.keeper.held()) else { return };
        let former = self.bearer.as_ref().map(Bearer::former).unwrap_or_default();
        // By the table that packets go by. What others lease a part of only is closed rather than open.
        let leased = if former.is_empty() { Vec::new() } else { self.overlay.table.entries() };
        let is_leased = |subnet: &Prefix4| leased.iter().any(|(other, _)| other.covers(subnet));
        let unleased = former.iter().copied().filter(|subnet| !is_leased(subnet)).collect();
        policy.set_former(former, unleased);
        policy.set_own(&lease.subnet);
    }

    /// Tells container runtimes what `lease` means; without success, the next tick tries again.
    pub(super) fn write_file(&mut self, lease: &Lease) {
        let Some(mtu) = self.bearer.as_ref().map(Bearer::mtu) else { return };
        if !self.bearer.as_ref().is_some_and(Bearer::covers_pods) {
            // Containers that would start by it would be open.
            self.file_is_right = false;
            return;
        }
        // Who reads it may start containers at once: not before the first try to put rules there has ended.
        if self.rules.as_ref().is_some_and(HostRules::is_pending) {
            self.file_is_right = false;
            return;
        }
        let env = SubnetEnv::new(&self.config, &lease.subnet, u32::from(mtu), self.options.host_rules.ip_masq);
        match env.write(&self.options.subnet_file) {
            Ok(()) => {
                self.file_is_right = true;
                if self.trouble.file.is_over() {
                    tracing::info!("the subnet file is written");
                }
            }
            Err(error) => {
                self.file_is_right = false;
                if self.trouble.file.is_news(&error) {
                    tracing::error!("{error}: container runtimes do not learn of this node's subnet; trying again every second");
                }
            }
        }
    }

    /// Hears that rules on the host are in force now, or are not.
    pub(super) fn on_rules(&mut self) {
        if !self.file_is_right
            && let Some(lease) = self.keeper.held().cloned()
        {
            self.write_file(&lease);
        }
    }

    /// Has the rules on the host speak of `own` and the network.
    fn want_rules(&self, own: Prefix4) {
        let (Some(rules), Some(bearer)) = (&self.rules, &self.bearer) else { return };
        let scope = self.options.policy.as_ref().map(|policy| policy.scope);
        let through = (scope == Some(PolicyScope::Node)).then(|| bearer.device_plan().name.clone());
        rules.want(RuleSet { network: self.overlay.range.network, subnet: own, through });
    }

    fn say_what_is_held(&self, own: Prefix4) {
        match self.bearer.as_ref().map(Bearer::subnet) {
            Some(before) if before != own => {
                tracing::error!(%before, now = %own, "this node holds another subnet now: containers started earlier must be restarted");
            }
            _ => tracing::info!(subnet = %own, network = %self.overlay.range.network, "lease acquired"),
        }
    }

    fn raise(&mut self, own: Prefix4) -> Result<(), RunError> {
        // The answer may have been long in coming.
        self.look_for_interface();
        let (bearer, ports) = Bearer::raise(self.plan(own)?)?;
        self.workers.equip(ports);
        self.bearer = Some(bearer);
        self.show_bearer();
        Ok(())
    }

    /// Has pods of `own` covered by policy scope `node`; without success, the next look tries again, and the file waits.
    fn cover(&mut self, own: Prefix4) {
        if self.bearer.as_ref().is_none_or(|bearer| bearer.subnet() == own) {
            return;
        }
        let covered = self.plan(own).and_then(|plan| self.bearer.as_mut().map_or(Ok(()), |bearer| bearer.cover(&plan)));
        if let Err(error) = covered
            && self.trouble.device.is_news(&error)
        {
            tracing::error!("{error}; trying again every second");
        }
    }

    /// Brings address and routes of the device in line with `own` and the network; a device that is in the way of that is
    /// made anew.
    fn readdress(&mut self, own: Prefix4) {
        let Some(bearer) = &self.bearer else { return };
        let (subnet, network) = (bearer.subnet(), bearer.network());
        if (subnet, network) == (own, self.overlay.range.network) {
            return;
        }
        let readdressed = self.plan(own).and_then(|plan| match &mut self.bearer {
            Some(bearer) => bearer.readdress(&plan),
            None => Ok(()),
        });
        if let Err(error) = readdressed {
            tracing::warn!("the TUN device does not take its new address: {error}; making it anew");
            self.raise_again_as(own);
        }
    }
}
