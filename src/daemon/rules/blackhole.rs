//! A route by which packets for addresses of our subnet that no pod has end here, instead of going by the default route.
//!
//! Its metric is the worst but those of policy scope `node`: whatever else leads to the subnet, a bridge for one, comes first.

use ipnetwork::{IpNetwork, Ipv4Network};

use super::ground::RuleSet;
use crate::daemon::scope::PROTOCOL;
use crate::net::Prefix4;
use crate::sys::netlink::{Netlink, NetlinkError, Route, RouteType, TABLE_MAIN};

const METRIC: u32 = u32::MAX - 2;

/// Sees to it that the route is there, and that none is left of `former`, a subnet held before; whether anything had to be done.
pub(super) fn look(rules: &RuleSet, former: Option<Prefix4>, netlink: &Netlink) -> Result<bool, NetlinkError> {
    let wanted = route(rules.subnet);
    let present: Vec<Route> = netlink.routes()?.into_iter().filter(is_ours).collect();
    let is_stale = |to: IpNetwork| to != wanted.to && former.is_some_and(|former| to == route(former).to);
    for stale in present.iter().filter(|route| is_stale(route.to)) {
        gone(netlink.delete_route(stale))?;
    }
    if present.iter().any(|route| route.to == wanted.to) {
        return Ok(false);
    }
    netlink.add_route(&wanted)?;
    Ok(true)
}

/// Every such route, whichever daemon it is of.
pub(super) fn all(netlink: &Netlink) -> Result<Vec<Route>, NetlinkError> {
    Ok(netlink.routes()?.into_iter().filter(is_ours).collect())
}

/// What somebody else has removed meanwhile is gone.
pub(super) fn gone(result: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    match result {
        Err(error) if error.errno() == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}

fn route(subnet: Prefix4) -> Route {
    let to = Ipv4Network::new_checked(subnet.base(), subnet.len())
        .map_or_else(|| IpNetwork::from(std::net::IpAddr::V4(subnet.base())), Into::into);
    Route::new(to).protocol(PROTOCOL).kind(RouteType::BlackHole).metric(METRIC)
}

fn is_ours(route: &Route) -> bool {
    (route.table, route.kind, route.protocol, route.metric) == (TABLE_MAIN, RouteType::BlackHole, PROTOCOL, Some(METRIC))
}
