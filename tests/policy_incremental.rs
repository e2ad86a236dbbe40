//! A cluster that is told of changes one by one judges like one that is told the outcome, and like the rules read out one by one.

mod policy_support;

use std::collections::BTreeMap;
use std::net::IpAddr;

use felt::net::{FlowKey, Protocol};
use felt::policy::model::{
    Action, Labels, Node, Object, ObjectId, Peer, Pod, Policy, PolicyKind, Ports, Requirement, Rule, Selector, Subject, Tier,
};
use felt::policy::{Change, Cluster, Scope, UnknownPods};
use policy_support::{block, ip, named, namespace};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

const NAMESPACES: [&str; 3] = ["one", "two", "three"];
const NODES: [&str; 2] = ["here", "there"];
const PROBES: [(Protocol, u16); 6] = [
    (Protocol::TCP, 80),
    (Protocol::TCP, 81),
    (Protocol::UDP, 80),
    (Protocol::SCTP, 81),
    (Protocol::ICMP, 80),
    (Protocol::TCP, 65535),
];

fn pod_address(number: u8) -> String {
    format!("10.0.{}.{}", number % 2, number)
}

fn own_address(namespace: &str, name: u8) -> String {
    format!("fd00::{name}:{}", NAMESPACES.iter().position(|known| *known == namespace).unwrap())
}

fn labels() -> impl Strategy<Value = Labels> {
    btree_map("[ab]", "[xy]", 0..3)
}

fn selector() -> impl Strategy<Value = Selector> {
    let requirement = prop_oneof![
        3 => ("[ab]", btree_set("[xy]", 1..3)).prop_map(|(key, values)| Requirement::In(key, values)),
        1 => ("[ab]", btree_set("[xy]", 1..2)).prop_map(|(key, values)| Requirement::NotIn(key, values)),
        1 => "[ab]".prop_map(Requirement::Exists),
        1 => "[ab]".prop_map(Requirement::DoesNotExist),
    ];
    let all = vec(requirement, 0..3).prop_map(Selector::All);
    let by_name = prop::sample::select(&NAMESPACES[..])
        .prop_map(|name| Selector::All(vec![Requirement::In("kubernetes.io/metadata.name".into(), [name.to_owned()].into())]));
    prop_oneof![8 => all, 1 => by_name, 1 => Just(Selector::Nothing)]
}

fn peer() -> impl Strategy<Value = Peer> {
    let blocks = prop_oneof![
        Just(block("0.0.0.0/0", &["10.0.0.0/24"])),
        Just(block("10.0.0.0/24", &["10.0.0.2/32", "10.0.0.8/29"])),
        Just(block("10.0.1.0/30", &[])),
        Just(block("192.168.0.0/16", &[])),
        Just(block("::/0", &["fd00::1:0/112"])),
        Just(block("fd00::/64", &[])),
    ];
    prop_oneof![
        4 => selector().prop_map(Peer::Own),
        4 => (selector(), selector()).prop_map(|(namespaces, pods)| Peer::Pods { namespaces, pods }),
        3 => blocks,
        1 => selector().prop_map(Peer::Nodes),
        1 => Just(Peer::Nothing),
        1 => Just(Peer::Unintelligible),
    ]
}

fn ports() -> impl Strategy<Value = Ports> {
    let protocol = prop_oneof![3 => Just(Protocol::TCP), 1 => Just(Protocol::UDP), 1 => Just(Protocol::SCTP)];
    let range = prop_oneof![Just((0, 65535)), Just((80, 80)), Just((81, 81)), Just((1, 80)), Just((81, 65535)), Just((80, 81))];
    prop_oneof![
        6 => (protocol.clone(), range).prop_map(|(protocol, (first, last))| Ports::Numbers { protocol, first, last }),
        3 => ("[pq]", proptest::option::of(protocol)).prop_map(|(name, protocol)| Ports::Named { name, protocol }),
        1 => Just(Ports::Nothing),
    ]
}

fn rules(tier: Tier) -> impl Strategy<Value = Option<Vec<Rule>>> {
    let action = prop_oneof![Just(Action::Accept), Just(Action::Deny), Just(Action::Pass)];
    let rule = (action, proptest::option::weighted(0.8, vec(peer(), 0..3)), proptest::option::weighted(0.6, vec(ports(), 0..3)));
    let rule = rule.prop_map(move |(action, peers, ports)| {
        let action = if tier == Tier::NetworkPolicy { Action::Accept } else { action };
        Rule { name: String::new(), action, peers, ports }
    });
    proptest::option::weighted(0.7, vec(rule, 0..4))
}

fn policy() -> impl Strategy<Value = Policy> {
    let tier = prop_oneof![3 => Just(Tier::NetworkPolicy), 1 => Just(Tier::Admin), 1 => Just(Tier::Baseline)];
    let place = (prop::sample::select(&NAMESPACES[..]), "[ijk]", 0u16..3, selector(), selector());
    (tier, place).prop_flat_map(|(tier, (namespace, name, priority, namespaces, pods))| {
        (rules(tier), rules(tier)).prop_map(move |(ingress, egress)| {
            let own = tier == Tier::NetworkPolicy;
            Policy {
                kind: if own { PolicyKind::NetworkPolicy } else { PolicyKind::ClusterNetworkPolicy },
                namespace: if own { namespace.into() } else { String::new() },
                // Clusters' policies keep their tier whatever comes.
                name: format!("{tier:?}-{name}"),
                tier,
                priority,
                subject: if own {
                    Subject::Own(pods.clone())
                } else {
                    Subject::Cluster { namespaces: namespaces.clone(), pods: pods.clone() }
                },
                ingress,
                egress,
            }
        })
    })
}

fn pod() -> impl Strategy<Value = Pod> {
    let node = prop::sample::select(vec!["", "here", "there"]);
    let port = ("[pq]", prop_oneof![Just(Protocol::TCP), Just(Protocol::UDP)], prop_oneof![Just(80u16), Just(81)]);
    let ports = vec(port.prop_map(|(name, protocol, number)| named(&name, protocol, number)), 0..3);
    let state = (0u8..20, 0u8..20, any::<bool>());
    (prop::sample::select(&NAMESPACES[..]), 0u8..3, labels(), 0u8..6, any::<bool>(), node, ports, state).prop_map(
        |(namespace, name, labels, number, six, node, ports, (finished, host_network, running))| Pod {
            namespace: namespace.into(),
            name: format!("pod-{name}"),
            uid: String::new(),
            labels,
            // One that others may claim, and one of its own.
            addresses: [ip(&pod_address(number))].into_iter().chain(six.then(|| ip(&own_address(namespace, name)))).collect(),
            ports,
            node: node.into(),
            host_network: host_network == 0,
            finished: finished < 2,
            running,
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    let namespaces = (prop::sample::select(&NAMESPACES[..]), labels()).prop_map(|(name, labels)| {
        let mut namespace = namespace(name, "");
        namespace.labels.extend(labels);
        Object::Namespace(namespace)
    });
    let nodes = (prop::sample::select(&NODES[..]), labels(), 1u8..4).prop_map(|(name, labels, number)| {
        Object::Node(Node { name: name.into(), labels, addresses: vec![ip(&format!("192.168.0.{number}"))] })
    });
    let object = prop_oneof![
        2 => namespaces,
        1 => nodes,
        6 => pod().prop_map(Object::Pod),
        5 => policy().prop_map(Object::Policy),
    ];
    (object, 0u8..5).prop_map(|(object, delete)| if delete == 0 { Change::Delete(object.id()) } else { Change::Put(object) })
}

fn scope(of_here: bool, refuse: bool) -> Scope {
    Scope {
        node: of_here.then(|| "here".to_owned()),
        own4: vec!["10.0.0.0/24".parse().unwrap()],
        own6: vec!["fd00::/64".parse().unwrap()],
        host: vec![ip("10.0.0.1")],
        unknown_pods: if refuse { UnknownPods::Refuse } else { UnknownPods::Allow },
    }
}

/// What is known in the end, in the order in which pods came to their addresses.
#[derive(Default)]
struct Outcome {
    objects: Vec<Object>,
}

impl Outcome {
    fn apply(&mut self, change: &Change) {
        let (id, now) = match change {
            Change::Put(object) => (object.id(), Some(object)),
            Change::Delete(id) => (id.clone(), None),
        };
        let at = self.objects.iter().position(|object| object.id() == id);
        match (at, now) {
            (Some(at), Some(now)) if claimed(&self.objects[at]) == claimed(now) => self.objects[at] = now.clone(),
            (at, now) => {
                at.map(|at| self.objects.remove(at));
                self.objects.extend(now.cloned());
            }
        }
    }

    fn cluster(&self, scope: Scope) -> Cluster {
        let mut cluster = Cluster::new(scope);
        self.objects.iter().for_each(|object| cluster.apply(Change::Put(object.clone())));
        cluster
    }
}

/// The address that another pod may claim as well.
fn claimed(object: &Object) -> Option<IpAddr> {
    match object {
        Object::Pod(pod) if !pod.finished && !pod.host_network => pod.addresses.first().copied(),
        _ => None,
    }
}

fn addresses() -> Vec<IpAddr> {
    let pods = (0..8).map(pod_address);
    let others = ["10.0.0.1", "192.168.0.1", "192.168.0.2", "192.168.0.3", "8.8.8.8", "fd00::1:0", "fd00::2:2", "fd00::9"];
    pods.chain(others.map(str::to_owned)).map(|text| ip(&text)).collect()
}

fn flows() -> impl Iterator<Item = FlowKey> {
    let pairs = addresses().into_iter().flat_map(|from| addresses().into_iter().map(move |to| (from, to)));
    pairs.flat_map(|(from, to)| PROBES.map(|(protocol, port)| FlowKey::new(protocol, (from, 40_000), (to, port))))
}

#[track_caller]
fn agree(cluster: &mut Cluster, outcome: &Outcome, scope: &Scope, salt: usize) {
    let policies = cluster.compile();
    let fresh = outcome.cluster(scope.clone()).compile();
    for (number, flow) in flows().enumerate() {
        let verdict = policies.verdict(&flow);
        assert_eq!(verdict, fresh.verdict(&flow), "{flow}\n{:#?}", outcome.objects);
        // Explaining is slow: each time some of them.
        if (number + salt).is_multiple_of(7) {
            let explanation = cluster.explain(&flow);
            assert_eq!(explanation.conclusion(), verdict, "{explanation}\n{:#?}", outcome.objects);
        }
    }
    for address in addresses() {
        assert_eq!(policies.name_of(address), fresh.name_of(address));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changes_one_by_one_come_to_what_their_outcome_does(
        changes in vec(change(), 1..40),
        (of_here, refuse, often) in (any::<bool>(), any::<bool>(), 1usize..8),
    ) {
        let scope = scope(of_here, refuse);
        let mut cluster = Cluster::new(scope.clone());
        let mut outcome = Outcome::default();
        for (number, change) in changes.into_iter().enumerate() {
            outcome.apply(&change);
            cluster.apply(change);
            if (number + 1).is_multiple_of(often) {
                agree(&mut cluster, &outcome, &scope, number);
            }
        }
        agree(&mut cluster, &outcome, &scope, 0);
    }

    #[test]
    fn a_new_scope_is_as_good_as_an_old_one(changes in vec(change(), 1..30), before: bool, after: bool) {
        let mut cluster = Cluster::new(scope(before, false));
        let mut outcome = Outcome::default();
        for change in changes {
            outcome.apply(&change);
            cluster.apply(change);
        }
        cluster.compile();
        cluster.set_scope(scope(after, true));
        agree(&mut cluster, &outcome, &scope(after, true), 3);
    }

    /// The order of events does not matter, as long as no two pods claim one address.
    #[test]
    fn events_may_come_in_any_order(changes in vec(change(), 1..40).prop_shuffle(), seed: u64) {
        let mut objects: BTreeMap<ObjectId, Object> = BTreeMap::new();
        let mut claims = std::collections::BTreeSet::new();
        for change in changes {
            if let Change::Put(object) = change
                && claimed(&object).is_none_or(|address| claims.insert(address))
            {
                objects.entry(object.id()).or_insert(object);
            }
        }
        let mut outcome = Outcome { objects: objects.into_values().collect() };
        let scope = scope(true, true);
        let mut cluster = Cluster::new(scope.clone());
        let mut order: Vec<Object> = outcome.objects.clone();
        order.sort_by_cached_key(|object| mixed(seed, &object.id().to_string()));
        for object in order {
            // Each comes, goes, and comes again.
            let id = object.id();
            cluster.apply(Change::Put(object.clone()));
            if mixed(seed, &format!("{id} again")).is_multiple_of(2) {
                cluster.compile();
                cluster.apply(Change::Delete(id.clone()));
                cluster.apply(Change::Delete(id));
                cluster.compile();
                cluster.apply(Change::Put(object));
            }
        }
        agree(&mut cluster, &outcome, &scope, 5);
        // And all goes, in whatever order.
        outcome.objects.reverse();
        while let Some(object) = outcome.objects.pop() {
            cluster.apply(Change::Delete(object.id()));
        }
        agree(&mut cluster, &outcome, &scope, 1);
    }
}

fn mixed(seed: u64, text: &str) -> u64 {
    text.bytes().fold(seed | 1, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23))
}
