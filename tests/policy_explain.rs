//! Explanations read as people would say it.

mod policy_support;

use felt::net::Protocol;
use felt::policy::model::{Action, Peer, Rule, Tier};
use felt::policy::{Direction, RuleOutcome, Scope, Selected, Step};
use policy_support::*;

fn cluster() -> Asked {
    let port = || Some(vec![numbers(Protocol::TCP, 80, 80)]);
    let admin = vec![
        Rule { name: "no-scans".into(), ..rule(Action::Deny, None, Some(vec![numbers(Protocol::TCP, 1, 10)])) },
        rule(Action::Pass, Some(vec![pods("team=red", "")]), None),
        rule(Action::Deny, None, None),
    ];
    Asked::new(Scope { host: vec![ip("10.0.0.254")], ..Scope::default() })
        .with(namespace("x", "team=red"))
        .with(node("n", "", &["192.168.0.1"]))
        .with(pod("x/a", "app=a", &["10.0.0.1"]))
        .with(pod("x/b", "app=b", &["10.0.0.2"]))
        .with(cluster_policy("top", Tier::Admin, 1, admin, Vec::new()))
        .with(network_policy("x/web", "app=a", Some(vec![accept(Some(vec![Peer::Own(select("app=b"))]), port())]), None))
        .with(network_policy("x/other", "app=z", Some(Vec::new()), None))
        .with(network_policy("x/out", "app=a", None, Some(Vec::new())))
}

#[test]
fn an_explanation_tells_who_was_asked_and_what_decided() {
    let explanation = cluster().cluster.explain(&tcp("10.0.0.2", "10.0.0.1", 443));
    let expected = "\
TCP 10.0.0.2:40000 to 10.0.0.1:443: refused
egress of Pod x/b (10.0.0.2) to Pod x/a (10.0.0.1): allowed
  Admin tier, ClusterNetworkPolicy top: selects the pod, and has no rules
  no rule of the Admin tier matches
  NetworkPolicy tier, NetworkPolicy x/other: selects other pods
  NetworkPolicy tier, NetworkPolicy x/out: selects other pods
  NetworkPolicy tier, NetworkPolicy x/web: selects other pods
  no NetworkPolicy isolates the pod in this direction
  allowed: nobody said otherwise
ingress of Pod x/a (10.0.0.1) from Pod x/b (10.0.0.2): refused
  Admin tier, ClusterNetworkPolicy top: selects the pod
    rule 0 (no-scans), deny: is about other ports
    rule 1, pass: matches
  the rest of the Admin tier is passed over
  NetworkPolicy tier, NetworkPolicy x/other: selects other pods
  NetworkPolicy tier, NetworkPolicy x/out: selects the pod, but not for this direction
  NetworkPolicy tier, NetworkPolicy x/web: selects the pod
    rule 0, accept: is about other ports
  refused: the pod is isolated, and no rule accepts";
    assert_eq!(explanation.to_string(), expected);
}

#[test]
fn steps_are_there_to_be_read_by_programs() {
    let explanation = cluster().cluster.explain(&tcp("192.168.0.1", "10.0.0.2", 5));
    assert_eq!(explanation.egress.steps, [Step::NoPod]);
    assert_eq!((explanation.ingress.direction, explanation.ingress.peer.address()), (Direction::Ingress, ip("192.168.0.1")));
    let [Step::Policy(asked), Step::Decided(Tier::Admin, Action::Deny)] = &explanation.ingress.steps[..] else {
        panic!("{explanation}")
    };
    assert_eq!((asked.selected, asked.rules.len(), asked.rules[0].outcome), (Selected::Yes, 1, RuleOutcome::Matches));
    let own = cluster().cluster.explain(&tcp("10.0.0.254", "10.0.0.1", 80));
    assert_eq!(own.ingress.steps, [Step::OwnNode]);
    let same = cluster().cluster.explain(&tcp("10.0.0.1", "10.0.0.1", 80));
    assert_eq!((&same.egress.steps[..], &same.ingress.steps[..]), (&[Step::SamePod][..], &[Step::SamePod][..]));
}
