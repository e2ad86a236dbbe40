//! What carries our traffic: the TUN device with its queues and the sockets that go with them, made and given up together.
//!
//! The queues and sockets themselves belong to the workers; this keeps what is needed to look after the device and to make
//! everything anew.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ipnetwork::{IpNetwork, Ipv4Network};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::device::{self, DeviceError, OverlayDevice};
use super::interface::External;
use super::offloads::OffloadWatch;
use super::options::{Offloads, RunOptions};
use super::policy::PolicyScope;
use super::scope::{self, Keeping, NodeScope, ScopeError};
use super::tuning;
use super::worker::{Pair, Ports};
use crate::net::{Prefix4, Supers};
use crate::port::os::{OsTun, OsUdp, TurnLimit, UdpOffloads};
use crate::sys::netlink::{Monitor, Netlink, NetlinkError};
use crate::sys::tun::TunQueue;
use crate::sys::udp::{BufferBytes, UdpError, UdpSocket};

/// Outer IPv4 and UDP headers of a datagram, in bytes.
const OVERHEAD: u32 = 28;
/// The least an IPv4 link must carry (RFC 791).
const SMALLEST_MTU: u32 = 68;
/// How long news of the kernel is let gather before it is looked at: a device that comes has a dozen to tell.
const GATHER: Duration = Duration::from_millis(50);
/// How long after a look the next one is taken at the earliest: on a busy host the kernel has news all the time. A node whose
/// address has changed is not heard for that long, so it is not a second.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Neither device nor sockets could be made.
#[derive(Debug, thiserror::Error)]
pub enum BearerError {
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A socket.
    #[error(transparent)]
    Udp(#[from] UdpError),
    /// The rules of policy scope `node`.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// The kernel could not be asked.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// There is none left for the second thread of a worker.
    #[error("cannot share a socket between the threads of a worker: {0}")]
    Descriptor(io::Error),
    /// The underlay is too narrow.
    #[error("the underlay's MTU of {found} leaves no room for packets: expected at least {}", SMALLEST_MTU + OVERHEAD)]
    Mtu {
        /// What it is.
        found: u32,
    },
}

/// What is to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The device.
    pub device: device::Plan,
    /// Where the sockets are bound.
    pub bind: SocketAddr,
    /// Buffers asked for each socket.
    pub buffers: BufferBytes,
    /// Which offloads may be used.
    pub offloads: Offloads,
    /// Packets per turn and direction.
    pub batch: usize,
    /// Whether all traffic of local pods is to go through the device: policy scope `node`.
    pub node_scope: bool,
}

/// What a look at the device found.
#[derive(Debug, PartialEq, Eq)]
pub enum Condition {
    /// All is well.
    Good,
    /// Something had been changed and is right again.
    Mended,
    /// There is no such device any more.
    Gone,
}

/// The device and sockets of a node.
pub struct Bearer {
    plan: Plan,
    up: Option<Up>,
}

struct Up {
    netlink: Netlink,
    monitor: AsyncFd<Monitor>,
    name: String,
    index: u32,
    granted: BufferBytes,
    offloads: OffloadWatch,
    scope: Keeping,
    /// When news was last looked at.
    looked: Option<Instant>,
    /// When news that has begun to gather is looked at.
    due: Option<Instant>,
}

impl Plan {
    /// The plan for a node that holds `subnet` of `network` on an underlay of `underlay_mtu` bytes.
    ///
    /// # Errors
    /// When that leaves no room for packets.
    pub fn new(
        options: &RunOptions,
        subnet: Prefix4,
        network: Prefix4,
        external: &External,
        underlay_mtu: u32,
        port: u16,
    ) -> Result<Self, BearerError> {
        let mtu = underlay_mtu.checked_sub(OVERHEAD).filter(|mtu| *mtu >= SMALLEST_MTU);
        let mtu = mtu.ok_or(BearerError::Mtu { found: underlay_mtu })?;
        let (name, queues, underlay) = (options.tun_name.clone(), options.workers, external.index);
        Ok(Self {
            device: device::Plan { name, network, subnet, mtu, queues, offloads: options.offloads.tun, underlay },
            bind: SocketAddr::from((external.bind, port)),
            buffers: BufferBytes { receive: options.udp_buffer, send: options.udp_buffer },
            offloads: options.offloads,
            batch: options.batch,
            node_scope: options.policy.as_ref().is_some_and(|policy| policy.scope == PolicyScope::Node),
        })
    }

    /// The policy scope, if it is `node`, by the device of this name and index.
    fn scope_by(&self, name: &str, index: u32) -> Option<NodeScope> {
        let network = |prefix: Prefix4| Ipv4Network::new(prefix.base(), prefix.len()).ok().map(IpNetwork::from);
        let (network, subnets) = (network(self.device.network), vec![network(self.device.subnet)?]);
        self.node_scope.then(|| NodeScope { device: name.to_owned(), index, network, subnets, former: Vec::new() })
    }
}

impl Bearer {
    /// Makes everything as planned.
    ///
    /// # Errors
    /// When something cannot be made; what was made before it is gone again.
    pub fn raise(plan: Plan) -> Result<(Self, Vec<Pair>), BearerError> {
        let mut bearer = Self { plan, up: None };
        let ports = bearer.bring_up()?;
        Ok((bearer, ports))
    }

    /// Takes the device for gone, until [`replace`](Self::replace) has made it anew. The workers must have let go of it.
    pub fn abandon(&mut self) {
        self.up = None;
    }

    /// Makes everything anew as planned now, after the workers have let go of what there was. A device that is still there
    /// is taken over.
    ///
    /// # Errors
    /// As [`raise`](Self::raise); it may be tried again.
    pub fn replace(&mut self, plan: &Plan) -> Result<Vec<Pair>, BearerError> {
        self.abandon();
        self.adopt(plan);
        self.bring_up()
    }

    /// Has pods of the subnet of `plan` under policy scope `node`, before there is any: where the device is still to be
    /// [readdressed](Self::readdress). Those of the subnet before stay so.
    ///
    /// # Errors
    /// When the kernel refuses; it is tried again with every [look](Self::check).
    pub fn cover(&mut self, plan: &Plan) -> Result<(), BearerError> {
        if let Some(up) = &mut self.up {
            up.scope.change(plan.scope_by(&up.name, up.index));
            up.scope.look(&up.netlink)?;
        }
        Ok(())
    }

    /// Gives the device the address and route of another subnet or network. Queues and sockets stay.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn readdress(&mut self, plan: &Plan) -> Result<(), BearerError> {
        self.adopt(plan);
        if let Some(up) = &mut self.up {
            up.scope.change(self.plan.scope_by(&up.name, up.index));
            up.scope.look(&up.netlink)?;
            device::restore(&self.plan.device, up.index, &up.name, &up.netlink)?;
        }
        Ok(())
    }

    /// Waits until the kernel has something to say about devices, addresses or rules, ours or others, or routes that may be ours;
    /// for ever without a device. Safe to drop and ask again.
    pub async fn news(&mut self) {
        let Some(up) = &mut self.up else { return std::future::pending().await };
        loop {
            // What has begun to gather stays in the socket until it is taken all at once.
            if up.monitor.readable().await.is_err() {
                return std::future::pending().await;
            }
            let (looked, soon) = (up.looked, Instant::now() + GATHER);
            // Kept beyond this call: on a busy node it is dropped and asked again many times before it is due.
            let due = *up.due.get_or_insert_with(|| looked.map_or(soon, |looked| (looked + LOOK_PAUSE).max(soon)));
            tokio::time::sleep_until(due).await;
            up.due = None;
            up.looked = Some(Instant::now());
            if up.take_news().await {
                return;
            }
        }
    }

    /// Looks at the device and puts right what is not.
    ///
    /// # Errors
    /// When the kernel cannot be asked or refuses.
    pub fn check(&mut self) -> Result<Condition, BearerError> {
        let Some(up) = &mut self.up else { return Ok(Condition::Gone) };
        let device = match device::restore(&self.plan.device, up.index, &up.name, &up.netlink) {
            Ok(changed) => changed,
            Err(DeviceError::Gone { .. }) => return Ok(Condition::Gone),
            Err(error) => return Err(error.into()),
        };
        match up.scope.look(&up.netlink) {
            Ok(rules) if device || rules => Ok(Condition::Mended),
            Ok(_) => Ok(Condition::Good),
            Err(ScopeError::Netlink(error)) if error.is_no_device() => Ok(Condition::Gone),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends it: removes the device and the rules by it, or leaves both for the next start. Left, they keep local pods cut off
    /// under policy scope `node`.
    pub fn release(self, keep: bool) {
        if keep {
            return;
        }
        // Also when it could not be attached to again: it would be left behind.
        let name = self.plan.device.name;
        let remove = || -> Result<(), BearerError> {
            let netlink = Netlink::open()?;
            if self.plan.node_scope {
                NodeScope::remove(&name, &netlink)?;
            }
            match netlink.find_link(&name)? {
                Some(link) => Ok(OverlayDevice::remove(link.index, &netlink)?),
                None => Ok(()),
            }
        };
        if let Err(error) = remove() {
            tracing::warn!("the TUN device {name} stays: {error}");
        }
    }

    /// The bridges by which local pods go round the policy, as far as is known. Without scope `node` nobody looks.
    pub fn bypassed(&self) -> &[String] {
        self.up.as_ref().map(|up| up.scope.bypassed()).unwrap_or_default()
    }

    /// Subnets we had before, whose pods stay under policy scope `node`; the oldest first.
    pub fn former(&self) -> Vec<Prefix4> {
        let former = self.up.as_ref().map(|up| up.scope.former()).unwrap_or_default();
        let prefix = |network: &IpNetwork| match network {
            IpNetwork::V4(network) => Prefix4::new(network.network(), network.prefix()).ok(),
            IpNetwork::V6(_) => None,
        };
        former.iter().filter_map(prefix).collect()
    }

    /// Whether pods of our subnet would be under policy scope `node` from their first packet on, if they are to be at all.
    pub fn covers_pods(&self) -> bool {
        !self.plan.node_scope || (self.is_up() && self.hindrance().is_none())
    }

    /// Why policy scope `node` is not in force as it should be; `None` also where there is none to be.
    pub fn hindrance(&self) -> Option<&str> {
        self.up.as_ref().and_then(|up| up.scope.hindrance())
    }

    /// Whether the device is there, as far as is known.
    pub fn is_up(&self) -> bool {
        self.up.is_some()
    }

    /// Our subnet.
    pub fn subnet(&self) -> Prefix4 {
        self.plan.device.subnet
    }

    /// The overlay network routed into the device.
    pub fn network(&self) -> Prefix4 {
        self.plan.device.network
    }

    /// What the device should be.
    pub fn device_plan(&self) -> &device::Plan {
        &self.plan.device
    }

    /// Largest inner packet, in bytes.
    pub fn mtu(&self) -> u16 {
        u16::try_from(self.plan.device.mtu).unwrap_or(u16::MAX)
    }

    /// Buffers each socket got.
    pub fn granted(&self) -> BufferBytes {
        self.up.as_ref().map_or(self.plan.buffers, |up| up.granted)
    }

    /// Which offloads are in use, and which have failed; `None` without a device.
    pub fn offloads(&mut self) -> Option<&mut OffloadWatch> {
        self.up.as_mut().map(|up| &mut up.offloads)
    }

    /// The plan from now on; the device keeps the name it has got.
    fn adopt(&mut self, plan: &Plan) {
        let name = std::mem::take(&mut self.plan.device.name);
        self.plan = Plan { device: device::Plan { name, ..plan.device.clone() }, ..plan.clone() };
    }

    fn bring_up(&mut self) -> Result<Vec<Pair>, BearerError> {
        let netlink = Netlink::open()?;
        // Opened before the device is looked at, so that no change is missed.
        let monitor = Monitor::open_with_routes()?.awaitable()?;
        let sockets = UdpSocket::bind_group(self.plan.bind, self.plan.buffers, self.plan.device.queues)?;
        let granted = sockets.first().map_or(self.plan.buffers, UdpSocket::granted);
        let device = OverlayDevice::bring_up(&self.plan.device, &netlink)?;
        // A device that was made anew keeps its name, also where only a template was given.
        self.plan.device.name.clone_from(&device.name);
        let ports = self.equip(device.queues, sockets)?;
        let offloads = OffloadWatch::of(&ports);
        tracing::info!(
            device = device.name,
            address = %self.plan.device.address(),
            mtu = self.plan.device.mtu,
            socket = %self.plan.bind,
            receive_buffer = granted.receive,
            send_buffer = granted.send,
            offloads = %offloads.in_use(),
            "tunnel up"
        );
        let (name, index) = (device.name, device.index);
        // Last, so that pods are sent into a device that is about to be read.
        let scope = Keeping::begin(self.plan.scope_by(&name, index), &name, &netlink)?;
        self.up = Some(Up { netlink, monitor, name, index, granted, offloads, scope, looked: None, due: None });
        Ok(ports)
    }

    /// Makes ports of queues of a device that is up and of the sockets that go with them, with those offloads that work.
    fn equip(&self, queues: Vec<TunQueue>, sockets: Vec<UdpSocket>) -> Result<Vec<Pair>, BearerError> {
        let Plan { offloads, batch, .. } = self.plan;
        // It is the device's, so it is set once all queues are there.
        let wanted = Supers { tcp: offloads.tun, udp: offloads.tun };
        let supers = queues.first().map_or(Supers::default(), |queue| OsTun::negotiate(queue, wanted));
        let limit = TurnLimit { packets: batch, bytes: tuning::TURN_BYTES };
        let udp_offloads = UdpOffloads { gso: offloads.udp_gso, gro: offloads.udp_gro };
        let pairs = queues.into_iter().zip(sockets);
        let ports = pairs.map(|(queue, socket)| {
            let (mut tun, udp) = (OsTun::new(queue, limit, supers), OsUdp::new(socket, batch, udp_offloads));
            if !tun.probe().map_err(|_| DeviceError::Gone { name: self.plan.device.name.clone() })? {
                tracing::debug!("the device takes no packets yet: whether it takes super-packets will be seen");
            }
            Pair::share(Ports { tun, udp })
        });
        ports.collect()
    }
}

impl Up {
    /// Takes what the kernel had to say. Whether any of it matters; then it all comes to the same: look at everything; an
    /// error, which hides what happened, too.
    async fn take_news(&mut self) -> bool {
        // Cleared first: what comes while the rest is taken wakes us again. It is ready, so this does not wait.
        if let Ok(mut ready) = self.monitor.readable_mut().await {
            ready.clear_ready();
        }
        let (index, mut matters) = (self.index, false);
        loop {
            match self.monitor.get_mut().next_event() {
                Ok(Some(event)) => matters |= scope::is_news(&event, index),
                Ok(None) => return matters,
                Err(_) => return true,
            }
        }
    }
}

#[cfg(test)]
#[path = "bearer_tests.rs"]
mod tests;
