//! What the kernel says of the host's interfaces, and which of them fits a wish.

use std::net::{IpAddr, Ipv4Addr};

use regex::Regex;

use super::{InterfaceError, Wishes};
use crate::daemon::device::is_name_by;
use crate::sys::netlink::{Link, LinkAddress, NetlinkError, Route, RouteType, TABLE_MAIN};

/// What the kernel says of the namespace.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Devices, by index.
    pub links: Vec<Link>,
    /// Their addresses.
    pub addresses: Vec<LinkAddress>,
    /// Routes of all tables.
    pub routes: Vec<Route>,
}

/// An interface that fits.
pub(super) struct Found<'a> {
    pub link: &'a Link,
    pub bind: Ipv4Addr,
    /// Of the route that led to it.
    pub route_mtu: Option<u32>,
}

impl Facts {
    pub(super) fn by_wish(
        &self,
        wishes: &Wishes,
        lookup: impl Fn(Ipv4Addr) -> Result<Route, NetlinkError>,
    ) -> Result<Found<'_>, InterfaceError> {
        let mut attempts = Vec::new();
        let mut note = |option: &str, value: &str, why: String| attempts.push(format!("--{option}={value}: {why}"));
        for wish in &wishes.ifaces {
            match self.by_iface(wish) {
                Ok(found) => return Ok(found),
                Err(why) => note("iface", wish, why),
            }
        }
        for wish in &wishes.regexes {
            match self.by_regex(wish, &wishes.overlay_device) {
                Ok(found) => return Ok(found),
                Err(why) => note("iface-regex", wish, why),
            }
        }
        if let Some(wish) = wishes.can_reach {
            match lookup(wish).map_err(|error| error.to_string()).and_then(|route| self.by_route(&route)) {
                Ok(found) => return Ok(found),
                Err(why) => note("iface-can-reach", &wish.to_string(), why),
            }
        }
        Err(InterfaceError::NoneFits { attempts })
    }

    pub(super) fn by_default(&self, wishes: &Wishes) -> Result<Found<'_>, InterfaceError> {
        if let Some(found) = wishes.public_ip.and_then(|address| self.carrying(address)) {
            return Ok(found);
        }
        let usable = |route: &&Route| self.link(route).is_some_and(|link| !is_name_by(&wishes.overlay_device, &link.name));
        let route = self.default_routes().filter(usable).min_by_key(|route| route.metric.unwrap_or(0));
        self.by_route(route.ok_or(InterfaceError::NoDefaultRoute)?).map_err(InterfaceError::Unusable)
    }

    fn by_iface(&self, wish: &str) -> Result<Found<'_>, String> {
        match wish.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => self.carrying(address).ok_or_else(|| "no interface has this address".to_owned()),
            Ok(IpAddr::V6(_)) => Err("expected the name or an IPv4 address of an interface, found an IPv6 address".to_owned()),
            Err(_) => {
                let link = self.links.iter().find(|link| link.name == wish).ok_or("no interface has this name")?;
                self.with_best_address(link)
            }
        }
    }

    /// Addresses first, then names, as flannel does; of interfaces that are up.
    fn by_regex(&self, wish: &str, overlay_device: &str) -> Result<Found<'_>, String> {
        let regex = Regex::new(wish).map_err(|error| format!("no valid expression: {error}"))?;
        let usable = || self.links.iter().filter(|link| link.up && !is_name_by(overlay_device, &link.name));
        let by_address = usable().find_map(|link| {
            let bind = self.ranked(link).into_iter().find(|address| regex.is_match(&address.to_string()))?;
            Some(Found { link, bind, route_mtu: None })
        });
        let by_name = || usable().filter(|link| regex.is_match(&link.name)).find_map(|link| self.with_best_address(link).ok());
        by_address.or_else(by_name).ok_or_else(|| "no interface that is up has such an address or name".to_owned())
    }

    fn by_route(&self, route: &Route) -> Result<Found<'_>, String> {
        let link = self.link(route).ok_or("its route leaves by no interface")?;
        if link.loopback || route.kind == RouteType::Local {
            return Err("it is an address of this host, expected one of another".to_owned());
        }
        let preferred = match route.source {
            Some(IpAddr::V4(source)) => Some(Found { link, bind: source, route_mtu: None }),
            _ => None,
        };
        let found = preferred.map_or_else(|| self.with_best_address(link), Ok)?;
        Ok(Found { route_mtu: known_mtu(route), ..found })
    }

    fn carrying(&self, address: Ipv4Addr) -> Option<Found<'_>> {
        let owner = self.addresses.iter().find(|entry| entry.address.ip() == address)?;
        let link = self.links.iter().find(|link| link.index == owner.device)?;
        Some(Found { link, bind: address, route_mtu: None })
    }

    fn with_best_address<'a>(&'a self, link: &'a Link) -> Result<Found<'a>, String> {
        let best = self.ranked(link).first().copied();
        let bind = best.ok_or_else(|| format!("interface {} has no usable IPv4 address", link.name))?;
        Ok(Found { link, bind, route_mtu: None })
    }

    /// The link's addresses that may be used, best first.
    fn ranked(&self, link: &Link) -> Vec<Ipv4Addr> {
        let mut ranked: Vec<_> = self.addresses.iter().filter(|entry| entry.device == link.index && !entry.deprecated).collect();
        ranked.sort_by_key(|entry| (is_link_local(entry), !entry.permanent, entry.secondary));
        ranked.into_iter().filter_map(|entry| usable_v4(entry.address.ip())).collect()
    }

    fn default_routes(&self) -> impl Iterator<Item = &Route> {
        let fits = |route: &&Route| {
            route.is_default() && route.to.is_ipv4() && route.table == TABLE_MAIN && route.kind == RouteType::Unicast
        };
        self.routes.iter().filter(fits)
    }

    pub(super) fn default_route_mtu(&self, link: &Link) -> Option<u32> {
        let own = self.default_routes().filter(|route| route.device == Some(link.index));
        own.min_by_key(|route| route.metric.unwrap_or(0)).and_then(known_mtu)
    }

    fn link(&self, route: &Route) -> Option<&Link> {
        self.links.iter().find(|link| Some(link.index) == route.device)
    }
}

/// A route's own MTU; the kernel says 0 for "none".
pub(super) fn known_mtu(route: &Route) -> Option<u32> {
    route.mtu.filter(|mtu| *mtu > 0)
}

fn is_link_local(entry: &LinkAddress) -> bool {
    matches!(entry.address.ip(), IpAddr::V4(address) if address.is_link_local())
}

fn usable_v4(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V4(address) = address else { return None };
    let unusable = address.is_loopback() || address.is_unspecified() || address.is_multicast() || address.is_broadcast();
    (!unusable).then_some(address)
}
