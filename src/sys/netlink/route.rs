//! Routes, and the kernel's own answer to "which way?".

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnetwork::IpNetwork;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::address::family_of;
use super::{Netlink, NetlinkError};

/// The table that `ip route` shows.
pub const TABLE_MAIN: u32 = 254;

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub to: IpNetwork,
    /// The next hop, if not on the link; of a multipath route, the first.
    pub gateway: Option<IpAddr>,
    /// Index of the device to leave by; of a multipath route, the first.
    pub device: Option<u32>,
    /// Source address that the host's own packets get.
    pub source: Option<IpAddr>,
    /// Routing table.
    pub table: u32,
    /// Priority: the lowest of several equal routes wins.
    pub metric: Option<u32>,
    /// Who put it there.
    pub protocol: RouteProtocol,
    /// How far the destination is.
    pub scope: RouteScope,
    /// What happens to the packet.
    pub kind: RouteType,
    /// Path MTU in bytes, if the route has its own.
    pub mtu: Option<u32>,
    /// The gateway counts as being on the device's link, whatever addresses the device has.
    pub onlink: bool,
}

impl Route {
    /// A unicast route in the main table, with nothing said yet of how to get there.
    #[must_use]
    pub fn new(to: IpNetwork) -> Self {
        Self {
            to,
            gateway: None,
            device: None,
            source: None,
            table: TABLE_MAIN,
            metric: None,
            protocol: RouteProtocol::Boot,
            scope: RouteScope::Universe,
            kind: RouteType::Unicast,
            mtu: None,
            onlink: false,
        }
    }

    /// The default route of a family, with nothing said yet of how to get there.
    #[must_use]
    pub fn everywhere(ipv6: bool) -> Self {
        Self::new(everything(!ipv6))
    }

    /// The default route of the gateway's family by `gateway`.
    #[must_use]
    pub fn default_by(gateway: IpAddr) -> Self {
        Self::new(everything(gateway.is_ipv4())).gateway(gateway)
    }

    /// By this next hop.
    #[must_use]
    pub fn gateway(self, gateway: IpAddr) -> Self {
        Self { gateway: Some(gateway), ..self }
    }

    /// By this device.
    #[must_use]
    pub fn device(self, index: u32) -> Self {
        Self { device: Some(index), ..self }
    }

    /// With this source address for the host's own packets.
    #[must_use]
    pub fn source(self, source: IpAddr) -> Self {
        Self { source: Some(source), ..self }
    }

    /// In this table.
    #[must_use]
    pub fn table(self, table: u32) -> Self {
        Self { table, ..self }
    }

    /// With this priority.
    #[must_use]
    pub fn metric(self, metric: u32) -> Self {
        Self { metric: Some(metric), ..self }
    }

    /// Put there by this one.
    #[must_use]
    pub fn protocol(self, protocol: RouteProtocol) -> Self {
        Self { protocol, ..self }
    }

    /// Doing this to packets instead of letting them through.
    #[must_use]
    pub fn kind(self, kind: RouteType) -> Self {
        Self { kind, ..self }
    }

    /// With this scope.
    #[must_use]
    pub fn scope(self, scope: RouteScope) -> Self {
        Self { scope, ..self }
    }

    /// With this path MTU, in bytes.
    #[must_use]
    pub fn mtu(self, mtu: u32) -> Self {
        Self { mtu: Some(mtu), ..self }
    }

    /// With a gateway that counts as being on the link.
    #[must_use]
    pub fn onlink(self) -> Self {
        Self { onlink: true, ..self }
    }

    /// Whether it leads anywhere at all.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.to.prefix() == 0
    }
}

impl Netlink {
    /// Every route of every table, IPv4 first; no cached ones.
    pub fn routes(&self) -> Result<Vec<Route>, NetlinkError> {
        let mut all = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            match self.dump(&RouteNetlinkMessage::GetRoute(request), "list routes") {
                Ok(found) => all.extend(found.iter().filter(|message| !is_cached(message)).filter_map(as_route)),
                // A kernel without IPv6.
                Err(error) if family == AddressFamily::Inet6 && error.errno() == Some(libc::EOPNOTSUPP) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Adds a route; EEXIST if one to the same place with the same metric is there.
    pub fn add_route(&self, route: &Route) -> Result<(), NetlinkError> {
        let request = RouteNetlinkMessage::NewRoute(message(route));
        self.change(request, NLM_F_CREATE | NLM_F_EXCL, || self.attempt("add", route))
    }

    /// Adds a route, in the place of one to the same place with the same metric.
    pub fn replace_route(&self, route: &Route) -> Result<(), NetlinkError> {
        let request = RouteNetlinkMessage::NewRoute(message(route));
        self.change(request, NLM_F_CREATE | NLM_F_REPLACE, || self.attempt("replace", route))
    }

    /// Removes a route; ESRCH if none matches.
    pub fn delete_route(&self, route: &Route) -> Result<(), NetlinkError> {
        let request = RouteNetlinkMessage::DelRoute(message(route));
        self.change(request, 0, || self.attempt("delete", route))
    }

    /// The way the kernel would send a packet to `address` now: device, preferred source, gateway, and path MTU if known.
    ///
    /// # Errors
    /// ENETUNREACH and its like when there is no way.
    pub fn route_to(&self, address: IpAddr) -> Result<Route, NetlinkError> {
        let attempt = || format!("find the route to {address}");
        let mut request = RouteMessage::default();
        request.header.address_family = family_of(address);
        request.header.destination_prefix_length = if address.is_ipv4() { 32 } else { 128 };
        request.attributes.push(RouteAttribute::Destination(address.into()));
        let answer = self.ask(RouteNetlinkMessage::GetRoute(request), attempt)?;
        let Some(route) = answer.as_ref().and_then(as_route) else {
            return Err(NetlinkError::Unreadable { attempt: attempt(), reason: "expected a route, found nothing".to_owned() });
        };
        // Of IPv4 the kernel says so itself; of IPv6 it shows the route at which the way ends.
        let nowhere = match route.kind {
            RouteType::Unreachable => libc::ENETUNREACH,
            RouteType::Prohibit => libc::EACCES,
            RouteType::BlackHole => libc::EINVAL,
            _ => return Ok(route),
        };
        Err(NetlinkError::refused(&attempt(), io::Error::from_raw_os_error(nowhere)))
    }

    fn attempt(&self, verb: &str, route: &Route) -> String {
        let mut text = format!("{verb} route {route}");
        if let Some(device) = route.device {
            let name = self.device_name(device);
            text.push_str(&name.replacen("device", " dev", 1));
        }
        text
    }
}

/// Without the device, whose name a route does not know.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to)?;
        if let Some(gateway) = self.gateway {
            write!(f, " via {gateway}")?;
        }
        Ok(())
    }
}

fn message(route: &Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family_of(route.to.ip());
    message.header.destination_prefix_length = route.to.prefix();
    message.header.protocol = route.protocol;
    message.header.scope = route.scope;
    message.header.kind = route.kind;
    if route.onlink {
        message.header.flags |= RouteFlags::Onlink;
    }
    match u8::try_from(route.table) {
        Ok(table) => message.header.table = table,
        Err(_) => message.attributes.push(RouteAttribute::Table(route.table)),
    }
    let attributes = &mut message.attributes;
    if !route.is_default() {
        attributes.push(RouteAttribute::Destination(route.to.network().into()));
    }
    attributes.extend(route.gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
    attributes.extend(route.device.map(RouteAttribute::Oif));
    attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(source.into())));
    attributes.extend(route.metric.map(RouteAttribute::Priority));
    attributes.extend(route.mtu.map(|mtu| RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)])));
    message
}

/// The route a message tells of.
pub(super) fn as_route(message: &RouteNetlinkMessage) -> Option<Route> {
    let (RouteNetlinkMessage::NewRoute(message) | RouteNetlinkMessage::DelRoute(message)) = message else { return None };
    let header = &message.header;
    let is_v4 = header.address_family == AddressFamily::Inet;
    let mut route = Route::new(everything(is_v4));
    (route.table, route.protocol, route.scope, route.kind) =
        (u32::from(header.table), header.protocol, header.scope, header.kind);
    route.onlink = header.flags.contains(RouteFlags::Onlink);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(to) => route.to = IpNetwork::new(as_ip(to)?, header.destination_prefix_length).ok()?,
            RouteAttribute::Gateway(gateway) => route.gateway = as_ip(gateway),
            RouteAttribute::Oif(device) => route.device = Some(*device),
            RouteAttribute::PrefSource(source) => route.source = as_ip(source),
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::Priority(metric) => route.metric = Some(*metric),
            RouteAttribute::Metrics(metrics) => {
                route.mtu = metrics.iter().find_map(|metric| if let RouteMetric::Mtu(mtu) = metric { Some(*mtu) } else { None });
            }
            RouteAttribute::MultiPath(hops) => {
                let Some(hop) = hops.first() else { continue };
                route.device = Some(hop.interface_index);
                route.gateway = hop.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Gateway(gateway) => as_ip(gateway),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    Some(route)
}

fn is_cached(message: &RouteNetlinkMessage) -> bool {
    matches!(message, RouteNetlinkMessage::NewRoute(message) if message.header.flags.contains(RouteFlags::Cloned))
}

fn as_ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn everything(is_v4: bool) -> IpNetwork {
    let unspecified: IpAddr = if is_v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    IpNetwork::new(unspecified, 0).unwrap_or_else(|_| IpNetwork::from(unspecified))
}
