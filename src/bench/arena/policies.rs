//! The policies that the path with policy enforces: many of the kind that clusters have, one of which allows the measurement.

use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::probe::{Door, ping};
use crate::lab::{Interrupt, Lab, LabError, NAMESPACE, Place};

/// The file they are in, in the lab's folder of policies.
const FILE: &str = "bench.yaml";
/// Ports of load generators are the kernel's choice out of these.
const PORTS: (u16, u16) = (1024, 65_535);
/// How long thousands of policies may take to be read and compiled, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long silence has to last before it is taken for a refusal.
const SILENCE: Duration = Duration::from_millis(300);

/// Puts `count` policies, from 1, into a lab with a pod on each of two nodes, and waits until both daemons enforce them.
///
/// # Errors
/// When they are not in force in time, or refuse what they should allow.
pub(super) fn enforce(lab: &Lab, count: u32, interrupt: &Interrupt) -> Result<(), LabError> {
    let [client, server] = [1, 2].map(|node| Place::Pod { node, pod: 1 });
    lab.put_manifest(FILE, &policies(count, &[client.to_string(), server.to_string()]))?;
    // A node is no pod and may ping its own pods only. Who refuses its ping is the pod's daemon and nobody else.
    for (from, to) in [(Place::Node(1), server), (Place::Node(2), client)] {
        let (netns, address) = (lab.netns(from)?, lab.address(to)?);
        let closed = interrupt.wait(PATIENCE, || Ok(ping(&netns, address, SILENCE, interrupt)?.is_none().then_some(())))?;
        closed.ok_or_else(|| LabError::Probe(format!("{count} policies for {to} are not in force within {PATIENCE:?}")))?;
    }
    let door = Door::open(&lab.netns(server)?, lab.address(server)?, PORTS.1)?;
    let from = lab.netns(client)?;
    let open = interrupt.wait(PATIENCE, || door.admits(&from, SILENCE))?;
    open.map(drop)
        .ok_or_else(|| LabError::Probe(format!("{count} policies keep {client} from {server}, which one of them allows")))
}

/// `count` policies of one namespace, each of which selects both ends. The one in the middle allows what is measured between
/// them; the others allow other pods, namespaces, addresses and ports.
fn policies(count: u32, ends: &[String; 2]) -> Vec<Value> {
    let middle = count / 2;
    let spec = |number| if number == middle { between(ends) } else { of_others(number, ends) };
    (0..count).map(|number| policy(number, &spec(number))).collect()
}

fn policy(number: u32, spec: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": format!("bench-{number}"), "namespace": NAMESPACE },
        "spec": spec,
    })
}

/// Lets the ends talk to each other, by every port that a load generator may have.
fn between(ends: &[String; 2]) -> Value {
    let (first, last) = PORTS;
    let ports: Vec<Value> =
        ["TCP", "UDP"].iter().map(|protocol| json!({ "protocol": protocol, "port": first, "endPort": last })).collect();
    json!({
        "podSelector": either(ends),
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{ "from": [{ "podSelector": either(ends) }], "ports": ports }],
        "egress": [{ "to": [{ "podSelector": either(ends) }], "ports": ports }],
    })
}

/// Lets somebody else talk to the ends, in one of the ways that people write such rules in.
fn of_others(number: u32, ends: &[String; 2]) -> Value {
    let service = format!("service-{number}");
    let pods = json!({ "podSelector": { "matchLabels": { "app": service } } });
    let namespace = json!({
        "namespaceSelector": { "matchLabels": { "team": format!("team-{}", number % 50) } },
        "podSelector": { "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["front", service] }] },
    });
    // Of a network that a lab has nothing in.
    let third = number % 256;
    let block = json!({ "ipBlock": { "cidr": format!("192.168.{third}.0/24"), "except": [format!("192.168.{third}.128/25")] } });
    let port = 8000 + number % 1000;
    let tcp = json!({ "protocol": "TCP", "port": port });
    match number % 4 {
        0 => json!({
            "podSelector": either(ends),
            "policyTypes": ["Ingress"],
            "ingress": [{ "from": [pods], "ports": [tcp, { "protocol": "TCP", "port": "web" }] }],
        }),
        1 => json!({
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{ "from": [namespace], "ports": [tcp] }],
            "egress": [{ "to": [pods], "ports": [{ "protocol": "UDP", "port": "dns" }] }],
        }),
        2 => json!({
            "podSelector": { "matchExpressions": [{ "key": "app", "operator": "Exists" }] },
            "policyTypes": ["Egress"],
            "egress": [{ "to": [block], "ports": [{ "protocol": "TCP", "port": port, "endPort": port + 100 }] }, { "to": [namespace] }],
        }),
        _ => json!({
            "podSelector": either(ends),
            "policyTypes": ["Ingress"],
            "ingress": [{ "from": [block, pods] }, { "from": [namespace], "ports": [tcp] }],
        }),
    }
}

fn either(ends: &[String; 2]) -> Value {
    json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ends }] })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::lab::LabPlan;
    use crate::net::{FlowKey, Protocol};
    use crate::policy::manifest::{self, Read};
    use crate::policy::{Change, Cluster, Policies, Scope, Verdict};

    const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 99, 1, 2);
    const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 2, 2);
    /// The node of the client, as it is seen from the other.
    const NODE: Ipv4Addr = Ipv4Addr::new(10, 99, 1, 0);

    /// What the engine makes of them in such a lab.
    fn compiled(count: u32) -> std::sync::Arc<Policies> {
        let [client, server] = [1, 2].map(|node| Place::Pod { node, pod: 1 });
        let plan = LabPlan { nodes: 2, ..LabPlan::new("felt".into()) };
        let objects = plan.objects([(client, CLIENT), (server, SERVER)]).into_iter().chain(made(count));
        let mut cluster = Cluster::new(Scope::default());
        for object in objects.flat_map(|object| manifest::read(&object)) {
            match object.unwrap() {
                Read::Object { object, remarks } if remarks.is_empty() => cluster.apply(Change::Put(object)),
                other => panic!("{other:?}"),
            }
        }
        cluster.compile()
    }

    fn made(count: u32) -> Vec<Value> {
        policies(count, &["node1-pod1".to_owned(), "node2-pod1".to_owned()])
    }

    #[test]
    fn there_are_as_many_as_asked_for_each_of_its_own_name() {
        for count in [1, 2, 5, 1000] {
            let policies = made(count);
            let names: BTreeSet<String> = policies.iter().map(|policy| policy["metadata"]["name"].to_string()).collect();
            assert_eq!((policies.len(), names.len()), (count as usize, count as usize));
            assert!(policies.iter().all(|policy| policy["kind"] == "NetworkPolicy" && policy["metadata"]["namespace"] == "lab"));
        }
    }

    #[test]
    fn exactly_one_allows_the_ends() {
        for count in [1, 2, 5, 1000] {
            let policies = made(count);
            let allows = |policy: &&Value| {
                let from = &policy["spec"]["ingress"][0]["from"][0]["podSelector"];
                *from == either(&["node1-pod1".to_owned(), "node2-pod1".to_owned()])
            };
            let allowing: Vec<&Value> = policies.iter().filter(allows).collect();
            assert_eq!(allowing.len(), 1, "{count}");
            let spec = &allowing[0]["spec"];
            assert_eq!(spec["ingress"][0]["ports"], spec["egress"][0]["ports"]);
            assert_eq!(spec["egress"][0]["ports"][1], json!({ "protocol": "UDP", "port": 1024, "endPort": 65_535 }));
        }
    }

    #[test]
    fn the_engine_lets_through_what_is_measured_and_nothing_else() {
        for count in [1, 2, 3, 4, 5, 1000] {
            let policies = compiled(count);
            let may = |protocol, from: (Ipv4Addr, u16), to: (Ipv4Addr, u16)| {
                let key = FlowKey::new(protocol, (IpAddr::V4(from.0), from.1), (IpAddr::V4(to.0), to.1));
                policies.verdict(&key) == Verdict::Allowed
            };
            for (from, to) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
                for protocol in [Protocol::TCP, Protocol::UDP] {
                    assert!(
                        may(protocol, (from, 40_000), (to, PORTS.0)) && may(protocol, (from, 40_000), (to, PORTS.1)),
                        "{count}"
                    );
                    assert!(!may(protocol, (from, 40_000), (to, 80)), "{count}");
                }
                assert!(!may(Protocol::ICMP, (from, 7), (to, 7)), "{count}");
                // What tells that they are in force.
                assert!(!may(Protocol::ICMP, (NODE, 7), (to, 7)), "{count}");
            }
        }
    }

    #[test]
    fn every_kind_of_rule_occurs() {
        let text = made(8).iter().map(Value::to_string).collect::<String>();
        for part in ["ipBlock", "except", "namespaceSelector", "endPort", "\"web\"", "\"dns\"", "Exists", "\"podSelector\":{}"] {
            assert!(text.contains(part), "{part}");
        }
    }
}
