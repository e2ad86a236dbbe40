//! Small clusters in few words.

#![allow(dead_code, reason = "each test uses a part")]

use std::net::IpAddr;
use std::sync::Arc;

use felt::net::{FlowKey, Protocol};
use felt::policy::model::{
    Action, Block, Labels, Namespace, Node, Object, Peer, Pod, PodPort, Policy, PolicyKind, Ports, Requirement, Rule, Selector,
    Subject, Tier,
};
use felt::policy::{Change, Cluster, Policies, Refused, Scope, Verdict};

/// `a=1,b=2` as labels.
pub fn labels(text: &str) -> Labels {
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap()).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// `a=1,b=2` as a selector; empty for everything.
pub fn select(text: &str) -> Selector {
    Selector::All(labels(text).into_iter().map(|(key, value)| Requirement::In(key, [value].into())).collect())
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn namespace(name: &str, text: &str) -> Namespace {
    let mut labels = labels(text);
    labels.insert("kubernetes.io/metadata.name".into(), name.into());
    Namespace { name: name.into(), labels }
}

pub fn node(name: &str, text: &str, addresses: &[&str]) -> Node {
    Node { name: name.into(), labels: labels(text), addresses: addresses.iter().copied().map(ip).collect() }
}

/// A running pod, named `namespace/name`.
pub fn pod(path: &str, text: &str, addresses: &[&str]) -> Pod {
    let (namespace, name) = path.split_once('/').unwrap();
    Pod {
        namespace: namespace.into(),
        name: name.into(),
        uid: String::new(),
        labels: labels(text),
        addresses: addresses.iter().copied().map(ip).collect(),
        ports: Vec::new(),
        node: String::new(),
        host_network: false,
        finished: false,
        running: true,
    }
}

pub fn named(name: &str, protocol: Protocol, number: u16) -> PodPort {
    PodPort { name: name.into(), protocol, number }
}

/// A `NetworkPolicy`, named `namespace/name`.
pub fn network_policy(path: &str, subject: &str, ingress: Option<Vec<Rule>>, egress: Option<Vec<Rule>>) -> Policy {
    let (namespace, name) = path.split_once('/').unwrap();
    Policy {
        kind: PolicyKind::NetworkPolicy,
        namespace: namespace.into(),
        name: name.into(),
        tier: Tier::NetworkPolicy,
        priority: 0,
        subject: Subject::Own(select(subject)),
        ingress,
        egress,
    }
}

/// A `ClusterNetworkPolicy` about all pods.
pub fn cluster_policy(name: &str, tier: Tier, priority: u16, ingress: Vec<Rule>, egress: Vec<Rule>) -> Policy {
    Policy {
        kind: PolicyKind::ClusterNetworkPolicy,
        namespace: String::new(),
        name: name.into(),
        tier,
        priority,
        subject: Subject::Cluster { namespaces: Selector::everything(), pods: Selector::everything() },
        ingress: Some(ingress),
        egress: Some(egress),
    }
}

pub fn rule(action: Action, peers: Option<Vec<Peer>>, ports: Option<Vec<Ports>>) -> Rule {
    Rule { name: String::new(), action, peers, ports }
}

pub fn accept(peers: Option<Vec<Peer>>, ports: Option<Vec<Ports>>) -> Rule {
    rule(Action::Accept, peers, ports)
}

/// A peer: pods of such namespaces.
pub fn pods(namespaces: &str, pods: &str) -> Peer {
    Peer::Pods { namespaces: select(namespaces), pods: select(pods) }
}

/// A peer: a block of addresses.
pub fn block(cidr: &str, except: &[&str]) -> Peer {
    Peer::Block(if cidr.contains(':') {
        Block::V6 { cidr: cidr.parse().unwrap(), except: except.iter().map(|except| except.parse().unwrap()).collect() }
    } else {
        Block::V4 { cidr: cidr.parse().unwrap(), except: except.iter().map(|except| except.parse().unwrap()).collect() }
    })
}

pub fn numbers(protocol: Protocol, first: u16, last: u16) -> Ports {
    Ports::Numbers { protocol, first, last }
}

pub fn port_named(name: &str, protocol: Option<Protocol>) -> Ports {
    Ports::Named { name: name.into(), protocol }
}

pub fn flow(protocol: Protocol, from: &str, to: &str, port: u16) -> FlowKey {
    FlowKey::new(protocol, (ip(from), if protocol.has_ports() { 40_000 } else { port }), (ip(to), port))
}

pub fn tcp(from: &str, to: &str, port: u16) -> FlowKey {
    flow(Protocol::TCP, from, to, port)
}

pub fn put(object: impl Into<Known>) -> Change {
    Change::Put(object.into().0)
}

/// An object of any kind.
pub struct Known(pub Object);

impl From<Namespace> for Known {
    fn from(namespace: Namespace) -> Self {
        Self(Object::Namespace(namespace))
    }
}

impl From<Node> for Known {
    fn from(node: Node) -> Self {
        Self(Object::Node(node))
    }
}

impl From<Pod> for Known {
    fn from(pod: Pod) -> Self {
        Self(Object::Pod(pod))
    }
}

impl From<Policy> for Known {
    fn from(policy: Policy) -> Self {
        Self(Object::Policy(policy))
    }
}

/// A cluster that is asked after each change, and whose every answer has to be what its explanation comes to.
#[derive(Default)]
pub struct Asked {
    pub cluster: Cluster,
}

impl Asked {
    pub fn new(scope: Scope) -> Self {
        Self { cluster: Cluster::new(scope) }
    }

    pub fn with(mut self, object: impl Into<Known>) -> Self {
        self.put(object);
        self
    }

    pub fn put(&mut self, object: impl Into<Known>) {
        self.cluster.apply(put(object));
    }

    pub fn delete(&mut self, object: impl Into<Known>) {
        self.cluster.apply(Change::Delete(object.into().0.id()));
    }

    pub fn policies(&mut self) -> Arc<Policies> {
        self.cluster.compile()
    }

    /// Which ends refuse: `.`, `e`, `i` or `b`.
    #[track_caller]
    pub fn letter(&mut self, flow: &FlowKey) -> char {
        match self.verdict(flow) {
            Verdict::Allowed => '.',
            Verdict::Refused(Refused { egress: Some(_), ingress: Some(_) }) => 'b',
            Verdict::Refused(Refused { egress: Some(_), .. }) => 'e',
            Verdict::Refused(_) => 'i',
        }
    }

    #[track_caller]
    pub fn verdict(&mut self, flow: &FlowKey) -> Verdict {
        let verdict = self.cluster.compile().verdict(flow);
        let explanation = self.cluster.explain(flow);
        assert_eq!((explanation.verdict, explanation.conclusion()), (verdict, verdict), "{explanation}");
        verdict
    }
}
