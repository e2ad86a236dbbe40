//! Is the overlay network somebody else's on this host? (R46: an overlay equal to the host's LAN cuts off its SSH.)
//!
//! What is refused: a subnet on the link, or a route, that covers the overlay network or is equal to it; and one inside
//! it on the external interface or on hardware. What is not: anything inside our own subnet (bridge and routes of the
//! pods), and a wider route by a gateway, which the overlay's more specific one only refines. Pieces of the network on other
//! software devices (a bridge still on an earlier subnet, routes of another backend) take those pieces out of the overlay
//! but cut nobody off: they are told as a warning.

use std::net::IpAddr;

use ipnetwork::IpNetwork;

use super::{DeviceError, Plan};
use crate::net::Prefix4;
use crate::sys::netlink::{Link, LinkAddress, Netlink, Route, RouteProtocol, RouteType, TABLE_MAIN};

/// Looks at the host, and says in the log what is merely odd. `own` is the overlay's device, if it is there already.
///
/// # Errors
/// [`DeviceError::Overlap`] when the network cannot be used here.
pub(super) fn check(plan: &Plan, own: Option<u32>, netlink: &Netlink) -> Result<(), DeviceError> {
    let (links, addresses, routes) = (netlink.links()?, netlink.addresses()?, netlink.routes()?);
    for finding in findings(plan, own, &links, &addresses, &routes) {
        if finding.cuts_off {
            return Err(DeviceError::Overlap { network: plan.network, found: finding.what });
        }
        tracing::warn!(network = %plan.network, found = finding.what, "part of the overlay network does not go through the overlay");
    }
    Ok(())
}

/// The IPv4 prefix of an address or destination; `None` for IPv6.
pub(super) fn prefix4(network: IpNetwork) -> Option<Prefix4> {
    let IpAddr::V4(address) = network.ip() else { return None };
    Prefix4::new(address, network.prefix()).ok()
}

/// Something of the host's that lies in the overlay network, or around it.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    what: String,
    cuts_off: bool,
}

fn findings(plan: &Plan, own: Option<u32>, links: &[Link], addresses: &[LinkAddress], routes: &[Route]) -> Vec<Finding> {
    let device = |index: u32| links.iter().find(|link| link.index == index);
    let name = |index: u32| device(index).map_or_else(|| index.to_string(), |link| link.name.clone());
    // Hosts, not pods, are behind these.
    let is_lan = |index: u32| index == plan.underlay || device(index).is_some_and(|link| link.kind.is_none() && !link.loopback);
    let mut findings = Vec::new();
    for address in addresses.iter().filter(|address| Some(address.device) != own) {
        let Some(prefix) = prefix4(address.address).filter(|prefix| concerns(plan, *prefix)) else { continue };
        findings.push(Finding {
            what: format!("address {} dev {}", address.address, name(address.device)),
            cuts_off: prefix.covers(&plan.network) || is_lan(address.device),
        });
    }
    for route in routes.iter().filter(|route| is_by_hand(route) && route.device != own) {
        let (Some(prefix), Some(device)) = (prefix4(route.to).filter(|prefix| concerns(plan, *prefix)), route.device) else {
            continue;
        };
        let on_link = route.gateway.is_none();
        if prefix.covers(&plan.network) && prefix != plan.network && !on_link {
            continue;
        }
        findings.push(Finding {
            what: format!("route {route} dev {}", name(device)),
            cuts_off: prefix.covers(&plan.network) || (on_link && is_lan(device)),
        });
    }
    findings
}

fn concerns(plan: &Plan, prefix: Prefix4) -> bool {
    prefix.overlaps(&plan.network) && !plan.subnet.covers(&prefix)
}

/// Routes that the kernel made for addresses are judged by the addresses.
fn is_by_hand(route: &Route) -> bool {
    let packets_leave = route.kind == RouteType::Unicast && route.table == TABLE_MAIN;
    packets_leave && !route.is_default() && route.protocol != RouteProtocol::Kernel
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::{LinkKind, OperState};

    const LO: u32 = 1;
    const ETH0: u32 = 2;
    const BRIDGE: u32 = 3;
    const OWN: u32 = 4;
    const VETH: u32 = 5;

    fn links() -> Vec<Link> {
        let link = |index, name: &str, kind| Link {
            index,
            name: name.to_owned(),
            mtu: 1500,
            up: true,
            running: true,
            carrier: true,
            loopback: index == LO,
            kind,
            state: OperState::Up,
            txqlen: 1000,
            master: None,
            alias: None,
            reverse_path: None,
        };
        let software = [(BRIDGE, "cni0", LinkKind::Bridge), (OWN, "flannel0", LinkKind::Tun), (VETH, "under0", LinkKind::Veth)];
        let software = software.map(|(index, name, kind)| link(index, name, Some(kind)));
        [link(LO, "lo", None), link(ETH0, "eth0", None)].into_iter().chain(software).collect()
    }

    fn judge(addresses: &[(u32, &str)], routes: &[(u32, &str, Option<&str>)]) -> Vec<(String, bool)> {
        let plan = Plan {
            name: "flannel0".to_owned(),
            network: "10.5.0.0/16".parse().unwrap(),
            subnet: "10.5.1.0/24".parse().unwrap(),
            mtu: 1472,
            queues: 1,
            offloads: true,
            underlay: VETH,
        };
        let address = |&(device, text): &(u32, &str)| LinkAddress {
            device,
            address: text.parse().unwrap(),
            link_scope: false,
            host_scope: false,
            permanent: true,
            deprecated: false,
            secondary: false,
            tentative: false,
        };
        let route = |&(device, to, gateway): &(u32, &str, Option<&str>)| Route {
            gateway: gateway.map(|gateway| gateway.parse().unwrap()),
            ..Route::new(to.parse().unwrap()).device(device)
        };
        let addresses: Vec<_> = addresses.iter().map(address).collect();
        let routes: Vec<_> = routes.iter().map(route).collect();
        let found = findings(&plan, Some(OWN), &links(), &addresses, &routes);
        found.into_iter().map(|finding| (finding.what, finding.cuts_off)).collect()
    }

    #[test]
    fn addresses_are_judged_by_their_subnet_and_device() {
        let nothing: [(u32, &str); 8] = [
            (LO, "127.0.0.1/8"),
            (ETH0, "192.168.1.5/24"),
            (ETH0, "10.4.255.1/16"),
            (BRIDGE, "10.5.1.1/24"),
            (BRIDGE, "10.5.1.130/25"),
            (OWN, "10.5.1.0/32"),
            (OWN, "10.5.7.0/16"),
            (ETH0, "fd00::5/64"),
        ];
        assert_eq!(judge(&nothing, &[]), []);
        for (device, text, cuts_off) in [
            (ETH0, "10.5.0.7/16", true),
            (ETH0, "10.0.0.7/8", true),
            (ETH0, "10.5.3.7/24", true),
            (VETH, "10.5.3.7/24", true),
            (BRIDGE, "10.5.3.1/16", true),
            (BRIDGE, "10.5.3.1/24", false),
            (LO, "10.5.9.9/32", false),
        ] {
            let found = judge(&[(device, text)], &[]);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].1, cuts_off, "{text}");
        }
        assert_eq!(judge(&[(ETH0, "10.5.0.7/16")], &[])[0].0, "address 10.5.0.7/16 dev eth0");
    }

    #[test]
    fn routes_are_judged_by_width_and_gateway() {
        let nothing = [
            (ETH0, "0.0.0.0/0", Some("192.168.1.1")),
            (ETH0, "10.0.0.0/8", Some("192.168.1.1")),
            (ETH0, "10.6.0.0/16", None),
            (BRIDGE, "10.5.1.17/32", None),
            (OWN, "10.5.0.0/16", None),
        ];
        assert_eq!(judge(&[], &nothing), []);
        for (device, to, gateway, cuts_off) in [
            (ETH0, "10.5.0.0/16", Some("192.168.1.1"), true),
            (BRIDGE, "10.5.0.0/16", None, true),
            (ETH0, "10.0.0.0/8", None, true),
            (ETH0, "10.5.9.0/24", None, true),
            (ETH0, "10.5.9.0/24", Some("192.168.1.9"), false),
            (BRIDGE, "10.5.9.0/24", None, false),
        ] {
            let found = judge(&[], &[(device, to, gateway)]);
            assert_eq!(found.len(), 1, "{to} {gateway:?}");
            assert_eq!(found[0].1, cuts_off, "{to} {gateway:?}");
        }
        let found = judge(&[], &[(ETH0, "10.5.9.0/24", Some("192.168.1.9"))]);
        assert_eq!(found[0].0, "route 10.5.9.0/24 via 192.168.1.9 dev eth0");
    }
}
