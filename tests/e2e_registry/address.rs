//! A node whose underlay address changes keeps its subnet, and its peers follow.

use std::fs;
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use felt::lab::{Lab, LabPlan, RegistryKind, UPLINK};
use ipnetwork::{IpNetwork, Ipv4Network};

use crate::lab::{PATIENCE, eventually, netlink, node, note};
use crate::store::Store;
use crate::{etcd_lab, etcd_plan, pinger, require_both_ways, start, subnet, up};

const OLD: Ipv4Addr = Ipv4Addr::new(172, 30, 1, 2);
const NEW: Ipv4Addr = Ipv4Addr::new(172, 30, 1, 202);
const GAP: Duration = Duration::from_secs(1);

fn on_underlay(address: Ipv4Addr) -> IpNetwork {
    Ipv4Network::new(address, felt::lab::UNDERLAY_LEN).unwrap().into()
}

/// Gives node 2 the address `to` and takes `from` away, the new one first, as a careful operator would.
fn renumber(lab: &Lab, from: Ipv4Addr, to: Ipv4Addr) {
    let netns = node(lab, 2);
    // Without this the kernel takes the second address of a network away with the first.
    netns.run_in(|| fs::write("/proc/sys/net/ipv4/conf/all/promote_secondaries", "1")).unwrap().unwrap();
    let kernel = netlink(&netns);
    let uplink = kernel.link(UPLINK).unwrap().index;
    kernel.add_address(uplink, on_underlay(to)).unwrap();
    thread::sleep(Duration::from_millis(200));
    kernel.delete_address(uplink, on_underlay(from)).unwrap();
}

/// Renumbers node 2 while its pod is pinged.
fn renumber_under_pings(lab: &Lab, registry: &str) {
    let pings = pinger(lab, 1, 2, Duration::from_millis(10));
    thread::sleep(Duration::from_millis(500));
    renumber(lab, OLD, NEW);
    thread::sleep(Duration::from_secs(2));
    let report = pings.stop().unwrap();
    note(&format!("address, {registry}: {} of {} pings lost, longest gap {:?}", report.lost(), report.sent, report.longest_gap));
    assert!(report.longest_gap <= GAP && report.lost() < 100, "{report:?}");
    require_both_ways(lab, 1, 2);
}

#[test]
fn peers_follow_a_node_of_a_registry_server_too() {
    let lab = up(LabPlan { registry: RegistryKind::Embedded, ..etcd_plan("address-remote", 2, &[]) });
    let own = subnet(lab.node(2).unwrap());
    // The client cannot know that the record is its own; the server does, by the node noted beside it.
    renumber_under_pings(&lab, "registry server");
    assert_eq!(subnet(lab.node(2).unwrap()), own);
}

#[test]
fn a_node_that_changes_its_address_keeps_its_subnet() {
    let lab = etcd_lab("address", 2, &[]);
    let store = Store::of(&lab);
    let moving = lab.node(2).unwrap();
    let (own, pid) = (subnet(moving), moving.pid());
    let before = store.lease(own).unwrap();
    let announced = |address: Ipv4Addr| {
        let quoted = format!("\"{address}\"");
        eventually("the lease names the new address", PATIENCE, || store.lease(own).filter(|lease| lease.value.contains(&quoted)))
    };

    // While it runs.
    renumber_under_pings(&lab, "etcd");
    let live = announced(NEW);
    let log = fs::read_to_string(moving.log()).unwrap();
    assert!(!log.contains("leased by another node") && !log.contains("no longer ours"), "{log}");
    assert!(live.created == before.created && subnet(moving) == own && moving.pid() == pid);

    // While it is down.
    moving.stop().unwrap();
    renumber(&lab, NEW, OLD);
    start(moving, &[]);
    assert_eq!(announced(OLD).created, before.created);
    assert!(subnet(moving) == own && store.leases() == 2);
    require_both_ways(&lab, 1, 2);
}
