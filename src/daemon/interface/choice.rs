//! The choice.

use std::net::Ipv4Addr;

use super::facts::{Facts, Found, known_mtu};
use crate::daemon::RunOptions;
use crate::sys::netlink::{Link, Netlink, NetlinkError, Route};

/// The largest outer packet there can be: IP lengths are 16 bits (the loopback device claims 65,536).
const MTU_MAX: u32 = 65_535;

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// `--iface`: names or addresses.
    pub ifaces: Vec<String>,
    /// `--iface-regex`: expressions for addresses, then names.
    pub regexes: Vec<String>,
    /// `--iface-can-reach`.
    pub can_reach: Option<Ipv4Addr>,
    /// `--public-ip`.
    pub public_ip: Option<Ipv4Addr>,
    /// Name or template of the overlay's own device, perhaps left by an earlier run; never an underlay.
    pub overlay_device: String,
}

/// The external interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Largest outer packet in bytes: the interface's, or that of its default route if lower.
    pub mtu: u32,
    /// Where the socket is bound.
    pub bind: Ipv4Addr,
    /// What other nodes are told to send to.
    pub announce: Ipv4Addr,
    /// Whether it was up when it was looked at.
    pub up: bool,
}

/// No interface could be chosen.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum InterfaceError {
    /// Nothing given fits.
    #[error("no external interface fits: {}", attempts.join("; "))]
    NoneFits { attempts: Vec<String> },
    /// Nothing was given and there is no default route.
    #[error("there is no IPv4 default route to take the external interface from: give one with --iface")]
    NoDefaultRoute,
    /// The interface is chosen but cannot be used.
    #[error("{0}; choose another with --iface")]
    Unusable(String),
    /// The kernel could not be asked.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl Wishes {
    /// What a node's options ask for.
    #[must_use]
    pub fn of(options: &RunOptions) -> Self {
        Self {
            ifaces: options.iface.clone(),
            regexes: options.iface_regex.clone(),
            can_reach: options.iface_can_reach,
            public_ip: options.public_ip,
            overlay_device: options.tun_name.clone(),
        }
    }
}

impl External {
    /// Whether traffic goes another way by `other`; being up or down is no difference.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> bool {
        Self { up: other.up, ..self.clone() } != *other
    }

    /// Says what may be odd about it. Not part of the choice, which is repeated all the time.
    pub fn remark(&self) {
        let Self { bind, announce, .. } = self;
        if announce != bind {
            tracing::info!(%bind, %announce, "the announced address is not the one bound to: peers must be able to reach it");
        }
        if !self.up {
            tracing::warn!(interface = self.name, "the external interface is down");
        }
    }
}

/// Asks the kernel and chooses.
pub fn find(wishes: &Wishes, netlink: &Netlink) -> Result<External, InterfaceError> {
    let facts = Facts { links: netlink.links()?, addresses: netlink.addresses()?, routes: netlink.routes()? };
    choose(wishes, &facts, |address| netlink.route_to(address.into()))
}

/// Chooses by `facts`; `lookup` is the kernel's answer to "which way to this address?".
pub fn choose(
    wishes: &Wishes,
    facts: &Facts,
    lookup: impl Fn(Ipv4Addr) -> Result<Route, NetlinkError>,
) -> Result<External, InterfaceError> {
    let asked = !(wishes.ifaces.is_empty() && wishes.regexes.is_empty() && wishes.can_reach.is_none());
    let found = if asked { facts.by_wish(wishes, lookup)? } else { facts.by_default(wishes)? };
    let Found { link, bind, route_mtu } = found;
    let announce = wishes.public_ip.unwrap_or(bind);
    let mtu = [Some(link.mtu), route_mtu, facts.default_route_mtu(link), Some(MTU_MAX)];
    match mtu.into_iter().flatten().min() {
        None | Some(0) => Err(InterfaceError::Unusable(format!("interface {} has no MTU", link.name))),
        Some(mtu) => Ok(External { name: link.name.clone(), index: link.index, mtu, bind, announce, up: link.up }),
    }
}

/// The largest packet, in bytes, that a route's device and the route itself let through; `None` if neither says.
///
/// For comparing the way to a peer with the external interface: it may be narrower.
pub fn mtu_of_route(route: &Route, links: &[Link]) -> Option<u32> {
    let device = links.iter().find(|link| Some(link.index) == route.device).map(|link| link.mtu);
    [device, known_mtu(route)].into_iter().flatten().filter(|mtu| *mtu > 0).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::{LinkAddress, OperState, RouteType};

    fn link(index: u32, name: &str, mtu: u32) -> Link {
        Link {
            index,
            name: name.to_owned(),
            mtu,
            up: true,
            running: true,
            carrier: true,
            loopback: name == "lo",
            kind: None,
            state: OperState::Up,
            txqlen: 1000,
            master: None,
            alias: None,
            reverse_path: None,
        }
    }

    fn address(device: u32, text: &str) -> LinkAddress {
        LinkAddress {
            device,
            address: text.parse().unwrap(),
            link_scope: false,
            host_scope: false,
            permanent: true,
            deprecated: false,
            secondary: false,
            tentative: false,
        }
    }

    fn ip(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    /// A host with three interfaces, the overlay's device from an earlier run, and two default routes.
    fn host() -> Facts {
        let lan = Route::default_by("10.0.0.1".parse().unwrap()).device(2);
        let wan = Route { metric: Some(100), ..Route::default_by("203.0.113.1".parse().unwrap()).device(3) };
        let away = Route { table: 100, ..Route::default_by("172.16.0.1".parse().unwrap()).device(4) };
        Facts {
            links: vec![
                link(1, "lo", 65_536),
                link(2, "eth0", 1500),
                link(3, "eth1", 9000),
                link(4, "wg0", 1420),
                link(5, "flannel0", 1472),
                Link { up: false, ..link(6, "eth9", 1500) },
            ],
            addresses: vec![
                LinkAddress { host_scope: true, ..address(1, "127.0.0.1/8") },
                LinkAddress { deprecated: true, ..address(2, "10.0.0.9/24") },
                address(2, "169.254.3.4/16"),
                LinkAddress { permanent: false, ..address(2, "10.0.0.7/24") },
                LinkAddress { secondary: true, ..address(2, "10.0.0.6/24") },
                address(2, "10.0.0.5/24"),
                address(3, "203.0.113.5/24"),
                address(4, "fd00::4/64"),
                address(4, "169.254.9.9/16"),
                address(5, "10.5.1.0/32"),
                address(6, "10.99.0.1/24"),
            ],
            routes: vec![away, wan, lan],
        }
    }

    fn decide(wishes: &Wishes, facts: &Facts) -> Result<External, InterfaceError> {
        choose(wishes, facts, |target| {
            let everywhere = Route::new("0.0.0.0/0".parse().unwrap());
            Ok(match target.octets() {
                [192, 0, 2, _] => everywhere.device(3).source(ip("203.0.113.5").into()).mtu(1300),
                [172, ..] => everywhere.device(4),
                _ => Route { kind: RouteType::Local, ..everywhere.device(1) },
            })
        })
    }

    fn wishes(text: &str) -> Wishes {
        let mut wishes = Wishes { overlay_device: "flannel0".to_owned(), ..Wishes::default() };
        for (option, value) in text.split_whitespace().map(|word| word.split_once('=').unwrap()) {
            match option {
                "iface" => wishes.ifaces.push(value.to_owned()),
                "regex" => wishes.regexes.push(value.to_owned()),
                "reach" => wishes.can_reach = Some(ip(value)),
                "public" => wishes.public_ip = Some(ip(value)),
                other => panic!("{other}"),
            }
        }
        wishes
    }

    #[test]
    fn wishes_lead_to_interface_bind_and_announce() {
        let cases = [
            // The lowest metric of the main table; not deprecated, global, permanent, primary.
            ("", "eth0 1500 10.0.0.5 10.0.0.5"),
            // Carried by an interface: that one. Not carried: behind NAT.
            ("public=203.0.113.5", "eth1 9000 203.0.113.5 203.0.113.5"),
            ("public=10.0.0.6", "eth0 1500 10.0.0.6 10.0.0.6"),
            ("public=198.51.100.1", "eth0 1500 10.0.0.5 198.51.100.1"),
            // By name or address, in order; link-local if there is nothing better; deprecated when named.
            ("iface=eth1", "eth1 9000 203.0.113.5 203.0.113.5"),
            ("iface=wg0", "wg0 1420 169.254.9.9 169.254.9.9"),
            ("iface=10.0.0.9", "eth0 1500 10.0.0.9 10.0.0.9"),
            ("iface=eth7 iface=10.0.0.99 iface=eth1 iface=eth0", "eth1 9000 203.0.113.5 203.0.113.5"),
            ("iface=127.0.0.1", "lo 65535 127.0.0.1 127.0.0.1"),
            ("iface=eth1 public=198.51.100.1", "eth1 9000 203.0.113.5 198.51.100.1"),
            ("iface=eth9", "eth9 1500 10.99.0.1 10.99.0.1"),
            // Unanchored, addresses before names, up only, never the overlay's device.
            (r"regex=203\.0", "eth1 9000 203.0.113.5 203.0.113.5"),
            (r"regex=^10\.", "eth0 1500 10.0.0.5 10.0.0.5"),
            (r"regex=0\.0\.[67]$", "eth0 1500 10.0.0.6 10.0.0.6"),
            (r"regex=^10\.5\. regex=eth[1-9]", "eth1 9000 203.0.113.5 203.0.113.5"),
            ("regex=( regex=.*", "eth0 1500 10.0.0.5 10.0.0.5"),
            // Order of the options; the way's own source and MTU.
            ("reach=192.0.2.1", "eth1 1300 203.0.113.5 203.0.113.5"),
            ("reach=172.16.0.9", "wg0 1420 169.254.9.9 169.254.9.9"),
            ("reach=192.0.2.1 regex=wg iface=eth7", "wg0 1420 169.254.9.9 169.254.9.9"),
            ("reach=192.0.2.1 regex=nothing", "eth1 1300 203.0.113.5 203.0.113.5"),
        ];
        for (text, expected) in cases {
            let External { name, mtu, bind, announce, .. } = decide(&wishes(text), &host()).unwrap();
            assert_eq!(format!("{name} {mtu} {bind} {announce}"), expected, "{text}");
        }
    }

    #[test]
    fn flannels_own_cases() {
        let texts = ["1.10.100.1/24", "192.168.200.128/24", "172.16.30.18/24", "172.16.31.200/24", "172.16.32.100/24"];
        let mut facts = Facts { links: vec![link(1, "lo", 65_536), link(7, "dummy0", 1500)], ..Facts::default() };
        facts.addresses = texts.iter().map(|text| address(7, text)).collect();
        let cases = [
            (r"regex=192\.168\.200\.\d+", "192.168.200.128 192.168.200.128"),
            (r"regex=dummy\d+", "1.10.100.1 1.10.100.1"),
            ("iface=dummy0", "1.10.100.1 1.10.100.1"),
            ("iface=172.16.30.18", "172.16.30.18 172.16.30.18"),
            (r"regex=172\.16\.30\.\d+ public=172.16.31.200", "172.16.30.18 172.16.31.200"),
            ("reach=172.16.32.254", "172.16.32.100 172.16.32.100"),
        ];
        for (text, expected) in cases {
            let lookup = |_| Ok(Route::new("172.16.32.0/24".parse().unwrap()).device(7).source(ip("172.16.32.100").into()));
            let External { bind, announce, .. } = choose(&wishes(text), &facts, lookup).unwrap();
            assert_eq!(format!("{bind} {announce}"), expected, "{text}");
        }
    }

    #[test]
    fn what_did_not_fit_is_told() {
        let told = |text: &str| decide(&wishes(text), &host()).unwrap_err().to_string();
        assert_eq!(
            told("iface=eth7 iface=::1 regex=nothing reach=10.0.0.5"),
            "no external interface fits: --iface=eth7: no interface has this name; --iface=::1: expected the name or an IPv4 \
             address of an interface, found an IPv6 address; --iface-regex=nothing: no interface that is up has such an \
             address or name; --iface-can-reach=10.0.0.5: it is an address of this host, expected one of another"
        );
        assert!(told("regex=(").contains("no valid expression"));
        assert!(told("iface=lo").contains("interface lo has no usable IPv4 address"));
        let no_routes = Facts { routes: Vec::new(), ..host() };
        assert!(matches!(decide(&wishes(""), &no_routes), Err(InterfaceError::NoDefaultRoute)));
    }

    #[test]
    fn the_route_may_be_narrower_than_the_interface() {
        let mut facts = host();
        facts.routes[2].mtu = Some(1400);
        assert_eq!(decide(&wishes(""), &facts).unwrap().mtu, 1400);
        assert_eq!(decide(&wishes("iface=eth0"), &facts).unwrap().mtu, 1400);
        facts.routes[2].mtu = Some(0);
        assert_eq!(decide(&wishes(""), &facts).unwrap().mtu, 1500);
        facts.links[1].mtu = 0;
        assert!(matches!(decide(&wishes(""), &facts), Err(InterfaceError::Unusable(_))));
        let way = Route::new("10.9.0.0/16".parse().unwrap()).device(4);
        assert_eq!(mtu_of_route(&way, &facts.links), Some(1420));
        assert_eq!(mtu_of_route(&way.mtu(1280), &facts.links), Some(1280));
    }
}
