//! A lab's places as Kubernetes objects, in the form an API server would give them.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::lab::{LabPlan, Place};

/// The namespace that a lab's pods are in.
pub const NAMESPACE: &str = "lab";
/// Ports that every pod names, so that policies can.
const NAMED_PORTS: [(&str, &str, u16); 2] = [("web", "TCP", 80), ("dns", "UDP", 53)];

impl LabPlan {
    /// The lab as a cluster: the namespace, every node, and those pods that have an address, in this order.
    #[must_use]
    pub fn objects(&self, pods: impl IntoIterator<Item = (Place, Ipv4Addr)>) -> Vec<Value> {
        let nodes = self.node_numbers().map(|number| node(number, self.underlay(number)));
        let pods = pods.into_iter().filter_map(|(place, address)| pod(place, address));
        std::iter::once(namespace()).chain(nodes).chain(pods).collect()
    }
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        // The label that every namespace of a cluster bears.
        "metadata": { "name": NAMESPACE, "labels": { "kubernetes.io/metadata.name": NAMESPACE } },
    })
}

fn node(number: u16, underlay: Ipv4Addr) -> Value {
    let name = Place::Node(number).to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "felt.lab/node": number.to_string(), "kubernetes.io/hostname": name } },
        "status": { "addresses": [{ "type": "InternalIP", "address": underlay }, { "type": "Hostname", "address": name }] },
    })
}

/// `None` for a place that is no pod.
fn pod(place: Place, address: Ipv4Addr) -> Option<Value> {
    let Place::Pod { node, pod } = place else { return None };
    let (name, node) = (place.to_string(), Place::Node(node).to_string());
    let ports: Vec<Value> = NAMED_PORTS
        .iter()
        .map(|(name, protocol, port)| json!({ "name": name, "protocol": protocol, "containerPort": port }))
        .collect();
    Some(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": { "node": node, "pod": format!("pod{pod}"), "app": name },
        },
        "spec": { "nodeName": node, "containers": [{ "name": "main", "ports": ports }] },
        "status": { "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }] },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_described_as_kubernetes_does() {
        let plan = LabPlan { nodes: 2, ..LabPlan::new("felt".into()) };
        let address = Ipv4Addr::new(10, 99, 7, 3);
        let objects = plan.objects([(Place::Pod { node: 2, pod: 2 }, address), (Place::Hub, address)]);
        let names: Vec<_> = objects.iter().map(|object| (&object["kind"], &object["metadata"]["name"])).collect();
        let expected = [("Namespace", "lab"), ("Node", "node1"), ("Node", "node2"), ("Pod", "node2-pod2")];
        let expected = expected.map(|(kind, name)| (Value::from(kind), Value::from(name)));
        assert_eq!(names, expected.iter().map(|(kind, name)| (kind, name)).collect::<Vec<_>>());

        let node = &objects[2];
        assert_eq!(node["status"]["addresses"][0], json!({ "type": "InternalIP", "address": "172.30.1.2" }));
        assert_eq!(node["metadata"]["labels"]["felt.lab/node"], "2");
        assert!(node["metadata"]["namespace"].is_null());

        let pod = &objects[3];
        assert_eq!(pod["metadata"]["namespace"], "lab");
        assert_eq!(pod["metadata"]["labels"], json!({ "node": "node2", "pod": "pod2", "app": "node2-pod2" }));
        assert_eq!((&pod["spec"]["nodeName"], &pod["status"]["phase"]), (&"node2".into(), &"Running".into()));
        assert_eq!(pod["status"]["podIPs"], json!([{ "ip": "10.99.7.3" }]));
        assert_eq!(
            pod["spec"]["containers"][0]["ports"],
            json!([
                { "name": "web", "protocol": "TCP", "containerPort": 80 },
                { "name": "dns", "protocol": "UDP", "containerPort": 53 },
            ])
        );
    }

    #[test]
    fn a_lab_without_addresses_yet_has_no_pods() {
        let objects = LabPlan::new("felt".into()).objects([]);
        assert!(objects.len() == 4 && objects.iter().all(|object| object["kind"] != "Pod"));
    }
}
