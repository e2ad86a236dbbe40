//! A network config that changes while nodes run.

use std::fs;
use std::time::Duration;

use felt::lab::LabPlan;
use felt::net::Prefix4;

use crate::http;
use crate::lab::{PATIENCE, eventually, lines, netlink, node};
use crate::store::Store;
use crate::{etcd_plan, pinger, require_both_ways, subnet, up};

const BEFORE: &str = r#"{"Network":"10.99.0.0/16","SubnetMin":"10.99.50.0","SubnetMax":"10.99.60.0","Backend":{"Type":"udp"}}"#;
const AFTER: &str = r#"{"Network":"10.99.0.0/16","SubnetMin":"10.99.100.0","SubnetMax":"10.99.120.0","Backend":{"Type":"udp"}}"#;

#[test]
fn a_subnet_that_falls_out_of_the_network_is_exchanged() {
    let lab = up(LabPlan { config: BEFORE.to_owned(), ..etcd_plan("limits", 2, &[]) });
    let store = Store::of(&lab);
    let old: Vec<Prefix4> = lab.nodes().map(subnet).collect();
    lab.registry().put_config(AFTER).unwrap();
    for (node, old) in lab.nodes().zip(&old) {
        let moved = || (subnet(node) != *old && node.is_ready()).then(|| subnet(node));
        let new = eventually("the node takes a subnet within the limits", PATIENCE, moved);
        assert!((100..=120).contains(&new.base().octets()[2]), "{new}");
        assert!(store.lease(new).is_some());
        eventually("the old lease is given back", PATIENCE, || store.lease(*old).is_none().then_some(()));
        node.attach_pods().unwrap();
        let said = fs::read_to_string(node.log()).unwrap();
        assert!(said.contains("the network has changed") && said.contains("this node holds another subnet now"), "{said}");
        assert!(!said.contains("is ignored") && !said.contains("our lease is gone"), "{said}");
    }
    require_both_ways(&lab, 1, 2);
    for (number, old) in (1..).zip(&old) {
        let addresses = netlink(&node(&lab, number)).addresses().unwrap();
        assert!(
            !addresses.iter().any(|entry| entry.address.ip() == std::net::IpAddr::from(old.base())),
            "{old} is off the device"
        );
    }
}

#[test]
fn of_configs_that_follow_each_other_closely_the_last_one_counts() {
    let lab = up(LabPlan { config: BEFORE.to_owned(), ..etcd_plan("flips", 2, &[]) });
    let store = Store::of(&lab);
    let elsewhere = AFTER.replace("10.99.", "10.98.");
    for config in [AFTER, BEFORE, &elsewhere, BEFORE, AFTER, BEFORE, &elsewhere] {
        store.put_config(config);
    }
    for node in lab.nodes() {
        let moved = || (subnet(node).to_string().starts_with("10.98.") && node.is_ready()).then_some(());
        eventually("the node goes by the last config", PATIENCE, moved);
        assert!(node.subnet().unwrap().unwrap().network.to_string() == "10.98.0.0/16");
        node.attach_pods().unwrap();
    }
    require_both_ways(&lab, 1, 2);
    eventually("every other lease is given back", PATIENCE, || (store.leases() == 2).then_some(()));
}

#[test]
fn another_backend_is_a_warning_only() {
    let lab = up(etcd_plan("backend", 2, &[]));
    let store = Store::of(&lab);
    let leases: Vec<_> = lab.nodes().map(|node| store.lease(subnet(node))).collect();
    let pinger = pinger(&lab, 1, 2, Duration::from_millis(20));
    let warned = |words: &str, times: usize| {
        for node in lab.nodes() {
            let said = || (lines(&node.log()).iter().filter(|line| line.contains(words)).count() >= times).then_some(());
            eventually(&format!("{} says `{words}`", node.place()), PATIENCE, said);
        }
    };
    store.put_config(r#"{"Network":"10.99.0.0/16","Backend":{"Type":"udp","Port":9555}}"#);
    warned("at the next start", 1);
    store.put_config(r#"{"Network":"10.99.0.0/16","Backend":{"Type":"vxlan"}}"#);
    warned("at the next start", 2);
    store.put_config(r#"{"Network":"10.99.0.0/16","Backend":"#);
    warned("is not taken", 1);
    std::thread::sleep(Duration::from_millis(500));
    let report = pinger.stop().unwrap();
    assert!(report.received > 0 && report.lost() == 0, "{report:?}");
    assert_eq!(lab.nodes().map(|node| store.lease(subnet(node))).collect::<Vec<_>>(), leases);
    assert!(lab.nodes().all(|node| node.is_ready()));
}

/// What node 1 has: the networks routed into its device, and the network its file tells.
fn networks(lab: &felt::lab::Lab) -> (Vec<String>, String) {
    let kernel = netlink(&node(lab, 1));
    let device = kernel.link("flannel0").unwrap().index;
    let routes = kernel.routes().unwrap().into_iter().filter(|route| route.device == Some(device) && route.to.is_ipv4());
    let routes = routes.filter(|route| route.to.prefix() < 32).map(|route| route.to.to_string()).collect();
    (routes, lab.node(1).unwrap().subnet().unwrap().unwrap().network.to_string())
}

#[test]
fn a_network_that_grows_and_shrinks_around_the_subnet_keeps_it() {
    let lab = up(etcd_plan("grow", 2, &[]));
    let store = Store::of(&lab);
    let leases: Vec<_> = lab.nodes().map(|node| store.lease(subnet(node))).collect();
    let pinger = pinger(&lab, 1, 2, Duration::from_millis(20));
    for network in ["10.96.0.0/14", "10.99.0.0/16"] {
        lab.registry().put_config(&format!(r#"{{"Network":"{network}","SubnetLen":24}}"#)).unwrap();
        let is_there = || (networks(&lab) == (vec![network.to_owned()], network.to_owned())).then_some(());
        eventually(&format!("{network} is routed and told"), PATIENCE, is_there);
    }
    let report = pinger.stop().unwrap();
    let told = || {
        let of = |number: u16| {
            let scraped = http::metrics(&node(&lab, number));
            (fs::read_to_string(lab.node(number).unwrap().log()).unwrap(), format!("{scraped:?}"))
        };
        [of(1), of(2)]
    };
    assert!(report.received > 0 && report.lost() == 0, "{report:?} {:#?}", told());
    assert_eq!(lab.nodes().map(|node| store.lease(subnet(node))).collect::<Vec<_>>(), leases);
}

#[test]
fn a_network_of_the_host_s_own_is_refused_while_running() {
    let lab = up(etcd_plan("own-lan", 2, &[]));
    let before = networks(&lab);
    // The lab's underlay.
    lab.registry().put_config(r#"{"Network":"172.30.0.0/16"}"#).unwrap();
    let said = || fs::read_to_string(lab.node(1).unwrap().log()).unwrap().contains("would be cut off").then_some(());
    eventually("the config is refused", PATIENCE, said);
    assert_eq!(networks(&lab), before);
    require_both_ways(&lab, 1, 2);
}

#[test]
fn a_change_taken_back_before_it_could_be_followed_leaves_nothing() {
    let lab = up(etcd_plan("back", 1, &[]));
    let (before, own) = (networks(&lab), subnet(lab.node(1).unwrap()));
    let original = lab.plan().config.clone();
    // No subnet to be had there: the one that there is belongs to somebody else.
    let store = Store::of(&lab);
    store.put("10.50.1.0/24".parse().unwrap(), "192.0.2.9");
    let full = r#"{"Network":"10.50.0.0/16","SubnetMin":"10.50.1.0","SubnetMax":"10.50.1.0"}"#;
    lab.registry().put_config(full).unwrap();
    let said = || fs::read_to_string(lab.node(1).unwrap().log()).unwrap().contains("out of subnets").then_some(());
    eventually("there is no subnet of the other network", PATIENCE, said);
    assert!(lab.node(1).unwrap().is_ready(), "the old subnet is served meanwhile");
    lab.registry().put_config(&original).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!((networks(&lab), subnet(lab.node(1).unwrap())), (before, own));
    assert!(store.lease(own).is_some() && lab.node(1).unwrap().is_ready());
}
