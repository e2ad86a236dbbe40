//! The smallest ground: two namespaces joined by a veth pair. What the load generators are tried on.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{io, process, thread};

use ipnetwork::{IpNetwork, Ipv4Network};

use super::{Absent, End, Ends, Ground, Host, Path, Underlay};
use crate::lab::{LabError, UPLINK};
use crate::sys::netlink::{Link, Netlink, NetlinkError};
use crate::sys::netns::{Netns, NetnsError};

/// Addresses kept for documentation and tests (RFC 5737), in namespaces of their own.
const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PREFIX_LEN: u8 = 24;
const MTU: u32 = 1500;
const PATIENCE: Duration = Duration::from_secs(5);

/// Two namespaces joined by a veth pair, removed when dropped. It has one path: plain veth that keeps super-packets.
#[derive(Debug)]
pub struct BareGround {
    client: Name,
    server: Name,
}

/// A namespace that goes with its name.
#[derive(Debug)]
struct Name(String);

impl BareGround {
    /// Builds it, under names of this process's own. Needs root.
    ///
    /// # Errors
    /// When the kernel refuses a step.
    pub fn raise() -> Result<Self, LabError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let create = |side: &str| -> Result<(Name, Netns), LabError> {
            let name = format!("felt-bench-{}-{number}-{side}", process::id());
            let netns = Netns::create(&name).map_err(refused)?;
            Ok((Name(name), netns))
        };
        let (client, client_netns) = create("client")?;
        let (server, server_netns) = create("server")?;
        within(&client_netns, |netlink| {
            let link = netlink.create_veth(UPLINK, UPLINK, Some(server_netns.as_fd()))?;
            settle(netlink, &link, CLIENT)
        })?;
        within(&server_netns, |netlink| settle(netlink, &netlink.link(UPLINK)?, SERVER))?;
        for netns in [&client_netns, &server_netns] {
            within(netns, await_running)?;
        }
        Ok(Self { client, server })
    }
}

impl Ground for BareGround {
    fn ends(&mut self, underlay: Underlay, path: Path) -> Result<Ends, Absent> {
        if (underlay, path) != (Underlay::Super, Path::Veth) {
            return Err(Absent::Missing(format!("expected {} {}, the only path here", Underlay::Super, Path::Veth)));
        }
        let end = |name: &Name, address| -> Result<End, LabError> {
            Ok(End { netns: Netns::open(&name.0).map_err(refused)?, address: IpAddr::V4(address) })
        };
        Ok(Ends { client: end(&self.client, CLIENT)?, server: end(&self.server, SERVER)?, daemons: Vec::new() })
    }

    fn host(&self) -> Host {
        Host { mtu: MTU, ..Host::of_this_machine() }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        drop(Netns::delete(&self.0));
    }
}

fn settle(netlink: &Netlink, link: &Link, address: Ipv4Addr) -> Result<(), NetlinkError> {
    netlink.set_mtu(link.index, MTU)?;
    netlink.add_address(link.index, on_link(address))?;
    netlink.set_up(link.index)
}

/// Waits until the device carries packets. The kernel sees to that a moment after both ends are up, later on a busy machine;
/// what is sent before is lost. A device that never gets there shows in what is measured on it.
fn await_running(netlink: &Netlink) -> Result<(), NetlinkError> {
    let begin = Instant::now();
    while !netlink.link(UPLINK)?.running && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn on_link(address: Ipv4Addr) -> IpNetwork {
    Ipv4Network::new(address, PREFIX_LEN).unwrap_or_else(|_| Ipv4Network::from(address)).into()
}

fn within(netns: &Netns, work: impl FnOnce(&Netlink) -> Result<(), NetlinkError> + Send) -> Result<(), LabError> {
    let done = netns.run_in(|| work(&Netlink::open()?)).map_err(refused)?;
    done.map_err(|error| {
        let kind = error.errno().map_or(io::ErrorKind::Other, |errno| io::Error::from_raw_os_error(errno).kind());
        LabError::Step { step: "join two namespaces".to_owned(), reason: io::Error::new(kind, error) }
    })
}

fn refused(error: NetnsError) -> LabError {
    LabError::Step { step: "make namespaces for a benchmark".to_owned(), reason: io::Error::new(error.kind(), error) }
}
