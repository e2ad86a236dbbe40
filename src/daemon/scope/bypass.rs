//! Do pods of this node talk to each other past all routing?

use ipnetwork::IpNetwork;

use super::ground::covers;
use crate::sys::netlink::{Link, LinkAddress, LinkKind, Netlink, NetlinkError, Route, RouteType, TABLE_MAIN};

/// The bridges that are up and by which addresses of the pod `subnets` are reached, by name, sorted: between pods on one of
/// them, no policy is in force. A gateway address on a bridge counts, and so does a route by a bridge or by one of its ports.
pub fn bypass(netlink: &Netlink, subnets: &[IpNetwork]) -> Result<Vec<String>, NetlinkError> {
    Ok(bridges(subnets, &netlink.links()?, &netlink.addresses()?, &netlink.routes()?))
}

fn bridges(subnets: &[IpNetwork], links: &[Link], addresses: &[LinkAddress], routes: &[Route]) -> Vec<String> {
    let is_ours = |network: &IpNetwork| subnets.iter().any(|subnet| covers(subnet, network));
    let gateways = addresses.iter().filter(|entry| subnets.iter().any(|subnet| subnet.contains(entry.address.ip())));
    let ways = routes.iter().filter(|route| route.table == TABLE_MAIN && route.kind == RouteType::Unicast && is_ours(&route.to));
    let devices = gateways.map(|entry| entry.device).chain(ways.filter_map(|route| route.device));
    let link = |index: u32| links.iter().find(|link| link.index == index);
    let bridge = |index: u32| link(index).filter(|link| link.kind == Some(LinkKind::Bridge) && link.up);
    let mut found: Vec<String> = devices
        .filter_map(|device| bridge(device).or_else(|| bridge(link(device)?.master?)))
        .map(|bridge| bridge.name.clone())
        .collect();
    found.sort();
    found.dedup();
    found
}
