//! What policies mean, one point at a time. Every answer is held against its explanation as well.

mod policy_support;

use felt::net::{FlowKey, Protocol};
use felt::policy::model::{Action, ObjectId, Peer, Policy, PolicyKind, Ports, Requirement, Rule, Selector, Subject, Tier};
use felt::policy::{Cause, Policies, Refused, Scope, UnknownPods, Verdict};
use policy_support::*;

const ICMP: Protocol = Protocol::ICMP;
const SCTP: Protocol = Protocol::SCTP;
const TCP: Protocol = Protocol::TCP;
const UDP: Protocol = Protocol::UDP;

/// `x/a`, `x/b` and `y/c` at 10.0.0.1 to 10.0.0.3 and `fd00::1` to `fd00::3`; nodes `n` and `m` at 192.168.0.1 and 192.168.0.2.
fn cluster() -> Asked {
    let on = |path, labels: &str, number: u8| {
        let mut pod = pod(path, labels, &[&format!("10.0.0.{number}"), &format!("fd00::{number}")]);
        pod.node = if number == 3 { "m" } else { "n" }.into();
        pod
    };
    Asked::default()
        .with(namespace("x", "team=red"))
        .with(namespace("y", "team=blue"))
        .with(node("n", "zone=1", &["192.168.0.1"]))
        .with(node("m", "zone=2", &["192.168.0.2"]))
        .with(on("x/a", "app=a", 1))
        .with(on("x/b", "app=b", 2))
        .with(on("y/c", "app=c", 3))
}

/// What a policy for `x/a` lets through, from or to x/b, y/c, the other node, the outside, on TCP 80, TCP 81, UDP 80, ICMP.
#[track_caller]
fn lets_through(rules: &[Rule], expected: [&str; 4]) {
    let others = ["10.0.0.2", "10.0.0.3", "192.168.0.2", "8.8.8.8"];
    let probes = [(TCP, 80), (TCP, 81), (UDP, 80), (ICMP, 0)];
    for ingress in [true, false] {
        let (into, out) = if ingress { (Some(rules.to_vec()), None) } else { (None, Some(rules.to_vec())) };
        let mut cluster = cluster().with(network_policy("x/p", "app=a", into, out));
        let found = others.map(|other| {
            probes.map(|(protocol, port)| {
                let (from, to) = if ingress { (other, "10.0.0.1") } else { ("10.0.0.1", other) };
                cluster.letter(&flow(protocol, from, to, port))
            })
        });
        let refused = if ingress { "i" } else { "e" };
        let expected = expected.map(|row| row.replace('x', refused));
        assert_eq!(found.map(String::from_iter), expected, "ingress: {ingress}, {rules:#?}");
    }
}

#[test]
fn lists_that_are_empty_absent_or_not_understood() {
    let all = ["....", "....", "....", "...."];
    let none = ["xxxx", "xxxx", "xxxx", "xxxx"];
    let tcp = |first, last| Some(vec![numbers(TCP, first, last)]);
    lets_through(&[], none);
    lets_through(&[accept(None, None)], all);
    lets_through(&[accept(Some(Vec::new()), None)], none);
    lets_through(&[accept(Some(vec![Peer::Nothing]), None)], none);
    lets_through(&[accept(Some(vec![Peer::Unintelligible]), None)], none);
    lets_through(&[accept(Some(vec![Peer::Unintelligible, pods("team=red", "")]), None)], ["....", "xxxx", "xxxx", "xxxx"]);
    lets_through(&[accept(None, tcp(80, 80))], [".xxx"; 4]);
    lets_through(&[accept(None, tcp(0, 65535))], ["..xx"; 4]);
    lets_through(&[accept(None, Some(vec![Ports::Nothing]))], none);
    lets_through(&[accept(None, Some(vec![numbers(UDP, 80, 80), numbers(TCP, 81, 90)]))], ["x..x"; 4]);
    lets_through(&[accept(Some(vec![block("10.0.0.0/24", &[])]), tcp(80, 80))], [".xxx", ".xxx", "xxxx", "xxxx"]);
    lets_through(&[accept(Some(vec![block("0.0.0.0/0", &["10.0.0.3/32"])]), None)], ["....", "xxxx", "....", "...."]);
    lets_through(&[accept(Some(vec![Peer::Own(select("app=z"))]), None)], none);
    // What one rule leaves out another may allow.
    let others = accept(Some(vec![block("10.0.0.3/32", &[])]), tcp(81, 81));
    lets_through(&[accept(Some(vec![block("0.0.0.0/0", &["10.0.0.3/32"])]), None), others], ["....", "x.xx", "....", "...."]);
    // A rule for each: neither borrows from the other.
    let rules = [accept(Some(vec![pods("team=red", "")]), tcp(80, 80)), accept(Some(vec![pods("team=blue", "")]), tcp(81, 81))];
    lets_through(&rules, [".xxx", "x.xx", "xxxx", "xxxx"]);
}

#[test]
fn selectors_in_one_peer_are_both_asked_and_peers_are_alternatives() {
    let red_a = || accept(Some(vec![pods("team=red", "app=c")]), None);
    lets_through(&[red_a()], ["xxxx"; 4]);
    lets_through(&[accept(Some(vec![pods("team=red", ""), pods("", "app=c")]), None)], ["....", "....", "xxxx", "xxxx"]);
    lets_through(&[accept(Some(vec![pods("", "")]), None)], ["....", "....", "xxxx", "xxxx"]);
    lets_through(&[accept(Some(vec![Peer::Own(select(""))]), None)], ["....", "xxxx", "xxxx", "xxxx"]);
    lets_through(&[accept(Some(vec![Peer::Own(select("app=c"))]), None)], ["xxxx"; 4]);
    lets_through(&[accept(Some(vec![pods("kubernetes.io/metadata.name=y", "")]), None)], ["xxxx", "....", "xxxx", "xxxx"]);
    let expression = |requirement| {
        let pods = Selector::All(vec![requirement]);
        [accept(Some(vec![Peer::Pods { namespaces: Selector::everything(), pods }]), None)]
    };
    let both = ["....", "....", "xxxx", "xxxx"];
    lets_through(&expression(Requirement::NotIn("app".into(), ["b".to_owned()].into())), ["xxxx", "....", "xxxx", "xxxx"]);
    lets_through(&expression(Requirement::NotIn("gone".into(), ["b".to_owned()].into())), both);
    lets_through(&expression(Requirement::DoesNotExist("gone".into())), both);
    lets_through(&expression(Requirement::Exists("gone".into())), ["xxxx"; 4]);
    lets_through(&expression(Requirement::Exists("app".into())), both);
    let peer = Peer::Pods { namespaces: Selector::everything(), pods: Selector::Nothing };
    lets_through(&[accept(Some(vec![peer]), None)], ["xxxx"; 4]);
}

#[test]
fn blocks_and_nodes_are_about_addresses() {
    lets_through(&[accept(Some(vec![Peer::Nodes(select("zone=2"))]), None)], ["xxxx", "xxxx", "....", "xxxx"]);
    lets_through(&[accept(Some(vec![Peer::Nodes(select("zone=3"))]), None)], ["xxxx"; 4]);
    lets_through(&[accept(Some(vec![block("192.168.0.2/32", &[])]), None)], ["xxxx", "xxxx", "....", "xxxx"]);
    // Each family is its own.
    lets_through(&[accept(Some(vec![block("::/0", &[])]), None)], ["xxxx"; 4]);
    let rules = |cidr| vec![accept(Some(vec![block(cidr, &[])]), None)];
    let mut four = cluster().with(network_policy("x/p", "", Some(rules("0.0.0.0/0")), None));
    assert_eq!(four.letter(&tcp("fd00::3", "fd00::1", 80)), 'i');
    assert_eq!(four.letter(&tcp("10.0.0.3", "10.0.0.1", 80)), '.');
    let mut six = cluster().with(network_policy("x/p", "", Some(rules("::/0")), None));
    assert_eq!(six.letter(&tcp("fd00::3", "fd00::1", 80)), '.');
    assert_eq!(six.letter(&tcp("2001:db8::1", "fd00::1", 80)), '.');
    // Selectors cover all addresses of a pod.
    let mut pods = cluster().with(network_policy("x/p", "", Some(vec![accept(Some(vec![pods("", "app=c")]), None)]), None));
    assert_eq!(pods.letter(&tcp("fd00::3", "fd00::1", 80)), '.');
    assert_eq!(pods.letter(&tcp("fd00::2", "fd00::1", 80)), 'i');
}

#[test]
fn isolation_is_per_direction_and_each_end_decides_alone() {
    let mut cluster = cluster().with(network_policy("x/p", "app=a", None, Some(Vec::new())));
    assert_eq!(cluster.letter(&tcp("10.0.0.1", "10.0.0.2", 80)), 'e');
    assert_eq!(cluster.letter(&tcp("10.0.0.2", "10.0.0.1", 80)), '.');
    cluster.put(network_policy("x/q", "app=b", Some(Vec::new()), None));
    assert_eq!(cluster.letter(&tcp("10.0.0.1", "10.0.0.2", 80)), 'b');
    assert_eq!(cluster.letter(&tcp("10.0.0.3", "10.0.0.2", 80)), 'i');
    assert_eq!(cluster.letter(&tcp("10.0.0.2", "10.0.0.3", 80)), '.');
    // Policies are a union, and do not reach into other namespaces.
    cluster.put(network_policy("x/r", "", Some(vec![accept(None, Some(vec![numbers(TCP, 80, 80)]))]), None));
    assert_eq!(cluster.letter(&tcp("10.0.0.3", "10.0.0.2", 80)), '.');
    assert_eq!(cluster.letter(&tcp("10.0.0.2", "10.0.0.3", 81)), '.');
    // The last of them opens.
    cluster.delete(network_policy("x/p", "", None, None));
    assert_eq!(cluster.letter(&tcp("10.0.0.1", "10.0.0.3", 81)), '.');
}

#[test]
fn what_refuses_is_named() {
    let mut cluster = cluster()
        .with(network_policy("x/second", "app=a", Some(Vec::new()), None))
        .with(network_policy("x/first", "app=a", Some(Vec::new()), None))
        .with(network_policy("x/another", "app=b", Some(Vec::new()), None));
    let Verdict::Refused(Refused { egress: None, ingress: Some(Cause::Isolated(number)) }) =
        cluster.verdict(&tcp("10.0.0.2", "10.0.0.1", 80))
    else {
        panic!("expected isolation")
    };
    let name = |name: &str, kind, namespace: &str| ObjectId::Policy { kind, namespace: namespace.into(), name: name.into() };
    assert_eq!(cluster.policies().policy(number), Some(&name("first", PolicyKind::NetworkPolicy, "x")));
    let rules = vec![accept(Some(Vec::new()), None), rule(Action::Deny, None, Some(vec![numbers(TCP, 80, 80)]))];
    cluster.put(cluster_policy("top", Tier::Admin, 0, Vec::new(), rules));
    let Verdict::Refused(Refused { egress: Some(Cause::Denied(number, 1)), ingress: Some(_) }) =
        cluster.verdict(&tcp("10.0.0.2", "10.0.0.1", 80))
    else {
        panic!("expected denial")
    };
    assert_eq!(cluster.policies().policy(number), Some(&name("top", PolicyKind::ClusterNetworkPolicy, "")));
    assert_eq!(cluster.policies().policy(99), None);
}

#[test]
fn ranges_of_ports_include_their_ends() {
    let rules = || Some(vec![accept(None, Some(vec![numbers(TCP, 1024, 32768), numbers(SCTP, 65535, 65535)]))]);
    let mut cluster = cluster().with(network_policy("x/p", "app=a", rules(), None));
    let table = [(TCP, 1023, 'i'), (TCP, 1024, '.'), (TCP, 32768, '.'), (TCP, 32769, 'i'), (UDP, 1024, 'i')];
    let sctp = [(SCTP, 65535, '.'), (SCTP, 65534, 'i'), (TCP, 65535, 'i'), (Protocol(47), 1024, 'i')];
    for (protocol, port, expected) in table.into_iter().chain(sctp) {
        assert_eq!(cluster.letter(&flow(protocol, "10.0.0.2", "10.0.0.1", port)), expected, "{protocol} {port}");
    }
}

#[test]
fn named_ports_are_those_of_the_destination_pod() {
    let with_ports = |path, number: u8, ports| {
        let mut pod = pod(path, "", &[&format!("10.0.0.{number}")]);
        pod.ports = ports;
        pod
    };
    let rules = |protocol| Some(vec![accept(None, Some(vec![port_named("web", protocol)]))]);
    let clusters = |into, out| {
        Asked::default()
            .with(namespace("x", ""))
            .with(namespace("y", ""))
            .with(with_ports("x/a", 1, vec![named("web", TCP, 80), named("web", TCP, 90), named("dns", UDP, 53)]))
            .with(with_ports("x/b", 2, vec![named("web", TCP, 8080), named("web", UDP, 70)]))
            .with(with_ports("x/c", 3, Vec::new()))
            .with(with_ports("y/d", 4, vec![named("web", TCP, 80)]))
            .with(network_policy("x/p", "", into, out))
    };
    let table = [
        ("10.0.0.1", TCP, 80, true),
        ("10.0.0.1", TCP, 90, true),
        ("10.0.0.1", TCP, 8080, false),
        ("10.0.0.1", UDP, 80, false),
        ("10.0.0.1", UDP, 53, false),
        ("10.0.0.2", TCP, 8080, true),
        ("10.0.0.2", TCP, 80, false),
        ("10.0.0.2", UDP, 70, false),
        ("10.0.0.3", TCP, 80, false),
    ];
    let mut ingress = clusters(rules(Some(TCP)), None);
    let mut egress = clusters(None, rules(Some(TCP)));
    for (to, protocol, port, allowed) in table {
        let from = if to == "10.0.0.3" { "10.0.0.1" } else { "10.0.0.3" };
        let flow = flow(protocol, from, to, port);
        assert_eq!(ingress.letter(&flow), if allowed { '.' } else { 'i' }, "{flow}");
        assert_eq!(egress.letter(&flow), if allowed { '.' } else { 'e' }, "{flow}");
    }
    // The outside names nothing; another namespace's pod does, whatever its own policies.
    assert_eq!(egress.letter(&tcp("10.0.0.1", "8.8.8.8", 80)), 'e');
    assert_eq!(egress.letter(&tcp("10.0.0.1", "10.0.0.4", 80)), '.');
    // Whatever the protocol it was declared with.
    for mut any in [clusters(rules(None), None), clusters(None, rules(None))] {
        assert_eq!(any.letter(&flow(UDP, "10.0.0.3", "10.0.0.2", 70)), '.');
        assert_ne!(any.letter(&flow(UDP, "10.0.0.3", "10.0.0.2", 8080)), '.');
    }
    // A pod's ports may change.
    egress.put(with_ports("x/c", 3, vec![named("web", TCP, 1)]));
    assert_eq!(egress.letter(&tcp("10.0.0.1", "10.0.0.3", 1)), '.');
}

fn tiers(cluster: Asked, policies: Vec<Policy>) -> Asked {
    policies.into_iter().fold(cluster, Asked::with)
}

#[test]
fn tiers_are_asked_in_order() {
    use Action::{Accept, Deny, Pass};
    let to_a = || tcp("10.0.0.2", "10.0.0.1", 80);
    let admin = |name, priority, action| cluster_policy(name, Tier::Admin, priority, vec![rule(action, None, None)], Vec::new());
    let baseline =
        |name, priority, action| cluster_policy(name, Tier::Baseline, priority, vec![rule(action, None, None)], Vec::new());
    let closed = || network_policy("x/closed", "", Some(Vec::new()), None);
    let open = || network_policy("x/open", "", Some(vec![accept(None, None)]), None);
    let out = || network_policy("x/out", "", None, Some(vec![accept(None, None)]));
    let table = [
        (vec![admin("d", 0, Deny)], 'i'),
        (vec![admin("d", 0, Deny), open()], 'i'),
        (vec![admin("a", 0, Accept), closed()], '.'),
        (vec![admin("d", 9, Deny), admin("a", 5, Accept)], '.'),
        (vec![admin("d", 5, Deny), admin("a", 9, Accept)], 'i'),
        // Equal priorities: by name.
        (vec![admin("b", 5, Deny), admin("a", 5, Accept)], '.'),
        (vec![admin("a", 5, Deny), admin("b", 5, Accept)], 'i'),
        // Pass leaves the tier, all of it.
        (vec![admin("p", 1, Pass), admin("d", 5, Deny)], '.'),
        (vec![admin("p", 1, Pass), admin("a", 5, Accept), closed()], 'i'),
        (vec![admin("p", 1, Pass), baseline("d", 0, Deny)], 'i'),
        (vec![baseline("d", 0, Deny)], 'i'),
        (vec![baseline("p", 0, Pass), baseline("d", 5, Deny)], '.'),
        (vec![baseline("d", 5, Deny), baseline("a", 0, Accept)], '.'),
        // Who is isolated in this direction never comes to the baseline; who is in the other does.
        (vec![baseline("d", 0, Deny), open()], '.'),
        (vec![baseline("a", 0, Accept), closed()], 'i'),
        (vec![baseline("d", 0, Deny), out()], 'i'),
    ];
    for (policies, expected) in table {
        let told = format!("{policies:#?}");
        assert_eq!(tiers(cluster(), policies).letter(&to_a()), expected, "{told}");
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    use Action::{Accept, Deny, Pass};
    let port = |first, last| Some(vec![numbers(TCP, first, last)]);
    let rules = vec![
        rule(Pass, Some(vec![pods("", "app=c")]), port(80, 80)),
        rule(Accept, Some(vec![pods("team=red", "")]), port(1, 100)),
        rule(Deny, None, port(80, 90)),
        rule(Accept, Some(vec![pods("", "")]), None),
        rule(Deny, None, None),
    ];
    let mut cluster = cluster().with(cluster_policy("p", Tier::Admin, 1, rules, Vec::new()));
    let table = [
        ("10.0.0.2", TCP, 80, '.'),
        ("10.0.0.3", TCP, 80, '.'),
        ("10.0.0.3", TCP, 81, 'i'),
        ("10.0.0.3", TCP, 91, '.'),
        ("10.0.0.3", UDP, 80, '.'),
        ("8.8.8.8", TCP, 80, 'i'),
        ("8.8.8.8", ICMP, 0, 'i'),
    ];
    for (from, protocol, port, expected) in table {
        assert_eq!(cluster.letter(&flow(protocol, from, "10.0.0.1", port)), expected, "{from} {protocol} {port}");
    }
    // Only the NetworkPolicy tier is left for what passes.
    cluster.put(network_policy("x/closed", "", Some(Vec::new()), None));
    assert_eq!(cluster.letter(&tcp("10.0.0.3", "10.0.0.1", 80)), 'i');
    assert_eq!(cluster.letter(&tcp("10.0.0.2", "10.0.0.1", 80)), '.');
}

#[test]
fn what_is_not_understood_fails_closed() {
    use Action::{Accept, Deny, Pass};
    let ports = || Some(vec![numbers(TCP, 1, 1)]);
    for (action, expected) in [(Accept, '.'), (Deny, 'e'), (Pass, 'e')] {
        let rules = vec![rule(action, Some(vec![Peer::Unintelligible]), ports()), rule(Accept, None, None)];
        let mut cluster = cluster().with(cluster_policy("p", Tier::Admin, 1, Vec::new(), rules));
        assert_eq!(cluster.letter(&tcp("10.0.0.1", "8.8.8.8", 80)), expected, "{action}");
        assert_eq!(cluster.letter(&flow(ICMP, "10.0.0.1", "10.0.0.3", 0)), expected, "{action}");
    }
}

#[test]
fn a_subject_may_be_of_any_namespaces() {
    let deny = || vec![rule(Action::Deny, None, None)];
    let mut policy = cluster_policy("p", Tier::Admin, 1, deny(), Vec::new());
    policy.subject = Subject::Cluster { namespaces: select("team=red"), pods: select("app=a") };
    let mut cluster = cluster().with(policy);
    assert_eq!(cluster.letter(&tcp("10.0.0.3", "10.0.0.1", 80)), 'i');
    assert_eq!(cluster.letter(&tcp("10.0.0.3", "10.0.0.2", 80)), '.');
    cluster.put(namespace("x", "team=green"));
    assert_eq!(cluster.letter(&tcp("10.0.0.3", "10.0.0.1", 80)), '.');
}

#[test]
fn the_own_node_comes_in_and_a_pod_reaches_itself() {
    let mut cluster = cluster().with(network_policy("x/p", "", Some(Vec::new()), Some(Vec::new())));
    assert_eq!(cluster.letter(&tcp("192.168.0.1", "10.0.0.1", 80)), '.');
    assert_eq!(cluster.letter(&tcp("192.168.0.2", "10.0.0.1", 80)), 'i');
    assert_eq!(cluster.letter(&tcp("10.0.0.1", "192.168.0.1", 80)), 'e');
    assert_eq!(cluster.letter(&tcp("10.0.0.1", "10.0.0.1", 80)), '.');
    assert_eq!(cluster.letter(&tcp("fd00::1", "fd00::1", 80)), '.');
    // A node that is replaced by one of another name has its address twice for a while.
    cluster.put(node("a-new-one", "", &["192.168.0.1"]));
    assert_eq!(cluster.letter(&tcp("192.168.0.1", "10.0.0.1", 80)), '.');
    cluster.delete(node("n", "", &[]));
    assert_eq!(cluster.letter(&tcp("192.168.0.1", "10.0.0.1", 80)), 'i');
}

#[test]
fn pods_on_their_hosts_network_are_their_node() {
    let mut proxy = pod("x/proxy", "app=b", &["192.168.0.2"]);
    (proxy.node, proxy.host_network) = ("m".into(), true);
    let deny_all = || network_policy("x/p", "", Some(Vec::new()), Some(Vec::new()));
    let mut cluster =
        cluster().with(proxy).with(network_policy("y/q", "", Some(vec![accept(Some(vec![pods("", "")]), None)]), None));
    assert_eq!(cluster.letter(&tcp("192.168.0.1", "10.0.0.3", 80)), 'i');
    cluster.put(deny_all());
    // It is no subject, so nothing happens to its node's packets.
    assert_eq!(cluster.letter(&tcp("192.168.0.2", "8.8.8.8", 80)), '.');
    assert_eq!(cluster.letter(&tcp("8.8.8.8", "192.168.0.2", 80)), '.');
    assert_eq!(cluster.letter(&tcp("192.168.0.2", "10.0.0.3", 80)), '.');
    assert_eq!(cluster.policies().name_of(ip("192.168.0.2")), Some(&ObjectId::Node("m".into())));
}

#[test]
fn an_address_has_one_live_owner() {
    let mut cluster =
        cluster().with(network_policy("x/p", "app=a", Some(vec![accept(Some(vec![pods("", "app=b")]), None)]), None));
    let into_a = || tcp("10.0.0.9", "10.0.0.1", 80);
    let mut first = pod("x/first", "app=b", &["10.0.0.9"]);
    cluster.put(first.clone());
    assert_eq!(cluster.letter(&into_a()), '.');
    // Being about to go changes nothing until it has.
    first.finished = true;
    cluster.put(first.clone());
    assert_eq!(cluster.letter(&into_a()), 'i');
    cluster.put(pod("y/second", "app=b", &["10.0.0.9"]));
    assert_eq!(cluster.letter(&into_a()), '.');
    // What the finished one still says of itself is not heard.
    cluster.delete(first.clone());
    assert_eq!(cluster.letter(&into_a()), '.');
    // Two claim it: the one that runs has it, or else the one that came last.
    let mut third = pod("y/third", "app=z", &["10.0.0.9"]);
    third.running = false;
    cluster.put(third.clone());
    assert_eq!(cluster.letter(&into_a()), '.');
    let mut second = pod("y/second", "app=b", &["10.0.0.9"]);
    second.running = false;
    cluster.put(second.clone());
    assert_eq!(cluster.letter(&into_a()), 'i');
    third.running = true;
    cluster.put(third.clone());
    assert_eq!(cluster.letter(&into_a()), 'i');
    cluster.delete(third);
    assert_eq!(cluster.letter(&into_a()), '.');
    cluster.delete(second);
    assert_eq!(cluster.letter(&into_a()), 'i');
}

#[test]
fn labels_are_live() {
    let rules = || Some(vec![accept(Some(vec![pods("team=blue", "app=c")]), None)]);
    let mut cluster = cluster().with(network_policy("x/p", "app=a", rules(), None));
    let from_c = || tcp("10.0.0.3", "10.0.0.1", 80);
    let relabelled = |labels| pod("y/c", labels, &["10.0.0.3"]);
    assert_eq!(cluster.letter(&from_c()), '.');
    cluster.put(relabelled("app=other"));
    assert_eq!(cluster.letter(&from_c()), 'i');
    cluster.put(relabelled("app=c,more=1"));
    assert_eq!(cluster.letter(&from_c()), '.');
    cluster.put(namespace("y", "team=red"));
    assert_eq!(cluster.letter(&from_c()), 'i');
    cluster.put(namespace("y", "team=blue,more=1"));
    assert_eq!(cluster.letter(&from_c()), '.');
    // As a target.
    cluster.put(network_policy("x/p", "app=a", Some(Vec::new()), None));
    assert_eq!(cluster.letter(&from_c()), 'i');
    cluster.put(pod("x/a", "app=free", &["10.0.0.1"]));
    assert_eq!(cluster.letter(&from_c()), '.');
    cluster.put(pod("x/a", "app=a", &["10.0.0.1"]));
    assert_eq!(cluster.letter(&from_c()), 'i');
}

/// The node `n` with the subnet 10.0.0.0/24, of which the host has 10.0.0.254.
fn ours(unknown_pods: UnknownPods) -> Scope {
    Scope {
        node: Some("n".into()),
        own4: vec!["10.0.0.0/24".parse().unwrap()],
        own6: vec!["fd00::/64".parse().unwrap()],
        host: vec![ip("10.0.0.254")],
        unknown_pods,
    }
}

#[test]
fn pods_that_are_not_known_are_refused_or_let_be() {
    let into = tcp("8.8.8.8", "10.0.0.9", 80);
    let out = tcp("10.0.0.9", "8.8.8.8", 80);
    let mut strict = Asked::new(ours(UnknownPods::Refuse)).with(node("n", "", &["192.168.0.1", "10.0.0.253"]));
    let refused = |egress, ingress| Verdict::Refused(Refused { egress, ingress });
    assert_eq!(strict.verdict(&into), refused(None, Some(Cause::UnknownPod)));
    assert_eq!(strict.verdict(&out), refused(Some(Cause::UnknownPod), None));
    assert_eq!(strict.letter(&tcp("fd00::9", "fd00::8", 80)), 'b');
    // Probes come from the host, whichever of its addresses they have; and its addresses are no pods'.
    for host in ["10.0.0.254", "10.0.0.253", "192.168.0.1"] {
        assert_eq!(strict.letter(&tcp(host, "10.0.0.9", 80)), '.', "{host}");
        assert_eq!(strict.letter(&tcp(host, "8.8.8.8", 80)), '.', "{host}");
        assert_eq!(strict.letter(&tcp("8.8.8.8", host, 80)), '.', "{host}");
    }
    // As a peer it is an address and nothing more.
    strict.put(namespace("x", ""));
    strict.put(pod("x/a", "", &["10.0.0.1"]));
    strict.put(network_policy("x/p", "", Some(vec![accept(Some(vec![pods("", "")]), None)]), None));
    assert_eq!(strict.letter(&tcp("10.0.0.9", "10.0.0.1", 80)), 'b');
    strict.put(network_policy("x/p", "", Some(vec![accept(Some(vec![block("10.0.0.9/32", &[])]), None)]), None));
    assert_eq!(strict.letter(&tcp("10.0.0.9", "10.0.0.1", 80)), 'e');
    // Once it is known, it is judged like any other, wherever it is about to run.
    strict.put(pod("x/b", "", &["10.0.0.9"]));
    assert_eq!(strict.letter(&out), '.');
    assert_eq!(strict.letter(&into), 'i');
    strict.delete(pod("x/b", "", &[]));
    assert_eq!(strict.letter(&out), 'e');
    let mut lenient = Asked::new(ours(UnknownPods::Allow));
    assert_eq!(lenient.letter(&into), '.');
    assert_eq!(lenient.letter(&out), '.');
}

#[test]
fn pods_of_other_nodes_are_judged_there() {
    let mut cluster = cluster();
    let of = |node: Option<&str>, own: &str| Scope {
        node: node.map(str::to_owned),
        own4: vec![own.parse().unwrap()],
        own6: Vec::new(),
        ..ours(UnknownPods::Refuse)
    };
    cluster.cluster.set_scope(of(Some("n"), "10.0.0.0/31"));
    cluster.put(network_policy("x/p", "", Some(Vec::new()), None));
    cluster.put(network_policy("y/q", "", None, Some(Vec::new())));
    assert_eq!(cluster.letter(&tcp("10.0.0.3", "10.0.0.1", 80)), 'i');
    cluster.cluster.set_scope(of(None, "10.0.0.0/31"));
    assert_eq!(cluster.letter(&tcp("10.0.0.3", "10.0.0.1", 80)), 'b');
    cluster.cluster.set_scope(of(Some("m"), "10.0.0.2/31"));
    assert_eq!(cluster.letter(&tcp("10.0.0.3", "10.0.0.1", 80)), 'e');
    // Whatever node a pod names, with an address of ours it is here.
    for node in ["n", "m", "another name of ours"] {
        cluster.cluster.set_scope(of(Some(node), "10.0.0.0/24"));
        assert_eq!(cluster.letter(&tcp("10.0.0.3", "10.0.0.1", 80)), 'b', "{node}");
    }
}

#[test]
fn until_policies_are_known_pods_are_closed_but_for_their_host() {
    let closed = Policies::closed(&ours(UnknownPods::Allow), 1);
    let refused = |egress, ingress| Verdict::Refused(Refused { egress, ingress });
    let unsynced = Some(Cause::Unsynced);
    assert!(!closed.is_open());
    assert_eq!(closed.verdict(&tcp("10.0.0.1", "8.8.8.8", 80)), refused(unsynced, None));
    assert_eq!(closed.verdict(&tcp("8.8.8.8", "10.0.0.1", 80)), refused(None, unsynced));
    assert_eq!(closed.verdict(&tcp("fd00::1", "fd00::2", 80)), refused(unsynced, unsynced));
    assert_eq!(closed.verdict(&tcp("10.0.0.1", "10.0.0.254", 80)), refused(unsynced, None));
    assert_eq!(closed.verdict(&tcp("10.0.0.254", "10.0.0.1", 80)), Verdict::Allowed);
    assert_eq!(closed.verdict(&tcp("8.8.8.8", "10.0.0.254", 80)), Verdict::Allowed);
    assert_eq!(closed.verdict(&tcp("10.9.0.1", "8.8.8.8", 80)), Verdict::Allowed);
    let open = Policies::default();
    assert!(open.is_open() && !Asked::default().policies().is_open());
    assert_eq!(open.verdict(&tcp("10.0.0.1", "8.8.8.8", 80)), Verdict::Allowed);
}

#[test]
fn versions_grow_only_with_news() {
    let mut cluster = cluster();
    let first = cluster.policies();
    assert!(first.version() > 0);
    cluster.put(namespace("x", "team=red"));
    cluster.delete(pod("x/nobody", "", &[]));
    assert_eq!(cluster.policies().version(), first.version());
    cluster.put(namespace("x", "team=green"));
    assert!(cluster.policies().version() > first.version());
}

#[test]
fn what_is_no_longer_used_is_forgotten() {
    let mut cluster = cluster();
    for round in 0..400 {
        let label = format!("round={round}");
        let peer = accept(Some(vec![pods(&label, &label), block(&format!("10.1.{}.0/24", round % 256), &[])]), None);
        let mut policy = network_policy("x/p", "app=a", Some(vec![peer]), None);
        if round % 2 == 0 {
            policy.subject = Subject::Own(select(&label));
        }
        cluster.put(policy);
        let expected = if round % 2 == 0 { '.' } else { 'i' };
        assert_eq!(cluster.letter(&tcp("10.0.0.2", "10.0.0.1", 80)), expected, "{round}");
        let block: FlowKey = tcp(&format!("10.1.{}.7", round % 256), "10.0.0.1", 80);
        assert_eq!(cluster.letter(&block), '.', "{round}");
    }
}
