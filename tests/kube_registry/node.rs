//! A node object that goes and comes back.

use serde_json::json;

use crate::cluster::Cluster;
use crate::http::get;
use crate::lab::{PATIENCE, eventually, node};

#[test]
fn a_node_made_anew_gets_its_new_subnet_and_says_all_again() {
    let cluster = Cluster::up("again", 2);
    let netns = node(&cluster.lab, 2);
    cluster.server.delete("/api/v1/nodes/node2");
    eventually("the lease is lost", PATIENCE, || get(&netns, "/readyz").is_ok_and(|answer| answer.status == 503).then_some(()));
    eventually("the peer is gone", PATIENCE, || (cluster.peers(1) == 0).then_some(()));
    cluster.create_node("node2", "10.244.7.128/25", &json!({}));
    cluster.wait_ready(2);
    let subnet = cluster.lab.node(2).unwrap().subnet().unwrap().unwrap().subnet;
    assert_eq!(subnet.to_string(), "10.244.7.128/25");
    cluster.lab.node(2).unwrap().attach_pods().unwrap();
    cluster.pinger(std::time::Duration::from_millis(50)).stop().unwrap();
    eventually("the condition is set again", PATIENCE, || {
        let object = cluster.server.read("/api/v1/nodes/node2");
        (object["status"]["conditions"][0]["reason"] == "FlannelIsUp").then_some(())
    });
    assert_eq!(cluster.annotations("node2")["kube-subnet-manager"], "true");
    assert_eq!(cluster.log(2).matches("there is no node node2").count(), 1, "{}", cluster.log(2));
}
