//! Namespaces, links, addresses and routes of a lab.
//!
//! The hub holds a bridge, the underlay's switch. Each node hangs on it by its `eth0`, unless two nodes are joined directly:
//! then each has a line of its own to the hub, and the underlay is one pair of devices. Each pod hangs on its node by a
//! pair of its own and is *routed*, not bridged, as the ptp CNI plugin does it: the pod has its address with all bits
//! fixed and reaches everything by the node's end, which bears the gateway address. So every packet of a pod passes the
//! node's routing, and whatever of the overlay is not local enters the TUN.
//!
//! All of this lives inside the lab's namespaces; the machine's own network is neither read nor changed.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use ipnetwork::{IpNetwork, Ipv4Network};

use super::plan::{HUB_ADDRESS, UNDERLAY_LEN};
use super::process::netns_step;
use super::{Interrupt, LabError, LabPlan, Link, Place, RegistryKind};
use crate::net::Prefix4;
use crate::sys::netlink::{Netlink, NetlinkError, Route, RouteScope};
use crate::sys::netns::Netns;

/// The device by which a node reaches the underlay, and a pod its node.
pub const UPLINK: &str = "eth0";
/// The device by which a node of a direct lab reaches the hub.
pub const CONTROL_LINE: &str = "ctl0";
const BRIDGE: &str = "br0";
const LOOPBACK: &str = "lo";
/// The kernel gathers changes of carrier for up to a second.
const CARRIER_PATIENCE: Duration = Duration::from_secs(5);

/// A pod's place in its node's subnet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodLink {
    pub(super) pod: u16,
    pub(super) subnet: Prefix4,
    /// Largest packet of the overlay, in bytes.
    pub(super) mtu: u32,
}

impl PodLink {
    /// The first address of the subnet: the node's end of every pod's link.
    fn gateway(&self) -> Result<Ipv4Addr, LabError> {
        self.host(1)
    }

    /// Pod K has the address after the gateway's and those of the pods before it.
    pub(super) fn address(&self) -> Result<Ipv4Addr, LabError> {
        self.host(1 + u128::from(self.pod))
    }

    fn host(&self, offset: u128) -> Result<Ipv4Addr, LabError> {
        // The last address is the subnet's broadcast address.
        self.subnet.nth(offset).filter(|address| *address != self.subnet.last()).ok_or_else(|| {
            LabError::BadPlan(format!(
                "subnet {} is too small for pod {}; use larger subnets or fewer pods",
                self.subnet, self.pod
            ))
        })
    }
}

/// Makes the hub: a namespace with a bridge that has the registry's address.
pub(super) fn build_hub(plan: &LabPlan) -> Result<(), LabError> {
    let (_, hub) = create(plan, Place::Hub)?;
    let bridge = hub.create_bridge(BRIDGE).map_err(refused)?;
    hub.set_mtu(bridge.index, plan.underlay_mtu).map_err(refused)?;
    hub.add_address(bridge.index, on_link(HUB_ADDRESS, UNDERLAY_LEN)).map_err(refused)?;
    hub.set_up(bridge.index).map_err(refused)
}

/// Makes a node and hangs it on the hub: by its uplink, or by its control line if the uplink is for the other node.
pub(super) fn build_node(plan: &LabPlan, number: u16) -> Result<(), LabError> {
    let hub = netlink(plan, Place::Hub)?;
    let (netns, node) = create(plan, Place::Node(number))?;
    let line = line_to_hub(plan);
    let port = hub.create_veth(&port_name(number), line, Some(std::os::fd::AsFd::as_fd(&netns))).map_err(refused)?;
    let bridge = hub.link(BRIDGE).map_err(refused)?;
    hub.set_mtu(port.index, plan.underlay_mtu).map_err(refused)?;
    hub.set_master(port.index, Some(bridge.index)).map_err(refused)?;
    hub.set_up(port.index).map_err(refused)?;
    let line = node.link(line).map_err(refused)?;
    node.set_mtu(line.index, plan.underlay_mtu).map_err(refused)?;
    if plan.link == Link::Switched {
        attach_uplink(plan, number, &node)?;
        // As on a host with a way out; the hub itself forwards nothing.
        node.add_route(&Route::default_by(HUB_ADDRESS.into())).map_err(refused)?;
    }
    allow_forwarding(&netns)
}

/// Joins the uplinks of a direct lab, and routes what goes to the hub over the control lines. A switched lab is joined already.
pub(super) fn join_nodes(plan: &LabPlan) -> Result<(), LabError> {
    if plan.link == Link::Switched {
        return Ok(());
    }
    let second = netns(plan, Place::Node(2))?;
    let first = netlink(plan, Place::Node(1))?;
    first.create_veth(UPLINK, UPLINK, Some(std::os::fd::AsFd::as_fd(&second))).map_err(refused)?;
    for number in plan.node_numbers() {
        let node = netlink(plan, Place::Node(number))?;
        attach_uplink(plan, number, &node)?;
        let line = node.link(CONTROL_LINE).map_err(refused)?;
        node.set_up(line.index).map_err(refused)?;
        // The line has no address of its own: the node is known to the hub by that of its uplink.
        let to_hub = Route::new(alone(HUB_ADDRESS)).device(line.index).scope(RouteScope::Link);
        node.add_route(&to_hub.source(plan.underlay(number).into())).map_err(refused)?;
        node.add_route(&Route::default_by(HUB_ADDRESS.into())).map_err(refused)?;
    }
    Ok(())
}

/// Gives a node's uplink its MTU and address.
fn attach_uplink(plan: &LabPlan, number: u16, node: &Netlink) -> Result<(), LabError> {
    let uplink = node.link(UPLINK).map_err(refused)?;
    node.set_mtu(uplink.index, plan.underlay_mtu).map_err(refused)?;
    node.add_address(uplink.index, on_link(plan.underlay(number), UNDERLAY_LEN)).map_err(refused)?;
    node.set_up(uplink.index).map_err(refused)
}

/// Makes a pod's namespace, with no link yet.
pub(super) fn build_pod(plan: &LabPlan, place: Place) -> Result<(), LabError> {
    create(plan, place).map(drop)
}

/// Hangs a pod on its node, in the place of a link it may have had before. Its address is returned.
pub(super) fn attach_pod(plan: &LabPlan, number: u16, link: PodLink) -> Result<Ipv4Addr, LabError> {
    let place = Place::Pod { node: number, pod: link.pod };
    let (gateway, address) = (link.gateway()?, link.address()?);
    let pod_netns = netns(plan, place)?;
    let (node, pod) = (netlink(plan, Place::Node(number))?, netlink(plan, place)?);
    let name = format!("pod{}", link.pod);
    if let Some(old) = node.find_link(&name).map_err(refused)? {
        node.delete_link(old.index).map_err(refused)?;
    }
    let port = node.create_veth(&name, UPLINK, Some(std::os::fd::AsFd::as_fd(&pod_netns))).map_err(refused)?;
    let uplink = pod.link(UPLINK).map_err(refused)?;
    node.set_mtu(port.index, link.mtu).map_err(refused)?;
    pod.set_mtu(uplink.index, link.mtu).map_err(refused)?;
    node.add_address(port.index, alone(gateway)).map_err(refused)?;
    pod.add_address(uplink.index, alone(address)).map_err(refused)?;
    node.set_up(port.index).map_err(refused)?;
    pod.set_up(uplink.index).map_err(refused)?;
    node.add_route(&Route::new(alone(address)).device(port.index).scope(RouteScope::Link)).map_err(refused)?;
    pod.add_route(&Route::new(alone(gateway)).device(uplink.index).scope(RouteScope::Link)).map_err(refused)?;
    pod.add_route(&Route::default_by(gateway.into())).map_err(refused)?;
    Ok(address)
}

/// Routes every other node's fixed subnet over the underlay, for a lab without an overlay.
pub(super) fn route_to_others(plan: &LabPlan, number: u16) -> Result<(), LabError> {
    let node = netlink(plan, Place::Node(number))?;
    for other in plan.node_numbers().filter(|other| *other != number) {
        let subnet = plan.fixed_subnet(other)?;
        let route = Route::new(on_link(subnet.base(), subnet.len())).gateway(plan.underlay(other).into());
        node.replace_route(&route).map_err(refused)?;
    }
    Ok(())
}

/// Pulls a node's underlay cables, or puts them back: the far ends go down, the node keeps addresses and routes.
///
/// The far end of a direct link is the other node's uplink, which so learns of it sooner than it would on a real wire.
pub(super) fn set_cable(plan: &LabPlan, number: u16, plugged: bool) -> Result<(), LabError> {
    let node = netlink(plan, Place::Node(number))?;
    let mut cables = vec![(netlink(plan, Place::Hub)?, port_name(number), line_to_hub(plan))];
    let other = (plan.link == Link::Direct).then(|| plan.node_numbers().find(|other| *other != number)).flatten();
    if let Some(other) = other {
        cables.push((netlink(plan, Place::Node(other))?, UPLINK.to_owned(), UPLINK));
    }
    for (far, port, _) in &cables {
        let port = far.link(port).map_err(refused)?;
        if plugged { far.set_up(port.index) } else { far.set_down(port.index) }.map_err(refused)?;
    }
    if !plugged {
        return Ok(());
    }
    // The kernel forgets the routes of a device that goes down.
    if let (Some(other), RegistryKind::Absent) = (other, plan.registry) {
        route_to_others(plan, other)?;
    }
    // The carrier comes a moment after the command, and what is sent before is lost.
    let carried = Interrupt::new().wait(CARRIER_PATIENCE, || {
        for (far, port, near) in &cables {
            let (port, near) = (far.link(port).map_err(refused)?, node.link(near).map_err(refused)?);
            // A near end that is down is itself the far end of another's cable that is pulled.
            if near.up && !(port.running && near.running) {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })?;
    carried
        .ok_or_else(|| LabError::Probe(format!("the link of {} has no carrier after {CARRIER_PATIENCE:?}", Place::Node(number))))
}

/// The namespace of a place.
pub(super) fn netns(plan: &LabPlan, place: Place) -> Result<Netns, LabError> {
    Netns::open(&plan.name.namespace(place)).map_err(netns_step)
}

/// Links, addresses and routes of a place.
pub(super) fn netlink(plan: &LabPlan, place: Place) -> Result<Netlink, LabError> {
    open_netlink(&netns(plan, place)?)
}

fn open_netlink(netns: &Netns) -> Result<Netlink, LabError> {
    netns.run_in(Netlink::open).map_err(netns_step)?.map_err(refused)
}

fn create(plan: &LabPlan, place: Place) -> Result<(Netns, Netlink), LabError> {
    let netns = Netns::create(&plan.name.namespace(place)).map_err(netns_step)?;
    let netlink = open_netlink(&netns)?;
    let loopback = netlink.link(LOOPBACK).map_err(refused)?;
    netlink.set_up(loopback.index).map_err(refused)?;
    Ok((netns, netlink))
}

fn allow_forwarding(netns: &Netns) -> Result<(), LabError> {
    let switch = Path::new("/proc/sys/net/ipv4/ip_forward");
    let written = netns.run_in(|| fs::write(switch, "1")).map_err(netns_step)?;
    written.map_err(LabError::step(format!("write {} in {}", switch.display(), netns.name())))
}

/// The node's end of its cable to the hub.
fn line_to_hub(plan: &LabPlan) -> &'static str {
    match plan.link {
        Link::Switched => UPLINK,
        Link::Direct => CONTROL_LINE,
    }
}

/// The hub's end of a node's cable.
fn port_name(number: u16) -> String {
    Place::Node(number).to_string()
}

fn on_link(address: Ipv4Addr, len: u8) -> IpNetwork {
    Ipv4Network::new(address, len).unwrap_or_else(|_| Ipv4Network::from(address)).into()
}

fn alone(address: Ipv4Addr) -> IpNetwork {
    Ipv4Network::from(address).into()
}

pub(super) fn refused(error: NetlinkError) -> LabError {
    let kind = error.errno().map_or(std::io::ErrorKind::Other, |errno| std::io::Error::from_raw_os_error(errno).kind());
    LabError::Step { step: "wire the lab".to_owned(), reason: std::io::Error::new(kind, error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_follow_the_gateway() {
        let link = |pod, subnet: &str| PodLink { pod, subnet: subnet.parse().unwrap(), mtu: 1472 };
        assert_eq!(link(1, "10.99.4.0/24").gateway().unwrap(), Ipv4Addr::new(10, 99, 4, 1));
        assert_eq!(link(1, "10.99.4.0/24").address().unwrap(), Ipv4Addr::new(10, 99, 4, 2));
        assert_eq!(link(250, "10.99.4.0/24").address().unwrap(), Ipv4Addr::new(10, 99, 4, 251));
        // Of four addresses two are taken by network and broadcast, one by the gateway.
        assert!(link(1, "10.99.4.0/30").address().is_ok());
        assert!(link(2, "10.99.4.0/30").address().is_err());
    }
}
