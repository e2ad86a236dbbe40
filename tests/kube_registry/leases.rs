//! Leases of a cluster: what nodes publish, what they make of others, and that nothing is refused to them.

use std::time::Duration;

use serde_json::json;

use crate::cluster::Cluster;
use crate::lab::{PATIENCE, eventually};

#[test]
fn nodes_hold_their_pod_cidrs_and_say_so_as_flannel_does() {
    let cluster = Cluster::up("lease", 2);
    for number in [1, 2] {
        let subnet = cluster.lab.node(number).unwrap().subnet().unwrap().unwrap().subnet;
        assert_eq!(subnet.to_string(), format!("10.244.{number}.0/24"));
        let expected = json!({
            "kube-subnet-manager": "true", "backend-type": "", "backend-data": "null",
            "public-ip": cluster.underlay(number).to_string(),
        });
        assert_eq!(cluster.annotations(&format!("node{number}")), expected);
        let path = format!("/api/v1/nodes/node{number}");
        let condition = eventually("the condition is set", PATIENCE, || {
            let conditions = cluster.server.read(&path)["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.into_iter().find(|condition| condition["type"] == "NetworkUnavailable")
        });
        assert_eq!(condition["status"], "False");
        assert_eq!(condition["reason"], "FlannelIsUp");
        assert_eq!(condition["message"], "Flannel is running on this node");
        assert!(condition["lastHeartbeatTime"].as_str().unwrap().ends_with('Z'));
        assert_eq!(condition["lastHeartbeatTime"], condition["lastTransitionTime"]);
    }
    let pinger = cluster.pinger(Duration::from_millis(50));

    // Nodes of others: one by flannel, one that takes no part, one that says nonsense.
    cluster.create_flannel("flannel", "10.244.9.0/24", "172.30.1.99");
    cluster.create_node("bare", "10.244.10.0/24", &json!({}));
    cluster.create_flannel("odd", "10.244.11.0/24", "nowhere");
    let peers = |count| {
        let what = format!("{count} peers");
        eventually(&what, PATIENCE, || (cluster.peers(1) == count && cluster.peers(2) == count).then_some(()));
    };
    peers(2);
    cluster.server.merge("/api/v1/nodes/odd", &json!({"metadata": {"labels": {"a": "b"}}}));
    cluster
        .server
        .merge("/api/v1/nodes/odd", &json!({"metadata": {"annotations": {"flannel.alpha.coreos.com/public-ip": "172.30.1.98"}}}));
    peers(3);
    for name in ["flannel", "odd", "bare"] {
        cluster.server.delete(&format!("/api/v1/nodes/{name}"));
    }
    peers(1);

    // What others do to our own annotations is put back, and no packet is lost by it.
    for patch in [
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"annotations": {"flannel.alpha.coreos.com/public-ip": "192.0.2.1"}}}),
        json!({"metadata": {"annotations": {"flannel.alpha.coreos.com/kube-subnet-manager": "false"}}}),
        json!({"metadata": {"annotations": {"flannel.alpha.coreos.com/backend-type": "vxlan"}}}),
    ] {
        let before = cluster.annotations("node2");
        cluster.server.merge("/api/v1/nodes/node2", &patch);
        eventually("put back", PATIENCE, || (cluster.annotations("node2") == before).then_some(()));
    }
    peers(1);
    let own = cluster.log(2);
    assert!(!own.contains("lost") && !own.contains("no longer"), "{own}");
    let report = pinger.stop().unwrap();
    // Node 1 goes by what node 2's object says, so while that says nothing there is no way; node 2 itself never stops.
    crate::lab::note(&format!("{} of {} pings lost while annotations were wrong", report.lost(), report.sent));
    for number in [1, 2] {
        let log = cluster.log(number);
        assert!(!log.to_lowercase().contains("forbidden"), "{log}");
        assert_eq!(log.matches("node odd has no lease").count(), 1, "{log}");
    }
}
