//! What gets from pod to pod is what the engine says, of every protocol, for pods on two nodes and on one.

use std::fs;
use std::thread;

use felt::lab::{Lab, PolicyScope};
use felt::policy::Verdict;
use serde_json::{Value, json};

use crate::ground::{enforce, engine, lab, pods, policy, same_node};
use crate::probes::{Pod, Probe};
use crate::support::{metrics, node, note};

const PROBES: [Probe; 8] = [
    Probe::Tcp(80),
    Probe::Tcp(81),
    Probe::Udp(53),
    Probe::Udp(80),
    Probe::Fragments(53),
    Probe::Fragments(80),
    Probe::Sctp(9),
    Probe::Ping,
];

fn of(name: &str) -> Value {
    json!({"matchLabels": {"app": name}})
}

/// Something of everything: named ports, SCTP, rules with and without ports, both directions, an administrator's denial.
fn policies() -> Vec<Value> {
    vec![
        policy(
            "server",
            &json!({
                "podSelector": of("node2-pod1"),
                "ingress": [
                    {"from": [{"podSelector": of("node1-pod1")}], "ports": [{"port": "web"}, {"port": "dns", "protocol": "UDP"}]},
                    {"from": [{"namespaceSelector": {}}], "ports": [{"port": 9, "protocol": "SCTP"}]}
                ]
            }),
        ),
        policy(
            "neighbours",
            &json!({"podSelector": of("node2-pod2"), "ingress": [{"from": [{"podSelector": {"matchLabels": {"node": "node1"}}}]}]}),
        ),
        policy(
            "client",
            &json!({
                "podSelector": of("node1-pod2"), "policyTypes": ["Egress"],
                "egress": [
                    {"to": [{"podSelector": {"matchLabels": {"node": "node2"}}}], "ports": [{"port": 81}, {"port": 80, "protocol": "UDP"}]},
                    {"to": [{"podSelector": of("node1-pod1")}], "ports": [{"port": 1, "endPort": 80}]}
                ]
            }),
        ),
        json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
            "metadata": {"name": "no-dns"},
            "spec": {
                "tier": "Admin", "priority": 5,
                "subject": {"pods": {"namespaceSelector": {}, "podSelector": of("node1-pod1")}},
                "ingress": [{
                    "action": "Deny",
                    "from": [{"pods": {"namespaceSelector": {}, "podSelector": of("node2-pod2")}}],
                    "protocols": [{"udp": {"destinationPort": {"number": 53}}}]
                }]
            }
        }),
    ]
}

/// Sends every probe from each pod to each other and holds it against the engine. How many passed, and how many did not.
fn compare(lab: &Lab, pods: &[Pod], scope: PolicyScope) -> (usize, usize) {
    let policies = engine(lab, &policies());
    let pairs: Vec<_> = pods.iter().flat_map(|from| pods.iter().map(move |to| (from, to))).collect();
    let pairs: Vec<_> = pairs.into_iter().filter(|(from, to)| from.address != to.address).collect();
    let (mut passed, mut wrong) = (0, Vec::new());
    for probe in PROBES {
        let found: Vec<bool> = thread::scope(|scope| {
            let sent: Vec<_> = pairs.iter().map(|(from, to)| scope.spawn(|| probe.passes(from, to))).collect();
            sent.into_iter().map(|probe| probe.join().unwrap()).collect()
        });
        for ((from, to), found) in pairs.iter().zip(found) {
            let is_judged = scope == PolicyScope::Node || !same_node(lab, from.address, to.address);
            let expected = !is_judged || policies.verdict(&probe.key(from.address, to.address)) == Verdict::Allowed;
            passed += usize::from(found);
            if found != expected {
                wrong.push(format!("{probe:?} from {} to {}: expected {expected}, found {found}", from.name, to.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    (passed, PROBES.len() * pairs.len() - passed)
}

fn is_as_the_engine_says(test: &str, scope: PolicyScope, rp_filter: Option<&str>) {
    let lab = lab(test, scope);
    if let Some(value) = rp_filter {
        for number in [1, 2] {
            let tun = lab.node(number).unwrap().tun().unwrap().unwrap();
            node(&lab, number).run_in(|| filter_reverse_paths(value, &tun)).unwrap();
        }
    }
    let pods = pods(&lab);
    enforce(&lab, "matrix.yaml", &policies());
    let (passed, refused) = compare(&lab, &pods, scope);
    note(&format!("{test}: {passed} passed, {refused} did not"));
    assert!(passed > 20 && refused > 10);
    for number in [1, 2] {
        let metrics = metrics(&node(&lab, number));
        let refused = metrics.dropped("policy_ingress") + metrics.dropped("policy_egress");
        assert!(refused > 5, "{refused}");
        assert_eq!(metrics.value("felt_sent_back_total") > 0, scope == PolicyScope::Node);
        assert_eq!(metrics.dropped("tun_refused"), 0);
    }
}

/// On every device but the TUN, whose own setting is the daemon's.
fn filter_reverse_paths(value: &str, tun: &str) {
    for device in fs::read_dir("/proc/sys/net/ipv4/conf").unwrap() {
        let device = device.unwrap();
        if device.file_name() != tun {
            fs::write(device.path().join("rp_filter"), value).unwrap();
        }
    }
}

#[test]
fn across_the_overlay() {
    is_as_the_engine_says("matrix-o", PolicyScope::Overlay, None);
}

#[test]
fn on_one_host_too_without_reverse_path_filter() {
    is_as_the_engine_says("matrix-0", PolicyScope::Node, Some("0"));
}

#[test]
fn on_one_host_too_with_a_strict_reverse_path_filter() {
    is_as_the_engine_says("matrix-1", PolicyScope::Node, Some("1"));
}

#[test]
fn on_one_host_too_with_a_loose_reverse_path_filter() {
    is_as_the_engine_says("matrix-2", PolicyScope::Node, Some("2"));
}
