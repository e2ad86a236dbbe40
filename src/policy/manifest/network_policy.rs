//! `NetworkPolicy`: which pods it isolates, and which rules it has for them.

use super::super::model::{Action, Peer, Policy, PolicyKind, Ports, Rule, Selector, Subject, Tier};
use super::at::At;
use super::head::Head;
use super::network_peer::{peer, ports};
use super::remark::Notes;
use super::selector::selector;

const NOBODY: &str = "the rule matches nobody";

/// Reads a policy. There always is one, whatever the body is like.
pub(super) fn read(head: &Head, root: &At<'_>, notes: &mut Notes) -> Policy {
    let mut policy = Policy {
        kind: PolicyKind::NetworkPolicy,
        namespace: head.namespace.clone(),
        name: head.name.clone(),
        tier: Tier::NetworkPolicy,
        priority: 0,
        subject: Subject::Own(Selector::everything()),
        ingress: Some(Vec::new()),
        egress: Some(Vec::new()),
    };
    let spec = root.place("spec");
    if !spec.value.is_object() && !spec.value.is_null() {
        notes.effect = "every pod of the namespace is isolated";
        notes.add(&spec, "an object");
        return policy;
    }

    let directions = directions(&spec, notes);
    notes.effect = "every pod of the namespace is isolated";
    let pods = selector(&spec.place("podSelector"), notes);
    notes.effect = "the policy isolates in both directions and allows nobody";
    let fields = ["podSelector", "policyTypes", "ingress", "egress"];
    let known = spec.value.is_null() || notes.knows(&spec, &fields);

    // Rules meant for some pods are not for all, and not for whom a rule that is not understood would have left out.
    let in_doubt = pods.is_none() || !known;
    let mut rules = |name: &str, peers: &str, direction: Direction| match direction {
        Direction::Free if known => None,
        Direction::Ruled if !in_doubt => Some(rules(&spec.place(name), peers, notes)),
        _ => Some(Vec::new()),
    };
    policy.ingress = rules("ingress", "from", directions.0);
    policy.egress = rules("egress", "to", directions.1);
    policy.subject = Subject::Own(pods.unwrap_or(Selector::everything()));
    policy
}

/// What a policy does in one direction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// Nothing.
    Free,
    /// It isolates, and its rules allow.
    Ruled,
    /// It isolates; that it has rules for it is not sure.
    Closed,
}

/// What it does for ingress and egress. Without types: ingress always, egress if it has rules.
fn directions(spec: &At<'_>, notes: &mut Notes) -> (Direction, Direction) {
    notes.effect = "the policy isolates in both directions";
    let types = spec.place("policyTypes");
    let (mut ingress, mut egress, mut understood) = (Direction::Free, Direction::Free, true);
    match types.items() {
        Some(items) => {
            for item in items {
                match item.text() {
                    Some("Ingress") => ingress = Direction::Ruled,
                    Some("Egress") => egress = Direction::Ruled,
                    _ => {
                        understood = false;
                        notes.add(&item, "`Ingress` or `Egress`");
                    }
                }
            }
        }
        None if types.value.is_null() => {}
        None => {
            understood = false;
            notes.add(&types, "a list of `Ingress` and `Egress`");
        }
    }
    if !understood {
        let closed = |direction| if direction == Direction::Free { Direction::Closed } else { direction };
        return (closed(ingress), closed(egress));
    }
    if (ingress, egress) == (Direction::Free, Direction::Free) {
        let rules = spec.field("egress").is_some_and(|rules| rules.value.as_array().is_none_or(|rules| !rules.is_empty()));
        return (Direction::Ruled, if rules { Direction::Ruled } else { Direction::Free });
    }
    (ingress, egress)
}

fn rules(at: &At<'_>, peers: &str, notes: &mut Notes) -> Vec<Rule> {
    notes.effect = "nobody is allowed in this direction";
    let Some(items) = at.items() else {
        if !at.value.is_null() {
            notes.add(at, "a list of rules");
        }
        return Vec::new();
    };
    items.map(|item| rule(&item, peers, notes)).collect()
}

fn rule(at: &At<'_>, peers_name: &str, notes: &mut Notes) -> Rule {
    notes.effect = NOBODY;
    let mut rule = Rule { name: String::new(), action: Action::Accept, peers: None, ports: None };
    if !notes.knows(at, &[peers_name, "ports"]) {
        rule.peers = Some(vec![Peer::Unintelligible]);
        return rule;
    }
    rule.peers = some(&at.place(peers_name), notes, Peer::Unintelligible, peer);
    rule.ports = some(&at.place("ports"), notes, Ports::Nothing, ports);
    rule
}

/// The items of a list that restricts; `None` if it is absent or empty, and so does not.
fn some<T>(at: &At<'_>, notes: &mut Notes, unclear: T, read: fn(&At<'_>, &mut Notes) -> T) -> Option<Vec<T>> {
    notes.effect = NOBODY;
    match at.items() {
        Some(items) => Some(items.map(|item| read(&item, notes)).collect()).filter(|list: &Vec<T>| !list.is_empty()),
        None if at.value.is_null() => None,
        None => {
            notes.add(at, "a list");
            Some(vec![unclear])
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::model::{Object, Requirement};
    use super::super::{Read, read as read_object};
    use super::*;

    fn policy(spec: &Value) -> (Policy, usize) {
        let value =
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"}, "spec": spec});
        match read_object(&value).pop() {
            Some(Ok(Read::Object { object: Object::Policy(policy), remarks })) => (policy, remarks.len()),
            other => panic!("{other:?} of {value}"),
        }
    }

    /// How many rules there are for each direction, and how many remarks.
    fn counts(spec: &Value) -> (Option<usize>, Option<usize>, usize) {
        let (policy, remarks) = policy(spec);
        (policy.ingress.map(|rules| rules.len()), policy.egress.map(|rules| rules.len()), remarks)
    }

    #[test]
    fn directions_follow_types_or_else_the_rules() {
        let table = [
            (json!(null), (Some(0), None, 0)),
            (json!({}), (Some(0), None, 0)),
            (json!({"ingress": [{}], "egress": []}), (Some(1), None, 0)),
            (json!({"ingress": null, "egress": null, "policyTypes": null}), (Some(0), None, 0)),
            (json!({"egress": [{}, {}]}), (Some(0), Some(2), 0)),
            (json!({"egress": [{}], "policyTypes": []}), (Some(0), Some(1), 0)),
            (json!({"egress": [{}], "policyTypes": ["Ingress"]}), (Some(0), None, 0)),
            (json!({"ingress": [{}], "policyTypes": ["Egress"]}), (None, Some(0), 0)),
            (json!({"ingress": [{}], "egress": [{}], "policyTypes": ["Egress", "Ingress"]}), (Some(1), Some(1), 0)),
            // Not understood: closed.
            (json!({"ingress": [{}], "egress": [{}], "policyTypes": ["ingress"]}), (Some(0), Some(0), 1)),
            (json!({"ingress": [{}], "egress": [{}], "policyTypes": ["Ingress", "Both"]}), (Some(1), Some(0), 1)),
            (json!({"ingress": [{}], "policyTypes": "Ingress"}), (Some(0), Some(0), 1)),
            (json!({"ingress": [{}], "policyTypes": [null]}), (Some(0), Some(0), 1)),
            (json!({"ingress": {}}), (Some(0), None, 1)),
            (json!({"egress": {}}), (Some(0), Some(0), 1)),
            (json!({"ingress": [{}], "podNames": ["a"]}), (Some(0), Some(0), 1)),
            (json!({"ingress": [{}], "podSelector": "all"}), (Some(0), None, 1)),
            (json!("deny"), (Some(0), Some(0), 1)),
        ];
        for (spec, expected) in table {
            assert_eq!(counts(&spec), expected, "{spec}");
        }
    }

    #[test]
    fn an_unreadable_selector_selects_every_pod() {
        let own = |spec: &Value| policy(spec).0.subject;
        let labelled = Selector::All(vec![Requirement::In("a".into(), ["b".to_owned()].into())]);
        assert_eq!(own(&json!({"podSelector": {"matchLabels": {"a": "b"}}})), Subject::Own(labelled));
        for selector in [json!(null), json!({}), json!({"matchLabel": {"a": "b"}}), json!({"matchLabels": 1}), json!([])] {
            assert_eq!(own(&json!({"podSelector": selector})), Subject::Own(Selector::everything()));
        }
        assert_eq!(own(&json!([])), Subject::Own(Selector::everything()));
    }

    #[test]
    fn lists_restrict_only_if_they_have_items() {
        let peers = || Some(vec![Peer::Own(Selector::everything())]);
        let tcp = || Some(vec![super::super::port::all_of(crate::net::Protocol::TCP)]);
        let table = [
            (json!({}), None, None, 0),
            (json!({"from": null, "ports": null}), None, None, 0),
            (json!({"from": [], "ports": []}), None, None, 0),
            (json!({"from": [{"podSelector": {}}]}), peers(), None, 0),
            (json!({"from": [{"podSelector": {}}], "ports": [{}]}), peers(), tcp(), 0),
            (json!({"from": [{"planets": {}}], "ports": [{}]}), Some(vec![Peer::Unintelligible]), tcp(), 1),
            (json!({"from": {}}), Some(vec![Peer::Unintelligible]), None, 1),
            (json!({"from": [{"podSelector": {}}], "ports": {}}), peers(), Some(vec![Ports::Nothing]), 1),
            (json!({"from": [{"podSelector": {}}], "unless": []}), Some(vec![Peer::Unintelligible]), None, 1),
            // What a rule of the other direction has is not known here.
            (json!({"to": [{"podSelector": {}}]}), Some(vec![Peer::Unintelligible]), None, 1),
            (json!(null), Some(vec![Peer::Unintelligible]), None, 1),
            (json!("any"), Some(vec![Peer::Unintelligible]), None, 1),
        ];
        for (rule, peers, ports, expected) in table {
            let (policy, remarks) = policy(&json!({"ingress": [rule]}));
            let read = Rule { name: String::new(), action: Action::Accept, peers, ports };
            assert_eq!((policy.ingress, remarks), (Some(vec![read]), expected), "{rule}");
        }
    }
}
