//! What carries our traffic: the TUN device with its queues and the sockets that go with them, made and given up together.
//!
//! The queues and sockets themselves belong to the workers; this keeps what is needed to look after the device and to make
//! everything anew.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::device::{self, DeviceError, OverlayDevice};
use super::interface::External;
use super::offloads::OffloadWatch;
use super::options::{Offloads, RunOptions};
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
        })
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

    /// Gives the device the address and route of another subnet or network. Queues and sockets stay.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn readdress(&mut self, plan: &Plan) -> Result<(), BearerError> {
        self.adopt(plan);
        if let Some(up) = &self.up {
            device::restore(&self.plan.device, up.index, &up.name, &up.netlink)?;
        }
        Ok(())
    }

    /// Waits until the kernel has something to say about devices or addresses, ours or others; for ever without a device.
    /// Safe to drop and ask again.
    pub async fn news(&mut self) {
        let Some(up) = &mut self.up else { return std::future::pending().await };
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
        up.take_news().await;
    }

    /// Looks at the device and puts right what is not.
    ///
    /// # Errors
    /// When the kernel cannot be asked or refuses.
    pub fn check(&mut self) -> Result<Condition, BearerError> {
        let Some(up) = &self.up else { return Ok(Condition::Gone) };
        match device::restore(&self.plan.device, up.index, &up.name, &up.netlink) {
            Ok(false) => Ok(Condition::Good),
            Ok(true) => Ok(Condition::Mended),
            Err(DeviceError::Gone { .. }) => Ok(Condition::Gone),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends it: removes the device, or leaves it for the next start.
    pub fn release(self, keep: bool) {
        if keep {
            return;
        }
        // Also when it could not be attached to again: it would be left behind.
        let name = self.plan.device.name;
        let removed = Netlink::open().and_then(|netlink| match netlink.find_link(&name)? {
            Some(link) => OverlayDevice::remove(link.index, &netlink),
            None => Ok(()),
        });
        if let Err(error) = removed {
            tracing::warn!("the TUN device {name} stays: {error}");
        }
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
        let monitor = Monitor::open()?.awaitable()?;
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
        self.up = Some(Up { netlink, monitor, name, index, granted, offloads, looked: None, due: None });
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
    /// Takes what the kernel had to say. It all comes to the same: look at everything; an error, which hides what happened,
    /// too.
    async fn take_news(&mut self) {
        // Cleared first: what comes while the rest is taken wakes us again. It is ready, so this does not wait.
        if let Ok(mut ready) = self.monitor.readable_mut().await {
            ready.clear_ready();
        }
        while matches!(self.monitor.get_mut().next_event(), Ok(Some(_))) {}
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::control::registry::etcd::EtcdConfig;
    use crate::daemon::options::RegistryChoice;
    use crate::daemon::overlay::Overlay;
    use crate::forward::SourceCheck;
    use crate::lease::NetworkConfig;

    fn options() -> RunOptions {
        RunOptions {
            registry: RegistryChoice::Etcd(EtcdConfig::default()),
            iface: Vec::new(),
            iface_regex: Vec::new(),
            iface_can_reach: None,
            public_ip: None,
            subnet_file: "/nonexistent/subnet.env".into(),
            renew_margin: Duration::from_hours(1),
            lease_ttl: Duration::from_hours(24),
            healthz: None,
            metrics: None,
            policy: None,
            tun_name: "flannel%d".into(),
            workers: 1,
            keep_device: false,
            node_id: None,
            source_check: SourceCheck::Strict,
            udp_buffer: 4096,
            offloads: Offloads::ALL,
            batch: tuning::BATCH,
            spin: Duration::ZERO,
        }
    }

    /// The device's MTU on an interface with `nic`, under a config with this `Backend`.
    fn device_mtu(nic: u32, backend: &str) -> Result<u32, BearerError> {
        let address = Ipv4Addr::new(192, 0, 2, 1);
        let external = External { name: "eth0".into(), index: 2, mtu: nic, bind: address, announce: address, up: true };
        let config = NetworkConfig::parse(&format!(r#"{{"Network":"10.5.0.0/16","Backend":{backend}}}"#)).unwrap();
        let overlay = Overlay::new(&config, address).unwrap();
        let underlay_mtu = overlay.underlay_mtu.map_or(external.mtu, u32::from);
        let network = overlay.range.network;
        let plan = Plan::new(&options(), "10.5.7.0/24".parse().unwrap(), network, &external, underlay_mtu, overlay.port)?;
        assert_eq!((plan.bind.to_string().as_str(), plan.device.underlay), ("192.0.2.1:8285", 2));
        Ok(plan.device.mtu)
    }

    #[test]
    fn the_device_is_narrower_than_the_underlay_by_the_outer_headers() {
        for (nic, expected) in [(576, 548), (1280, 1252), (1420, 1392), (1500, 1472), (9000, 8972)] {
            assert_eq!(device_mtu(nic, r#"{"Type":"udp"}"#).unwrap(), expected, "{nic}");
            // The config speaks of the underlay, too, and wins over what the interface has.
            for (backend, expected) in [
                (r#"{"Type":"udp","MTU":576}"#, 548),
                (r#"{"Type":"udp","MTU":1400}"#, 1372),
                (r#"{"Type":"udp","MTU":1500}"#, 1472),
                (r#"{"Type":"udp","MTU":9000}"#, 8972),
            ] {
                assert_eq!(device_mtu(nic, backend).unwrap(), expected, "{nic} under {backend}");
            }
        }
    }

    #[test]
    fn an_underlay_without_room_for_packets_is_refused() {
        assert_eq!(device_mtu(96, r#"{"Type":"udp"}"#).unwrap(), 68);
        for nic in [0, 27, 28, 95] {
            let error = device_mtu(nic, r#"{"Type":"udp"}"#).unwrap_err();
            assert!(matches!(error, BearerError::Mtu { found } if found == nic), "{error}");
            assert!(error.to_string().contains("at least 96"), "{error}");
        }
    }
}
