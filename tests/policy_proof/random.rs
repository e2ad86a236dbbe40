//! Random clusters, as Kubernetes writes them: small, so that everything meets everything, and full of edges.

use std::collections::BTreeSet;
use std::fmt;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::random_policy::policy;

/// Everything there is in a cluster. Shown as the JSON of a `List`.
#[derive(Clone)]
pub struct World(pub Vec<Value>);

/// Namespaces pods may lie in; not all of them need be known.
pub const NAMESPACES: [&str; 3] = ["x", "y", "default"];

/// Nodes and their addresses; `n3` is where pods may be without it being known.
pub const NODES: [(&str, [&str; 2]); 2] = [("n1", ["172.18.0.1", "fd00:18::1"]), ("n2", ["172.18.0.2", "fd00:18::2"])];

/// Addresses that are no pod's and no node's: of the world, and of the pods' subnets.
pub const OTHERS: [&str; 4] = ["198.51.100.7", "2001:db8::7", "10.0.0.99", "fd00::99"];

/// Protocols and ports asked for.
pub const PROBES: [(&str, u16); 5] = [("TCP", 80), ("TCP", 81), ("UDP", 53), ("UDP", 80), ("SCTP", 80)];

impl fmt::Debug for World {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", json!({"apiVersion": "v1", "kind": "List", "items": self.0}))
    }
}

impl World {
    /// Every address that somebody in it may have.
    pub fn addresses(&self) -> Vec<std::net::IpAddr> {
        let pods = self.0.iter().filter(|object| object["kind"] == "Pod");
        let listed = pods.flat_map(|pod| pod["status"]["podIPs"].as_array().into_iter().flatten());
        let listed = listed.map(|entry| entry["ip"].as_str().unwrap());
        let nodes = NODES.iter().flat_map(|(_, addresses)| *addresses);
        let all: BTreeSet<_> = listed.chain(nodes).chain(OTHERS).map(|text| text.parse().unwrap()).collect();
        all.into_iter().collect()
    }
}

/// Any cluster.
pub fn world() -> impl Strategy<Value = World> {
    (namespaces(), nodes(), vec(pod(), 1..9), vec(policy(), 0..7)).prop_map(|(namespaces, nodes, pods, policies)| {
        let mut objects: Vec<_> = namespaces.into_iter().chain(nodes).collect();
        objects.extend(with_own_addresses(pods));
        objects.extend(with_own_places(policies));
        let mut names = BTreeSet::new();
        objects.retain(|object| {
            let metadata = &object["metadata"];
            let namespace = metadata["namespace"].as_str().unwrap_or("default");
            names.insert(format!("{} {namespace}/{}", object["kind"], metadata["name"]))
        });
        World(objects)
    })
}

/// Labels: few keys and few values, the empty one among them.
pub fn labels() -> impl Strategy<Value = Value> {
    (weighted(0.6, select(vec!["a", "b", ""])), weighted(0.4, select(vec!["a", "b"]))).prop_map(|(app, tier)| {
        let mut labels = json!({});
        for (key, value) in [("app", app), ("tier", tier)].into_iter().filter_map(|(key, value)| Some((key, value?))) {
            labels[key] = json!(value);
        }
        labels
    })
}

fn namespaces() -> impl Strategy<Value = Vec<Value>> {
    (subsequence(NAMESPACES.to_vec(), 1..=NAMESPACES.len()), vec(labels(), NAMESPACES.len())).prop_map(|(names, labels)| {
        let object =
            |(name, labels)| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        names.into_iter().zip(labels).map(object).collect()
    })
}

fn nodes() -> impl Strategy<Value = Vec<Value>> {
    (subsequence(NODES.to_vec(), 0..=NODES.len()), vec(labels(), NODES.len())).prop_map(|(nodes, labels)| {
        let object = |((name, addresses), labels): ((&str, [&str; 2]), Value)| {
            let mut listed = addresses.map(|address| json!({"type": "InternalIP", "address": address})).to_vec();
            listed.push(json!({"type": "Hostname", "address": name}));
            let metadata = json!({"name": name, "labels": labels});
            json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"addresses": listed}})
        };
        nodes.into_iter().zip(labels).map(object).collect()
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let phase = prop_oneof![6 => Just("Running"), 2 => Just("Pending"), 1 => Just("Succeeded"), 1 => Just("Failed")];
    let place = (select(NAMESPACES.to_vec()), select(vec!["p0", "p1", "p2", "p3"]), select(vec!["n1", "n2", "n3", ""]));
    let addresses = (weighted(0.9, 1..9u8), weighted(0.5, 1..9u8));
    let host_network = prop_oneof![9 => Just(false), 1 => Just(true)];
    let ports = (vec(port(), 0..3), vec(port(), 0..2), any::<bool>());
    (place, labels(), phase, addresses, host_network, ports, any::<bool>()).prop_map(
        |((namespace, name, node), labels, phase, (v4, v6), host_network, (ports, beside, stays), terminating)| {
            let mut listed = Vec::new();
            if host_network {
                let home = NODES.iter().find(|(name, _)| *name == node);
                listed.extend(home.iter().flat_map(|(_, addresses)| addresses).map(|ip| json!({"ip": ip})));
            } else {
                listed.extend(v4.map(|last| json!({"ip": format!("10.0.0.{last}")})));
                listed.extend(v6.map(|last| json!({"ip": format!("fd00::{last}")})));
            }
            let mut metadata = json!({"namespace": namespace, "name": name, "labels": labels});
            if terminating {
                metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            let before = json!([{"ports": beside, "restartPolicy": if stays { Some("Always") } else { None }}]);
            let spec = json!({
                "nodeName": node, "hostNetwork": host_network, "containers": [{"ports": ports}], "initContainers": before
            });
            let status = json!({"phase": phase, "podIPs": listed});
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
        },
    )
}

fn port() -> impl Strategy<Value = Value> {
    let protocol = select(vec![json!("TCP"), json!("UDP"), json!("SCTP"), json!(null)]);
    (weighted(0.8, select(vec!["web", "dns"])), select(vec![80u16, 81, 53]), protocol).prop_map(|(name, number, protocol)| {
        let mut port = json!({"containerPort": number, "protocol": protocol});
        if let Some(name) = name {
            port["name"] = json!(name);
        }
        port
    })
}

/// Leaves an address to one of the pods that run, and to one of those that are about to: who else has it is not defined.
fn with_own_addresses(mut pods: Vec<Value>) -> Vec<Value> {
    let mut names = BTreeSet::new();
    pods.retain(|pod| names.insert(format!("{}/{}", pod["metadata"]["namespace"], pod["metadata"]["name"])));
    let mut taken = BTreeSet::new();
    for pod in &mut pods {
        let phase = pod["status"]["phase"].to_string();
        if pod["spec"]["hostNetwork"] == false && (phase.contains("Running") || phase.contains("Pending")) {
            let listed = pod["status"]["podIPs"].as_array_mut().unwrap();
            listed.retain(|entry| taken.insert(format!("{phase} {entry}")));
        }
    }
    pods
}

/// Leaves a priority to one policy of a tier: which of several goes first is not defined.
fn with_own_places(mut policies: Vec<Value>) -> Vec<Value> {
    let mut taken = BTreeSet::new();
    policies.retain(|policy| {
        let spec = &policy["spec"];
        let tier = if policy["kind"] == "AdminNetworkPolicy" { "Admin" } else { spec["tier"].as_str().unwrap_or_default() };
        spec["priority"].is_null() || taken.insert(format!("{tier} {}", spec["priority"]))
    });
    policies
}
