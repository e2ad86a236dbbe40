//! Random policies of every kind.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::random::{NAMESPACES, labels};

/// Any policy that an API server takes, and some with peers from the future.
pub fn policy() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => network_policy(),
        3 => cluster_policy("ClusterNetworkPolicy"),
        1 => cluster_policy("AdminNetworkPolicy"),
        1 => cluster_policy("BaselineAdminNetworkPolicy"),
    ]
}

fn network_policy() -> impl Strategy<Value = Value> {
    let metadata = (select(vec!["a", "b", "c"]), select(NAMESPACES.to_vec()), any::<bool>());
    let types = prop_oneof![
        1 => absent(), 1 => Just(Some(json!([]))),
        4 => subsequence(vec!["Ingress", "Egress"], 1..=2).prop_map(|types| Some(json!(types))),
    ];
    let pods = prop_oneof![1 => absent(), 1 => Just(Some(Value::Null)), 6 => selector().prop_map(Some)];
    (metadata, pods, types, network_rules("from"), network_rules("to")).prop_map(
        |((name, namespace, leave_out), pods, types, ingress, egress)| {
            let metadata = if leave_out && namespace == "default" {
                json!({"name": name})
            } else {
                json!({"name": name, "namespace": namespace})
            };
            let spec = object([("podSelector", pods), ("policyTypes", types), ("ingress", ingress), ("egress", egress)]);
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec})
        },
    )
}

fn network_rules(peers: &'static str) -> impl Strategy<Value = Option<Value>> {
    let rule = (some_of(network_peer()), some_of(network_port()))
        .prop_map(move |(entries, ports)| object([(peers, entries), ("ports", ports)]));
    prop_oneof![1 => absent(), 1 => Just(Some(Value::Null)), 1 => Just(Some(json!([]))), 5 => list(rule, 3)]
}

fn network_peer() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => selector().prop_map(|pods| json!({"podSelector": pods})),
        3 => selector().prop_map(|namespaces| json!({"namespaceSelector": namespaces})),
        3 => (selector(), selector()).prop_map(|(namespaces, pods)| json!({"namespaceSelector": namespaces, "podSelector": pods})),
        3 => block().prop_map(|block| json!({"ipBlock": block})),
        1 => Just(json!({"planets": {}})),
        1 => Just(json!({"podSelector": {}, "planets": {}})),
    ]
}

fn network_port() -> impl Strategy<Value = Value> {
    let protocol = select(vec![None, Some("TCP"), Some("UDP"), Some("SCTP")]);
    let port = prop_oneof![
        1 => Just((None, None)),
        2 => select(vec![80, 81, 53]).prop_map(|port| (Some(json!(port)), None)),
        2 => select(vec!["web", "dns", "none"]).prop_map(|port| (Some(json!(port)), None)),
        1 => select(vec![(80, 81), (1, 79), (81, 65535), (80, 80)]).prop_map(|(port, end)| (Some(json!(port)), Some(json!(end)))),
    ];
    (protocol, port)
        .prop_map(|(protocol, (port, end))| object([("protocol", protocol.map(Value::from)), ("port", port), ("endPort", end)]))
}

fn cluster_policy(kind: &'static str) -> impl Strategy<Value = Value> {
    let metadata = (select(vec!["a", "b", "c", "d"]), select(vec!["Admin", "Baseline"]), 0..40u16);
    let subject = prop_oneof![
        selector().prop_map(|namespaces| json!({"namespaces": namespaces})),
        (selector(), selector())
            .prop_map(|(namespaces, pods)| json!({"pods": {"namespaceSelector": namespaces, "podSelector": pods}})),
    ];
    (metadata, subject, cluster_rules(kind, "from"), cluster_rules(kind, "to")).prop_map(
        move |((name, tier, priority), subject, ingress, egress)| {
            let version = if kind == "ClusterNetworkPolicy" { "v1alpha2" } else { "v1alpha1" };
            let mut spec = object([("subject", Some(subject)), ("ingress", ingress), ("egress", egress)]);
            let mut name = name;
            match kind {
                "ClusterNetworkPolicy" => (spec["tier"], spec["priority"]) = (json!(tier), json!(priority)),
                "AdminNetworkPolicy" => spec["priority"] = json!(priority),
                _ => name = "default",
            }
            let version = format!("policy.networking.k8s.io/{version}");
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
        },
    )
}

fn cluster_rules(kind: &'static str, peers: &'static str) -> impl Strategy<Value = Option<Value>> {
    let actions = match kind {
        "ClusterNetworkPolicy" => vec!["Accept", "Deny", "Pass"],
        "AdminNetworkPolicy" => vec!["Allow", "Deny", "Pass"],
        _ => vec!["Allow", "Deny"],
    };
    let (entry, ports) =
        if kind == "ClusterNetworkPolicy" { (protocol_entry().boxed(), "protocols") } else { (port_entry().boxed(), "ports") };
    let entries = prop_oneof![1 => absent(), 1 => list(entry, 2)];
    let rule = (select(actions), list(cluster_peer(peers), 2), entries)
        .prop_map(move |(action, to, entries)| object([("action", Some(json!(action))), (peers, to), (ports, entries)]));
    prop_oneof![1 => absent(), 1 => Just(Some(json!([]))), 4 => list(rule, 3)]
}

fn cluster_peer(peers: &'static str) -> impl Strategy<Value = Value> {
    let pods = prop_oneof![
        2 => selector().prop_map(|namespaces| json!({"namespaces": namespaces})),
        2 => (selector(), selector()).prop_map(|(namespaces, pods)| json!({"pods": {"namespaceSelector": namespaces, "podSelector": pods}})),
    ];
    let networks = vec(select(CIDRS.to_vec()), 1..3).prop_map(|networks| json!({"networks": networks}));
    let nodes = selector().prop_map(|nodes| json!({"nodes": nodes}));
    let unclear = Just(json!({"planets": {}}));
    if peers == "to" {
        prop_oneof![8 => pods, 2 => networks, 2 => nodes, 1 => unclear].boxed()
    } else {
        // What only egress rules may have is not understood here.
        prop_oneof![20 => pods, 1 => networks, 1 => unclear].boxed()
    }
}

fn protocol_entry() -> impl Strategy<Value = Value> {
    let port = prop_oneof![
        Just(json!({})),
        select(vec![80, 81, 53]).prop_map(|number| json!({"destinationPort": {"number": number}})),
        select(vec![(80, 81), (1, 79)])
            .prop_map(|(start, end)| json!({"destinationPort": {"range": {"start": start, "end": end}}})),
    ];
    prop_oneof![
        3 => (select(vec!["tcp", "udp", "sctp"]), port).prop_map(|(protocol, port)| json!({protocol: port})),
        1 => select(vec!["web", "dns"]).prop_map(|name| json!({"destinationNamedPort": name})),
    ]
}

fn port_entry() -> impl Strategy<Value = Value> {
    let protocol = || select(vec!["TCP", "UDP", "SCTP"]);
    prop_oneof![
        (protocol(), select(vec![80, 81, 53]))
            .prop_map(|(protocol, port)| json!({"portNumber": {"protocol": protocol, "port": port}})),
        (protocol(), 1..81).prop_map(|(protocol, start)| json!({"portRange": {"protocol": protocol, "start": start, "end": 80}})),
        select(vec!["web", "dns"]).prop_map(|name| json!({"namedPort": name})),
    ]
}

const CIDRS: [&str; 9] = [
    "0.0.0.0/0",
    "10.0.0.0/29",
    "10.0.0.5/30",
    "10.0.0.3/32",
    "172.18.0.1/32",
    "198.51.100.0/24",
    "::/0",
    "fd00::/125",
    "fd00::3/128",
];

fn block() -> impl Strategy<Value = Value> {
    let except = |all: &[&'static str]| prop_oneof![1 => absent(), 2 => subsequence(all.to_vec(), 0..=all.len()).prop_map(|list| Some(json!(list)))];
    prop_oneof![
        2 => select(CIDRS.to_vec()).prop_map(|cidr| json!({"cidr": cidr})),
        1 => except(&["10.0.0.4/30", "10.0.0.2/32", "172.18.0.0/31"]).prop_map(|except| object([("cidr", Some(json!("0.0.0.0/0"))), ("except", except)])),
        1 => except(&["10.0.0.4/30", "10.0.0.1/31"]).prop_map(|except| object([("cidr", Some(json!("10.0.0.0/28"))), ("except", except)])),
        1 => except(&["fd00::4/126", "fd00:18::/64"]).prop_map(|except| object([("cidr", Some(json!("fd00::/16"))), ("except", except)])),
    ]
}

/// A label selector: often everything, often about keys that are absent.
fn selector() -> impl Strategy<Value = Value> {
    let key = || select(vec!["app", "tier", "kubernetes.io/metadata.name"]);
    let values = || vec(select(vec!["a", "b", "", "x"]), 1..3);
    let expression = prop_oneof![
        (key(), select(vec!["In", "NotIn"]), values())
            .prop_map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values})),
        (key(), select(vec!["Exists", "DoesNotExist"])).prop_map(|(key, operator)| json!({"key": key, "operator": operator})),
    ];
    prop_oneof![
        2 => Just(json!({})),
        3 => labels().prop_map(|labels| json!({"matchLabels": labels})),
        1 => select(NAMESPACES.to_vec()).prop_map(|name| json!({"matchLabels": {"kubernetes.io/metadata.name": name}})),
        3 => (prop_oneof![3 => Just(json!({})), 1 => labels()], vec(expression, 1..3)).prop_map(|(labels, expressions)| json!({"matchLabels": labels, "matchExpressions": expressions})),
    ]
}

/// A list that may be absent, null or empty, all of which mean the same.
fn some_of(entry: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Option<Value>> {
    prop_oneof![2 => absent(), 1 => Just(Some(Value::Null)), 1 => Just(Some(json!([]))), 6 => list(entry, 3)]
}

/// One item or more.
fn list(item: impl Strategy<Value = Value> + 'static, limit: usize) -> impl Strategy<Value = Option<Value>> {
    vec(item, 1..limit).prop_map(|items| Some(json!(items)))
}

fn absent() -> Just<Option<Value>> {
    Just(None)
}

/// An object of the fields that are there.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    Value::Object(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}
