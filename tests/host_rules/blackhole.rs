//! The blackhole route of a node's subnet.

use std::time::Duration;

use felt::lab::LabPlan;
use felt::sys::netlink::{Route, RouteType};

use crate::ground::{Host, inside};
use crate::support::{PATIENCE, eventually, netlink, node};

const AFTER: &str = r#"{"Network":"10.98.0.0/16","Backend":{"Type":"udp"}}"#;

#[test]
fn the_route_is_kept_and_follows_the_subnet() {
    let host = Host::with(&["nft"]);
    let lab = crate::support::up(LabPlan { ..host.plan("hole", 1, &["--ip-blackhole-route", "--iptables-resync=1"]) });
    let (netns, first) = (node(&lab, 1), lab.node(1).unwrap());
    let holes = || -> Vec<Route> {
        let routes = netlink(&netns).routes().unwrap();
        routes.into_iter().filter(|route| route.kind == RouteType::BlackHole).collect()
    };
    let is_right = || {
        let subnet = first.subnet().unwrap().unwrap().subnet;
        let found: Vec<String> = holes().iter().map(|route| route.to.to_string()).collect();
        (found == [subnet.to_string()]).then_some(())
    };
    is_right().expect("there before the node is ready");
    netlink(&netns).delete_route(&holes()[0]).unwrap();
    eventually("restored", PATIENCE, is_right);
    // A bridge of the pods has the same subnet, and comes first.
    let subnet = first.subnet().unwrap().unwrap().subnet;
    inside(&netns, &format!("ip route add {subnet} dev lo")).unwrap();
    let way = inside(&netns, &format!("ip route get {}", subnet.nth(200).unwrap())).unwrap();
    assert!(way.contains("dev lo"), "{way}");
    inside(&netns, &format!("ip route del {subnet} dev lo")).unwrap();
    lab.registry().put_config(AFTER).unwrap();
    let moved = || first.subnet().unwrap().is_some_and(|env| env.network.to_string() == "10.98.0.0/16") && first.is_ready();
    eventually("the node moves", PATIENCE + Duration::from_secs(5), || moved().then_some(()));
    eventually("the route with it", PATIENCE, is_right);
}
