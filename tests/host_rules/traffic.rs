//! Whose source is translated and whose is not, by real packets; by every means there is, in both scopes of policy.

use std::net::Ipv4Addr;

use felt::lab::{EphemeralLab, LabPlan, LabPolicy, Place, PolicyScope};
use felt::net::Prefix4;
use felt::sys::netlink::Route;
use felt::sys::netns::Netns;
use ipnetwork::Ipv4Network;

use crate::ground::{Host, inside, names, ruleset, seen_as, tunnel_address};
use crate::support::{Outsider, acquainted, netlink, node};

const IPTABLES: [&str; 3] = ["iptables", "iptables-save", "iptables-restore"];
const LEGACY: [&str; 3] = ["iptables-legacy", "iptables-legacy-save", "iptables-legacy-restore"];

/// A lab whose nodes masquerade on such a host, and somebody outside.
fn world(test: &str, host: &Host, scope: PolicyScope) -> (EphemeralLab, Outsider) {
    let policy = Some(LabPolicy { dirs: Vec::new(), scope });
    let plan = LabPlan { pods_per_node: 2, policy, ..host.plan(test, 2, &["--ip-masq"]) };
    let lab = crate::support::up(plan);
    acquainted(&lab);
    let outsider = Outsider::join(&lab, 3);
    (lab, outsider)
}

fn place(lab: &EphemeralLab, place: Place) -> (Netns, Ipv4Addr) {
    (lab.netns(place).unwrap(), lab.address(place).unwrap())
}

/// What flannel's rules for iptables come to.
fn translates_what_leaves_the_overlay_and_nothing_else(lab: &EphemeralLab, outsider: &Outsider) {
    let any = Ipv4Addr::UNSPECIFIED;
    let (pod, pod_address) = place(lab, Place::Pod { node: 1, pod: 1 });
    let (neighbour, neighbour_address) = place(lab, Place::Pod { node: 1, pod: 2 });
    let (remote, remote_address) = place(lab, Place::Pod { node: 2, pod: 1 });
    let (own, other) = (node(lab, 1), node(lab, 2));
    let (own_underlay, other_underlay) = (lab.plan().underlay(1), lab.plan().underlay(2));
    // Pods among themselves and with their node see each other.
    assert_eq!(seen_as(&pod, any, &neighbour, neighbour_address), Some(pod_address));
    assert_eq!(seen_as(&pod, any, &remote, remote_address), Some(pod_address));
    assert_eq!(seen_as(&remote, any, &pod, pod_address), Some(remote_address));
    assert_eq!(seen_as(&pod, any, &own, own_underlay), Some(pod_address));
    assert_eq!(seen_as(&pod, any, &other, tunnel_address(lab, 2)), Some(pod_address));
    let to_own_pod = seen_as(&own, own_underlay, &pod, pod_address);
    assert_eq!(to_own_pod, Some(own_underlay));
    // The world sees the node.
    assert_eq!(seen_as(&pod, any, &outsider.netns, outsider.address), Some(own_underlay));
    assert_eq!(seen_as(&pod, any, &other, other_underlay), Some(own_underlay));
    // A node's own traffic to remote pods gets an address of the overlay, whatever source it chose.
    assert_eq!(seen_as(&own, own_underlay, &remote, remote_address), Some(tunnel_address(lab, 1)));
    // Who comes from the world is seen by a pod.
    let uplink = netlink(&outsider.netns);
    let subnet: Prefix4 = lab.node(1).unwrap().subnet().unwrap().unwrap().subnet;
    let to = Ipv4Network::new(subnet.base(), subnet.len()).unwrap().into();
    uplink.add_route(&Route::new(to).gateway(own_underlay.into())).unwrap();
    assert_eq!(seen_as(&outsider.netns, any, &pod, pod_address), Some(outsider.address));
}

fn by(test: &str, programs: &[&str], scope: PolicyScope, told: &str) {
    let host = Host::with(programs);
    let (lab, outsider) = world(test, &host, scope);
    translates_what_leaves_the_overlay_and_nothing_else(&lab, &outsider);
    let rules = match told {
        "nft" => ruleset(&node(&lab, 1)),
        program => inside(&node(&lab, 1), &format!("{program}-save -t nat")).unwrap(),
    };
    let name = if told == "nft" { names(lab.node(1).unwrap()).table } else { names(lab.node(1).unwrap()).masquerade };
    assert!(rules.contains(&name) && rules.contains("random"), "{rules}");
}

#[test]
fn by_nft() {
    by("nft", &["nft"], PolicyScope::Overlay, "nft");
}

#[test]
fn by_nft_where_all_traffic_of_pods_passes_the_tun_twice() {
    by("nft2", &["nft"], PolicyScope::Node, "nft");
}

#[test]
fn by_iptables() {
    by("ipt", &IPTABLES, PolicyScope::Overlay, "iptables");
}

#[test]
fn by_iptables_where_all_traffic_of_pods_passes_the_tun_twice() {
    by("ipt2", &IPTABLES, PolicyScope::Node, "iptables");
}

#[test]
fn by_the_older_iptables_in_both_scopes() {
    by("leg", &LEGACY, PolicyScope::Overlay, "iptables-legacy");
    by("leg2", &LEGACY, PolicyScope::Node, "iptables-legacy");
}

#[test]
fn without_the_flag_the_world_sees_the_pod() {
    let host = Host::with(&["nft"]);
    let lab = host.lab("plain", 1, &[]);
    let outsider = Outsider::join(&lab, 2);
    let (pod, pod_address) = place(&lab, Place::Pod { node: 1, pod: 1 });
    let subnet: Prefix4 = lab.node(1).unwrap().subnet().unwrap().unwrap().subnet;
    let to = Ipv4Network::new(subnet.base(), subnet.len()).unwrap().into();
    netlink(&outsider.netns).add_route(&Route::new(to).gateway(lab.plan().underlay(1).into())).unwrap();
    assert_eq!(seen_as(&pod, Ipv4Addr::UNSPECIFIED, &outsider.netns, outsider.address), Some(pod_address));
}
