//! What a node publishes where somebody wants that otherwise: another address, other names, a name found by its pod.

use serde_json::json;

use crate::cluster::{Cluster, PREFIX};
use crate::daemon::Daemon;
use crate::lab::{PATIENCE, eventually, node};

#[test]
fn an_address_that_somebody_wants_is_the_one_published() {
    let mut cluster = Cluster::without_nodes("address");
    let overwrite =
        json!({format!("{PREFIX}public-ip-overwrite"): "172.18.0.2", format!("{PREFIX}node-public-ip"): "172.18.0.3"});
    cluster.create_node("node1", "10.244.1.0/24", &overwrite);
    cluster.start(1, &[]);
    cluster.wait_ready(1);
    let annotations = cluster.annotations("node1");
    assert_eq!((&annotations["public-ip"], &annotations["public-ip-overwrite"]), (&json!("172.18.0.2"), &json!("172.18.0.2")));
    cluster.daemons.clear();

    // Without it, the other counts; under another prefix, from a pod that does not know its node.
    let said = json!({"example.org/net-node-public-ip": "172.18.0.3"});
    cluster.create_node("node7", "10.244.7.0/24", &said);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "felt-x", "namespace": "felt"},
        "spec": {"nodeName": "node7", "containers": [{"name": "felt", "image": "felt"}]},
    });
    cluster.server.create("/api/v1/namespaces/felt/pods", &pod);
    let mut command = cluster.command(1, &["--kube-annotation-prefix=example.org/net", "--set-node-network-unavailable=false"]);
    command.env_remove("NODE_NAME").env("POD_NAME", "felt-x").env("POD_NAMESPACE", "felt");
    cluster.daemons.push(Daemon::start(&cluster.lab, &node(&cluster.lab, 1), command));
    cluster.wait_ready(1);
    let object = cluster.server.read("/api/v1/nodes/node7");
    assert_eq!(
        object["metadata"]["annotations"],
        json!({
            "example.org/net-node-public-ip": "172.18.0.3", "example.org/net-public-ip": "172.18.0.3",
            "example.org/net-kube-subnet-manager": "true", "example.org/net-backend-type": "", "example.org/net-backend-data": "null",
        })
    );
    // Readiness comes before the condition would: what is set at all is set soon after.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let conditions = &cluster.server.read("/api/v1/nodes/node7")["status"]["conditions"];
    let named = conditions.as_array().is_some_and(|all| all.iter().any(|condition| condition["type"] == "NetworkUnavailable"));
    assert!(!named, "{conditions}");

    // The config is followed: a network that our podCIDR is none of is refused, and said.
    std::fs::write(cluster.net_config(), r#"{"Network":"10.250.0.0/16"}"#).unwrap();
    eventually("the config is noticed", PATIENCE, || cluster.log(1).contains("10.250.0.0/16").then_some(()));
    std::fs::write(cluster.net_config(), crate::manifest::text("net-conf.json")).unwrap();
    cluster.wait_ready(1);
}
