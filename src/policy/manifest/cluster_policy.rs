//! The policies of a cluster's administrator: `ClusterNetworkPolicy` and what it grew from, `AdminNetworkPolicy` and
//! `BaselineAdminNetworkPolicy`.

use super::super::model::{Action, Peer, Policy, PolicyKind, Ports, Rule, Selector, Subject, Tier};
use super::at::At;
use super::cluster_peer::{End, peers, pods};
use super::cluster_ports::ports;
use super::head::Head;
use super::remark::Notes;
use super::selector::selector;

/// What becomes of a policy of which a part is not understood that all its rules depend on.
const HARDENED: &str = "its Accept rules match nobody and its Pass rules deny";

/// The lowest of the priorities, which a policy has that cannot have one.
const LAST: u16 = 1000;

/// Reads a policy. There always is one, whatever the body is like.
pub(super) fn read(kind: PolicyKind, head: &Head, root: &At<'_>, notes: &mut Notes) -> Policy {
    let spec = root.place("spec");
    let (baseline, newer) = (kind == PolicyKind::BaselineAdminNetworkPolicy, kind == PolicyKind::ClusterNetworkPolicy);
    let mut policy = Policy {
        kind,
        namespace: String::new(),
        name: head.name.clone(),
        tier: if baseline { Tier::Baseline } else { Tier::Admin },
        priority: if baseline { LAST } else { 0 },
        subject: Subject::Cluster { namespaces: Selector::everything(), pods: Selector::everything() },
        ingress: Some(vec![deny_everything()]),
        egress: Some(vec![deny_everything()]),
    };
    if !spec.value.is_object() {
        notes.effect = "everything is denied to every pod";
        notes.add(&spec, "an object");
        return policy;
    }

    notes.effect = "everything is denied to its pods";
    let fields: &[&str] = match kind {
        PolicyKind::ClusterNetworkPolicy => &["tier", "priority", "subject", "ingress", "egress"],
        PolicyKind::BaselineAdminNetworkPolicy => &["subject", "ingress", "egress"],
        _ => &["priority", "subject", "ingress", "egress"],
    };
    if notes.knows(&spec, fields) {
        policy.ingress = rules(kind, End::Ingress, &spec, notes);
        policy.egress = rules(kind, End::Egress, &spec, notes);
    }

    notes.effect = HARDENED;
    let subject = subject(&spec.place("subject"), notes);
    let mut understood = subject.is_some();
    policy.subject = subject.unwrap_or(policy.subject);
    let tier = if newer { tier(&spec.place("tier"), notes) } else { Some(policy.tier) };
    let priority = if baseline { Some(LAST) } else { priority(&spec.place("priority"), notes) };
    if let (Some(tier), Some(priority)) = (tier, priority) {
        (policy.tier, policy.priority) = (tier, priority);
    } else {
        // It might be before any other.
        (policy.tier, policy.priority) = (Tier::Admin, 0);
        understood = false;
    }
    if !understood {
        policy.ingress.iter_mut().chain(&mut policy.egress).flatten().for_each(harden);
    }
    policy
}

fn tier(at: &At<'_>, notes: &mut Notes) -> Option<Tier> {
    match at.text() {
        Some("Admin") => Some(Tier::Admin),
        Some("Baseline") => Some(Tier::Baseline),
        _ => {
            notes.add(at, "`Admin` or `Baseline`");
            None
        }
    }
}

fn priority(at: &At<'_>, notes: &mut Notes) -> Option<u16> {
    let priority = at.value.as_u64().and_then(|priority| u16::try_from(priority).ok()).filter(|&priority| priority <= LAST);
    if priority.is_none() {
        notes.add(at, "a priority from 0 to 1000");
    }
    priority
}

fn subject(at: &At<'_>, notes: &mut Notes) -> Option<Subject> {
    if !notes.knows(at, &["namespaces", "pods"]) {
        return None;
    }
    // Of the two one is there, and `null` is the empty selector where it is the only one.
    let (by_namespace, by_pod) = (at.field("namespaces"), at.field("pods"));
    let (namespaces, pods) = match (by_namespace, by_pod) {
        (Some(namespaces), None) => (selector(&namespaces, notes)?, Selector::everything()),
        (None, Some(both)) => pods(&both, notes)?,
        (None, None) if at.value.get("namespaces").is_some() => (Selector::everything(), Selector::everything()),
        _ => {
            notes.add(at, "either `namespaces` or `pods`");
            return None;
        }
    };
    Some(Subject::Cluster { namespaces, pods })
}

fn rules(kind: PolicyKind, end: End, spec: &At<'_>, notes: &mut Notes) -> Option<Vec<Rule>> {
    notes.effect = "everything is denied in this direction";
    let list = spec.field(end.rules())?;
    let Some(items) = list.items() else {
        notes.add(&list, "a list of rules");
        return Some(vec![deny_everything()]);
    };
    Some(items.map(|item| rule(kind, end, &item, notes)).collect()).filter(|rules: &Vec<Rule>| !rules.is_empty())
}

fn rule(kind: PolicyKind, end: End, at: &At<'_>, notes: &mut Notes) -> Rule {
    let name = at.place("name").text().unwrap_or_default().to_owned();
    notes.effect = "the rule denies";
    let action = action(kind, &at.place("action"), notes);
    let accepts = action == Action::Accept;
    notes.effect = if accepts { "the rule matches nobody" } else { "the rule denies everything" };
    let ports_name = if kind == PolicyKind::ClusterNetworkPolicy { "protocols" } else { "ports" };
    if !notes.knows(at, &["name", "action", end.peers(), ports_name]) {
        return Rule { name, action, peers: Some(vec![Peer::Unintelligible]), ports: None };
    }
    let peers = peers(end, &at.place(end.peers()), notes);

    notes.effect = if accepts { "the entry matches no port" } else { "the rule denies to its peers whatever the port" };
    let ports = ports(kind, &at.place(ports_name), notes);
    if !accepts && ports.as_ref().is_some_and(|ports| ports.contains(&Ports::Nothing)) {
        return Rule { name, action: Action::Deny, peers: Some(peers), ports: None };
    }
    Rule { name, action, peers: Some(peers), ports }
}

fn action(kind: PolicyKind, at: &At<'_>, notes: &mut Notes) -> Action {
    let newer = kind == PolicyKind::ClusterNetworkPolicy;
    match at.text() {
        Some("Accept") if newer => Action::Accept,
        Some("Allow") if !newer => Action::Accept,
        Some("Deny") => Action::Deny,
        Some("Pass") if kind != PolicyKind::BaselineAdminNetworkPolicy => Action::Pass,
        _ => {
            notes.add(
                at,
                match kind {
                    PolicyKind::ClusterNetworkPolicy => "`Accept`, `Deny` or `Pass`",
                    PolicyKind::BaselineAdminNetworkPolicy => "`Allow` or `Deny`",
                    _ => "`Allow`, `Deny` or `Pass`",
                },
            );
            Action::Deny
        }
    }
}

fn deny_everything() -> Rule {
    Rule { name: String::new(), action: Action::Deny, peers: None, ports: None }
}

/// Leaves of a rule what refuses.
fn harden(rule: &mut Rule) {
    match rule.action {
        Action::Accept => rule.peers = Some(vec![Peer::Nothing]),
        Action::Pass => rule.action = Action::Deny,
        Action::Deny => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::model::Object;
    use super::super::{Read, read as read_object};
    use super::*;
    use crate::net::Protocol;

    fn policy(kind: &str, spec: &Value) -> (Policy, usize) {
        let version = if kind == "ClusterNetworkPolicy" { "v1alpha2" } else { "v1alpha1" };
        let version = format!("policy.networking.k8s.io/{version}");
        let value = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "p"}, "spec": spec});
        match read_object(&value).pop() {
            Some(Ok(Read::Object { object: Object::Policy(policy), remarks })) => (policy, remarks.len()),
            other => panic!("{other:?} of {value}"),
        }
    }

    /// A spec of three rules, with these fields in it or instead.
    fn spec(fields: &Value) -> Value {
        let rule = |action: &str| json!({"action": action, "from": [{"namespaces": {}}]});
        let rules = [rule("Accept"), rule("Deny"), rule("Pass")];
        let mut spec = json!({"tier": "Baseline", "priority": 7, "subject": {"namespaces": {}}, "ingress": rules});
        for (name, value) in fields.as_object().unwrap() {
            spec[name] = value.clone();
        }
        spec
    }

    fn everybody() -> Peer {
        Peer::Pods { namespaces: Selector::everything(), pods: Selector::everything() }
    }

    fn summary(rules: Option<&Vec<Rule>>) -> Vec<(Action, bool)> {
        rules
            .into_iter()
            .flatten()
            .map(|rule| (rule.action, rule.peers.as_ref().is_none_or(|peers| peers[0] == everybody())))
            .collect()
    }

    #[test]
    fn places_in_the_order() {
        let table = [
            ("ClusterNetworkPolicy", json!({}), (Tier::Baseline, 7, 0)),
            ("ClusterNetworkPolicy", json!({"tier": "Admin", "priority": 1000}), (Tier::Admin, 1000, 0)),
            ("AdminNetworkPolicy", json!({"tier": null, "ingress": [], "priority": 0}), (Tier::Admin, 0, 0)),
            ("BaselineAdminNetworkPolicy", json!({"tier": null, "ingress": [], "priority": null}), (Tier::Baseline, 1000, 0)),
            // Not understood: before all others.
            ("ClusterNetworkPolicy", json!({"tier": "admin"}), (Tier::Admin, 0, 1)),
            ("ClusterNetworkPolicy", json!({"tier": null}), (Tier::Admin, 0, 1)),
            ("ClusterNetworkPolicy", json!({"priority": 1001}), (Tier::Admin, 0, 1)),
            ("ClusterNetworkPolicy", json!({"priority": -1}), (Tier::Admin, 0, 1)),
            ("ClusterNetworkPolicy", json!({"priority": "7"}), (Tier::Admin, 0, 1)),
            ("AdminNetworkPolicy", json!({"tier": null, "ingress": [], "priority": null}), (Tier::Admin, 0, 1)),
        ];
        for (kind, fields, expected) in table {
            let (policy, remarks) = policy(kind, &spec(&fields));
            assert_eq!((policy.tier, policy.priority, remarks), expected, "{kind} {fields}");
        }
    }

    #[test]
    fn what_all_rules_depend_on_hardens_them() {
        let understood = [(Action::Accept, true), (Action::Deny, true), (Action::Pass, true)];
        let hardened = [(Action::Accept, false), (Action::Deny, true), (Action::Deny, true)];
        let pods = |fields: Value| json!({"subject": {"pods": fields}});
        let table = [
            (json!({}), 0),
            (json!({"subject": {"namespaces": null}}), 0),
            (json!({"subject": {"namespaces": {}, "pods": null}}), 0),
            (pods(json!({"namespaceSelector": {}, "podSelector": null})), 0),
            (pods(json!({"namespaceSelector": {}})), 1),
            (pods(json!({"namespaceSelector": {}, "podSelector": {}, "nodeSelector": {}})), 1),
            (json!({"subject": {"namespaces": {}, "pods": {"namespaceSelector": {}, "podSelector": {}}}}), 1),
            (json!({"subject": {}}), 1),
            (json!({"subject": null}), 1),
            (json!({"subject": {"planets": {}}}), 1),
            (json!({"subject": {"namespaces": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}}), 1),
            (json!({"tier": "Middle"}), 1),
            (json!({"priority": 1.5}), 1),
        ];
        for (fields, expected) in table {
            let (policy, remarks) = policy("ClusterNetworkPolicy", &spec(&fields));
            assert_eq!(policy.subject, Subject::Cluster { namespaces: Selector::everything(), pods: Selector::everything() });
            assert_eq!(summary(policy.ingress.as_ref()), if expected == 0 { understood } else { hardened }, "{fields}");
            assert_eq!((policy.egress, remarks), (None, expected), "{fields}");
        }
    }

    #[test]
    fn what_cannot_be_read_denies() {
        let all = Some(vec![deny_everything()]);
        for spec in [json!(null), json!(1), json!([])] {
            let (policy, remarks) = policy("ClusterNetworkPolicy", &spec);
            assert_eq!((&policy.ingress, &policy.egress, policy.tier, remarks), (&all, &all, Tier::Admin, 1), "{spec}");
        }
        let (closed, remarks) = policy("ClusterNetworkPolicy", &spec(&json!({"schedule": "weekends"})));
        assert_eq!((&closed.ingress, &closed.egress, closed.tier, remarks), (&all, &all, Tier::Baseline, 1));
        let (policy, remarks) = policy("ClusterNetworkPolicy", &spec(&json!({"ingress": {}, "egress": []})));
        assert_eq!((policy.ingress, policy.egress, remarks), (all, None, 1));
    }

    #[test]
    fn actions_are_those_of_the_kind() {
        let table = [
            ("ClusterNetworkPolicy", [("Accept", Action::Accept), ("Deny", Action::Deny), ("Pass", Action::Pass)]),
            ("AdminNetworkPolicy", [("Allow", Action::Accept), ("Deny", Action::Deny), ("Pass", Action::Pass)]),
            ("BaselineAdminNetworkPolicy", [("Allow", Action::Accept), ("Deny", Action::Deny), ("Pass", Action::Deny)]),
            ("ClusterNetworkPolicy", [("Allow", Action::Deny), ("deny", Action::Deny), ("", Action::Deny)]),
            ("AdminNetworkPolicy", [("Accept", Action::Deny), ("Log", Action::Deny), ("", Action::Deny)]),
        ];
        for (kind, actions) in table {
            for (word, action) in actions {
                let rule = json!([{"action": word, "name": "r", "from": [{"namespaces": {}}]}]);
                let mut spec = json!({"tier": "Admin", "priority": 7, "subject": {"namespaces": {}}, "ingress": rule});
                if kind != "ClusterNetworkPolicy" {
                    spec["tier"] = json!(null);
                }
                if kind == "BaselineAdminNetworkPolicy" {
                    spec["priority"] = json!(null);
                }
                let rules = policy(kind, &spec).0.ingress.unwrap();
                assert_eq!((rules[0].action, &*rules[0].name), (action, "r"), "{kind} {word}");
            }
        }
    }

    #[test]
    fn what_a_rule_does_not_understand_closes_it() {
        let (unclear, known) = (vec![Peer::Unintelligible], vec![everybody()]);
        let web = Ports::Numbers { protocol: Protocol::TCP, first: 80, last: 80 };
        let ok = json!({"tcp": {"destinationPort": {"number": 80}}});
        // The rule; its peers; its ports and its action if it accepts, passes.
        let table = [
            (json!({"protocols": [ok]}), &known, Some(vec![web.clone()]), Some(vec![web.clone()]), Action::Pass, 0),
            (json!({"protocols": null}), &known, None, None, Action::Pass, 0),
            (json!({"protocols": [ok, {"icmp": {}}]}), &known, Some(vec![web, Ports::Nothing]), None, Action::Deny, 1),
            (json!({"protocols": "tcp"}), &known, Some(vec![Ports::Nothing]), None, Action::Deny, 1),
            (json!({"ports": []}), &unclear, None, None, Action::Pass, 1),
            (json!({"from": null}), &unclear, None, None, Action::Pass, 1),
            (json!({"from": []}), &unclear, None, None, Action::Pass, 1),
            (json!({"from": [{"planets": {}}]}), &unclear, None, None, Action::Pass, 1),
            (json!({"to": [{"namespaces": {}}]}), &unclear, None, None, Action::Pass, 1),
        ];
        for (fields, peers, accepting, passing, passes, expected) in table {
            for (word, action, ports) in [("Accept", Action::Accept, accepting), ("Pass", passes, passing)] {
                let mut rule = json!({"action": word, "from": [{"namespaces": {}}]});
                fields.as_object().unwrap().iter().for_each(|(name, value)| rule[name] = value.clone());
                let (policy, remarks) = policy("ClusterNetworkPolicy", &spec(&json!({"ingress": [rule]})));
                let read = Rule { name: String::new(), action, peers: Some(peers.clone()), ports };
                assert_eq!((policy.ingress, remarks), (Some(vec![read]), expected), "{rule}");
            }
        }
    }
}
