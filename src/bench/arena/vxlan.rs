//! The kernel's vxlan between the nodes of a lab, programmed as flannel does it: per peer one neighbour, one forwarding entry and
//! one route, all for good, nothing learned, no ARP.

use std::net::IpAddr;

use ipnetwork::{IpNetwork, Ipv4Network};

use super::stand::refused;
use crate::bench::Absent;
use crate::lab::{Lab, LabError, Node, UPLINK};
use crate::net::Prefix4;
use crate::sys::netlink::{HardwareAddress, Netlink, NetlinkError, Route, VxlanDevice};

/// flannel's names and numbers.
const DEVICE: &str = "flannel.1";
const VNI: u32 = 1;
const PORT: u16 = 8472;
/// Bytes of outer IPv4, UDP, VXLAN and inner Ethernet headers.
pub(super) const OVERHEAD: u32 = 50;

/// One end.
struct End {
    netlink: Netlink,
    device: u32,
    hardware: HardwareAddress,
    /// What its node leases; the first address is the device's.
    subnet: Prefix4,
    underlay: IpAddr,
}

/// Joins the nodes of `lab`, each of which gets the first address of its subnet.
pub(super) fn join(lab: &Lab) -> Result<(), Absent> {
    let ends = lab.nodes().map(|node| end(lab, node)).collect::<Result<Vec<_>, _>>()?;
    for (number, own) in ends.iter().enumerate() {
        for (_, peer) in ends.iter().enumerate().filter(|(other, _)| *other != number) {
            point(own, peer).map_err(refused)?;
        }
    }
    Ok(())
}

/// What is programmed at the lab's vxlan devices, for people.
pub(super) fn describe() -> String {
    format!("vni {VNI}, port {PORT}, nolearning, udp checksum, permanent fdb and neighbour entries")
}

fn end(lab: &Lab, node: Node<'_>) -> Result<End, Absent> {
    let (plan, place) = (lab.plan(), node.place());
    let netlink = lab.netns(place)?.run_in(Netlink::open).map_err(refused)?.map_err(refused)?;
    let no_subnet = || LabError::Probe(format!("{place} has no subnet"));
    let subnet = node.subnet()?.ok_or_else(no_subnet)?.subnet;
    let uplink = netlink.link(UPLINK).map_err(refused)?;
    let local = plan.underlay(node.number());
    let device = VxlanDevice { vni: VNI, underlay: uplink.index, local, port: PORT, learning: false };
    let link = netlink.create_vxlan(DEVICE, device).map_err(absent)?;
    let set_up = || -> Result<Option<HardwareAddress>, NetlinkError> {
        netlink.set_mtu(link.index, plan.underlay_mtu - OVERHEAD)?;
        netlink.add_address(link.index, IpNetwork::from(IpAddr::from(subnet.base())))?;
        netlink.set_up(link.index)?;
        netlink.hardware_address(link.index)
    };
    let hardware = set_up().map_err(refused)?.ok_or_else(|| LabError::Probe(format!("{DEVICE} has no hardware address")))?;
    Ok(End { netlink, device: link.index, hardware, subnet, underlay: local.into() })
}

/// Tells one end of the other, in flannel's order.
fn point(own: &End, peer: &End) -> Result<(), NetlinkError> {
    let address = peer.subnet.base();
    own.netlink.set_neighbour(own.device, address.into(), peer.hardware)?;
    own.netlink.set_forwarding(own.device, peer.hardware, peer.underlay)?;
    let subnet = Ipv4Network::new(address, peer.subnet.len()).unwrap_or_else(|_| Ipv4Network::from(address));
    let route = Route::new(subnet.into()).gateway(address.into()).device(own.device).onlink();
    own.netlink.replace_route(&route)
}

/// A kernel that has no vxlan is no failure.
fn absent(error: NetlinkError) -> Absent {
    if error.is_unsupported() {
        Absent::Missing("this kernel has no vxlan (CONFIG_VXLAN, module vxlan)".to_owned())
    } else {
        Absent::Lab(refused(error))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_kernel_without_vxlan_is_told_from_one_that_refuses() {
        let error = |errno| NetlinkError::Refused {
            attempt: "create".to_owned(),
            source: io::Error::from_raw_os_error(errno),
            detail: None,
        };
        let missing = absent(error(95));
        assert!(matches!(&missing, Absent::Missing(reason) if reason.contains("no vxlan")), "{missing}");
        let refused = absent(error(1));
        assert!(matches!(&refused, Absent::Lab(_)) && refused.to_string().contains("cannot create"), "{refused}");
    }
}
