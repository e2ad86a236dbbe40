//! Clusters of many pods and policies, and flows to judge in them.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use felt::net::{FlowKey, Prefix4, Protocol};
use felt::policy::model::{
    Action, Block, Labels, Namespace, Object, Peer, Pod, PodPort, Policy, PolicyKind, Ports, Requirement, Rule, Selector,
    Subject, Tier,
};
use felt::policy::{Change, Cluster, Policies, Scope, Verdict};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Pods in a namespace.
const CROWD: u32 = 100;
/// How many kinds of pods a namespace has.
const APPS: u32 = 20;
/// Flows that are judged one after the other.
const FLOWS: u32 = 1 << 14;

/// How policies lie over pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each namespace has its share of them, each about one kind of its pods.
    Spread,
    /// All are in the first namespace and about all of its pods, each for another peer and port.
    Heaped,
    /// All are the administrator's, about all pods, each for another peer and port.
    Ordered,
}

/// Everything there is.
pub fn objects(pods: u32, policies: u32, shape: Shape) -> Vec<Object> {
    let namespaces = (0..pods.div_ceil(CROWD)).map(|number| {
        let labels = labels(&[("kubernetes.io/metadata.name", &space(number)), ("team", &format!("team-{}", number % 10))]);
        Object::Namespace(Namespace { name: space(number), labels })
    });
    let pods = (0..pods).map(|number| Object::Pod(pod(number, 0)));
    let spaces = u32::try_from(namespaces.len()).unwrap_or(1);
    namespaces.chain(pods).chain((0..policies).map(|number| Object::Policy(policy(number, spaces, shape)))).collect()
}

/// A cluster that was told of all of these.
pub fn cluster(objects: &[Object]) -> Cluster {
    let mut cluster = Cluster::new(Scope::default());
    for object in objects {
        cluster.apply(Change::Put(object.clone()));
    }
    cluster
}

/// Pod number `number`, after `age` changes of its labels.
pub fn pod(number: u32, age: u32) -> Pod {
    let labels = labels(&[
        ("app", &format!("app-{}", number % APPS)),
        ("version", &format!("v{}", age % 3)),
        // One pod in four is like no other, as those of stateful sets are.
        (
            "statefulset.kubernetes.io/pod-name",
            &if number.is_multiple_of(4) { format!("pod-{number}") } else { "none".to_owned() },
        ),
    ]);
    Pod {
        namespace: space(number / CROWD),
        name: format!("pod-{number}"),
        uid: String::new(),
        labels,
        addresses: vec![address(number)],
        ports: vec![PodPort { name: "web".into(), protocol: Protocol::TCP, number: 8080 }],
        node: format!("node-{}", number / 50),
        host_network: false,
        finished: false,
        running: true,
    }
}

/// Policy number `number` of a cluster with so many namespaces.
pub fn policy(number: u32, spaces: u32, shape: Shape) -> Policy {
    let app = |number: u32| selected("app", format!("app-{}", number % APPS));
    let tcp = |first, last| Ports::Numbers { protocol: Protocol::TCP, first, last };
    let other = space(number * 7 % spaces);
    let away = || Peer::Pods { namespaces: selected("kubernetes.io/metadata.name", other.clone()), pods: app(number / 7) };
    let block = || Peer::Block(Block::V4 { cidr: subnet(number), except: vec![] });
    let alone = u16::try_from(1 + number % 60_000).unwrap_or(1);
    let rule = |peers, ports| Rule { name: String::new(), action: Action::Accept, peers: Some(peers), ports: Some(ports) };
    let spread = || {
        let named = Ports::Named { name: "web".into(), protocol: Some(Protocol::TCP) };
        vec![
            rule(vec![Peer::Own(app(number / 3)), away()], vec![tcp(80, 80), tcp(8000, 8100), named]),
            rule(vec![block()], vec![tcp(443, 443)]),
        ]
    };
    let heaped = || {
        let mut rules = vec![rule(vec![away(), block()], vec![tcp(alone, alone)])];
        // Few are for any port, as few are in the world.
        if number.is_multiple_of(10) {
            let peer = Peer::Pods { namespaces: selected("team", format!("none-{number}")), pods: Selector::everything() };
            rules.push(Rule { ports: None, ..rule(vec![peer], vec![]) });
        }
        rules
    };
    let ordered =
        || Rule { action: [Action::Pass, Action::Deny][number as usize % 2], ..rule(vec![away(), block()], vec![tcp(1, alone)]) };
    let rules = match shape {
        Shape::Spread => spread(),
        Shape::Heaped => heaped(),
        Shape::Ordered => vec![ordered()],
    };
    let (kind, tier) = match shape {
        Shape::Ordered => (PolicyKind::ClusterNetworkPolicy, Tier::Admin),
        _ => (PolicyKind::NetworkPolicy, Tier::NetworkPolicy),
    };
    let (namespace, subject) = match shape {
        Shape::Spread => (space(number % spaces), Subject::Own(app(number / spaces))),
        Shape::Heaped => (space(0), Subject::Own(Selector::everything())),
        Shape::Ordered => (String::new(), Subject::Cluster { namespaces: Selector::everything(), pods: Selector::everything() }),
    };
    let priority = u16::try_from(number % 1001).unwrap_or(0);
    let name = format!("policy-{number}");
    Policy { kind, namespace, name, tier, priority, subject, ingress: Some(rules.clone()), egress: Some(rules) }
}

/// Flows between pods drawn at random, those that come from or go to the outside among them. With `into`: to the first pods only.
pub fn flows(pods: u32, into: Option<u32>) -> Vec<FlowKey> {
    let mut random = SmallRng::seed_from_u64(4);
    let flow = |_| {
        let from = if random.random_ratio(1, 8) {
            Ipv4Addr::from_bits(random.random()).into()
        } else {
            address(random.random_range(0..pods))
        };
        let to = address(random.random_range(0..into.unwrap_or(pods)));
        let port = [80, 443, 8080, random.random_range(1..1000)][random.random_range(0..4)];
        FlowKey::new(Protocol::TCP, (from, random.random_range(32_768..61_000)), (to, port))
    };
    (0..FLOWS).map(flow).collect()
}

/// Judges all flows, and counts those that are refused.
pub fn judge(policies: &Policies, flows: &[FlowKey]) -> usize {
    flows.iter().filter(|flow| black_box(policies.verdict(flow)) != Verdict::Allowed).count()
}

fn space(number: u32) -> String {
    format!("space-{number}")
}

fn address(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + number / 200 * 256 + number % 200 + 2).into()
}

fn subnet(number: u32) -> Prefix4 {
    Prefix4::new(Ipv4Addr::from_bits(0xac10_0000 + number * 64), 26).expect("a prefix")
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn selected(key: &str, value: String) -> Selector {
    Selector::All(vec![Requirement::In(key.to_owned(), BTreeSet::from([value]))])
}
