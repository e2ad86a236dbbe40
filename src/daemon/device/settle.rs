//! MTU, queue length, addresses, state and routes of the device: looked at, and changed where they differ.

use std::net::{IpAddr, Ipv4Addr};

use ipnetwork::{IpNetwork, Ipv4Network};

use super::overlap::prefix4;
use super::{DeviceError, Plan};
use crate::sys::netlink::{LinkAddress, Netlink, NetlinkError, Route, RouteProtocol, RouteType, TABLE_MAIN};

/// Packets that may wait for a worker. The kernel's 500 lose a burst of one 700 KB window in silence (`tx_dropped`);
/// 4,096 hold 6 MB at 1,500 bytes, which is 5 ms at 10 Gb/s, for 32 KiB of ring.
const TXQLEN: u32 = 4096;

/// Brings a device that is there into its state again, after somebody changed it; says whether anything had to be changed.
///
/// # Errors
/// [`DeviceError::Gone`] when there is no such device any more: then it must be brought up anew.
pub fn restore(plan: &Plan, index: u32, name: &str, netlink: &Netlink) -> Result<bool, DeviceError> {
    match settle(plan, index, name, netlink) {
        Err(DeviceError::Netlink(error)) if error.is_no_device() => Err(DeviceError::Gone { name: name.to_owned() }),
        other => other,
    }
}

pub(super) fn settle(plan: &Plan, index: u32, name: &str, netlink: &Netlink) -> Result<bool, DeviceError> {
    let link = netlink.link_at(index)?.ok_or_else(|| DeviceError::Gone { name: name.to_owned() })?;
    let mut changed = false;
    if link.mtu != plan.mtu {
        netlink.set_mtu(index, plan.mtu)?;
        changed = true;
    }
    if link.txqlen != TXQLEN {
        match netlink.set_txqlen(index, TXQLEN) {
            Ok(()) => changed = true,
            // A device that root prepared works with the queue it has.
            Err(error) if error.errno() == Some(libc::EPERM) => tracing::debug!(%error, "bursts may be lost"),
            Err(error) => return Err(error.into()),
        }
    }
    changed |= settle_addresses(plan, index, netlink)?;
    if !link.up {
        netlink.set_up(index)?;
        changed = true;
    }
    // Last: setting a device down, and taking an address away, takes routes along.
    changed |= settle_routes(plan, index, netlink)?;
    Ok(changed)
}

/// One address of the overlay network, ours; addresses outside it are somebody else's and stay.
fn settle_addresses(plan: &Plan, index: u32, netlink: &Netlink) -> Result<bool, NetlinkError> {
    let ours = host(plan.address());
    let routes = netlink.routes()?;
    let mut present: Vec<LinkAddress> = netlink.addresses()?;
    present.retain(|entry| entry.device == index);
    let mut changed = false;
    // First: a device that loses its last address loses its routes, others' too.
    if !present.iter().any(|entry| entry.address == ours) {
        netlink.add_address(index, ours)?;
        changed = true;
    }
    for entry in present.iter().filter(|entry| entry.address != ours) {
        if is_inside(plan, entry.address) || is_of_a_former_network(entry.address, index, &routes) {
            unless_missing(netlink.delete_address(index, entry.address))?;
            changed = true;
        }
    }
    Ok(changed)
}

/// One route to the overlay network by this device.
fn settle_routes(plan: &Plan, index: u32, netlink: &Netlink) -> Result<bool, NetlinkError> {
    let network = Ipv4Network::new_checked(plan.network.base(), plan.network.len()).map(IpNetwork::V4);
    let network = network.unwrap_or_else(|| host(plan.address()));
    // With the source named, other addresses on the device cannot become that of our own packets.
    let wanted = Route::new(network).device(index).source(plan.address().into());
    let mut present = netlink.routes()?;
    present.retain(|route| route.device == Some(index) && route.table == TABLE_MAIN);
    // Of another network that our subnet is one of, too: that source is our mark.
    let former = |route: &Route| route.source == wanted.source && route.protocol == RouteProtocol::Boot;
    let mut changed = false;
    if !present.contains(&wanted) {
        // To replace means whatever has this place, so only when it is ours.
        let taken = present.iter().any(|route| route.to == network && route.metric == wanted.metric);
        if taken { netlink.replace_route(&wanted) } else { netlink.add_route(&wanted) }?;
        changed = true;
    }
    let stale = |route: &&Route| if route.to == network { route.metric != wanted.metric } else { former(route) };
    for stale in present.iter().filter(stale) {
        unless_missing(netlink.delete_route(stale))?;
        changed = true;
    }
    Ok(changed)
}

fn is_inside(plan: &Plan, address: IpNetwork) -> bool {
    matches!(address.ip(), IpAddr::V4(address) if plan.network.contains(address))
}

/// A /32 that a route by hand through this device names as its source, to a network the address lies in: what we, and only
/// we, leave when the overlay network is changed.
fn is_of_a_former_network(address: IpNetwork, index: u32, routes: &[Route]) -> bool {
    address.is_ipv4()
        && address.prefix() == 32
        && routes.iter().any(|route| {
            route.device == Some(index)
                && route.source == Some(address.ip())
                && route.protocol == RouteProtocol::Boot
                && route.kind == RouteType::Unicast
                && prefix4(route.to).is_some_and(|to| to.len() < 32 && prefix4(address).is_some_and(|own| to.covers(&own)))
        })
}

fn host(address: Ipv4Addr) -> IpNetwork {
    IpNetwork::from(IpAddr::V4(address))
}

/// Removing what has gone by itself meanwhile (a secondary address with its primary, a route with its source) is done.
fn unless_missing(result: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    match result {
        Err(error) if matches!(error.errno(), Some(libc::EADDRNOTAVAIL | libc::ESRCH | libc::ENOENT)) => Ok(()),
        other => other,
    }
}
