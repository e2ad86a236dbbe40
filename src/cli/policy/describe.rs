//! Policies and their rules in a few words, after their manifests: `ingress[0] accepts from pods of shop with app=web, on TCP/5432`.

use std::fmt::Display;

use crate::policy::Direction;
use crate::policy::model::{Action, Block, Peer, Policy, Ports, Requirement, Rule, Selector, Tier};

/// Alternatives written out; of more there is a count.
const MOST: usize = 4;

/// What a policy is to a pod that it is about.
pub fn policy(policy: &Policy, direction: Direction) -> String {
    let (rules, name) = match direction {
        Direction::Ingress => (&policy.ingress, "ingress"),
        Direction::Egress => (&policy.egress, "egress"),
    };
    let none = if rules.as_ref().is_none_or(Vec::is_empty) { format!(", and has no {name} rules") } else { String::new() };
    match policy.tier {
        Tier::NetworkPolicy => format!("{} isolates it{none}", title(policy)),
        tier => format!("{} is about it, in the {tier} tier with priority {}{none}", title(policy), policy.priority),
    }
}

/// Kind and name of a policy.
pub fn title(policy: &Policy) -> String {
    let Policy { kind, namespace, name, .. } = policy;
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// A rule of a policy, by its place in the manifest.
pub fn rule(policy: &Policy, direction: Direction, number: usize) -> String {
    let (rules, name, towards) = match direction {
        Direction::Ingress => (&policy.ingress, "ingress", "from"),
        Direction::Egress => (&policy.egress, "egress", "to"),
    };
    let place = format!("{name}[{number}]");
    let Some(rule) = rules.as_ref().and_then(|rules| rules.get(number)) else { return place };
    let Rule { name, action, peers, ports } = rule;
    let name = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
    let does = match action {
        Action::Accept => "accepts",
        Action::Deny => "denies",
        Action::Pass => "passes",
    };
    let peers =
        peers.as_ref().map_or_else(|| "anybody".to_owned(), |all| either(all, |one| peer(one, &policy.namespace), "nobody"));
    let ports = ports.as_ref().map_or_else(|| "any port".to_owned(), |all| either(all, port, "no port"));
    format!("{place}{name} {does} {towards} {peers}, on {ports}")
}

fn peer(peer: &Peer, own: &str) -> String {
    match peer {
        Peer::Own(pods) => format!("{} of {own}", some("pods", pods)),
        Peer::Pods { namespaces, pods } if *namespaces == Selector::everything() => {
            format!("{} of any namespace", some("pods", pods))
        }
        Peer::Pods { namespaces, pods } => format!("{} of {}", some("pods", pods), some("namespaces", namespaces)),
        Peer::Block(Block::V4 { cidr, except }) => block(cidr, except),
        Peer::Block(Block::V6 { cidr, except }) => block(cidr, except),
        Peer::Nodes(nodes) => some("nodes", nodes),
        Peer::Nothing => "nobody".to_owned(),
        Peer::Unintelligible => "a peer that was not understood".to_owned(),
    }
}

fn block(cidr: &impl Display, except: &[impl Display]) -> String {
    if except.is_empty() { cidr.to_string() } else { format!("{cidr} but {}", either(except, ToString::to_string, "")) }
}

fn port(ports: &Ports) -> String {
    match ports {
        Ports::Numbers { protocol, first: 0, .. } => format!("any {protocol} port"),
        Ports::Numbers { protocol, first, last } if first == last => format!("{protocol}/{first}"),
        Ports::Numbers { protocol, first, last } => format!("{protocol}/{first}-{last}"),
        Ports::Named { name, protocol: Some(protocol) } => format!("{protocol} port `{name}`"),
        Ports::Named { name, protocol: None } => format!("port `{name}`"),
        Ports::Nothing => "a port that was not understood".to_owned(),
    }
}

fn some(what: &str, selector: &Selector) -> String {
    match selector {
        Selector::All(requirements) if requirements.is_empty() => format!("all {what}"),
        Selector::All(requirements) => {
            let each: Vec<String> = requirements.iter().map(requirement).collect();
            format!("{what} with {}", each.join(" and "))
        }
        Selector::Nothing => format!("no {what}, by a selector that was not understood"),
    }
}

fn requirement(requirement: &Requirement) -> String {
    let list = |values: &std::collections::BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(", ");
    match requirement {
        Requirement::In(key, values) if values.len() == 1 => format!("{key}={}", list(values)),
        Requirement::In(key, values) => format!("{key} in ({})", list(values)),
        Requirement::NotIn(key, values) if values.len() == 1 => format!("{key}!={}", list(values)),
        Requirement::NotIn(key, values) => format!("{key} not in ({})", list(values)),
        Requirement::Exists(key) => key.clone(),
        Requirement::DoesNotExist(key) => format!("!{key}"),
    }
}

fn either<T>(all: &[T], say: impl Fn(&T) -> String, none: &str) -> String {
    if all.is_empty() {
        return none.to_owned();
    }
    let mut each: Vec<String> = Vec::new();
    for text in all.iter().map(say) {
        // What reads alike need not be read twice.
        if !each.contains(&text) {
            each.push(text);
        }
    }
    let more = each.len().saturating_sub(MOST);
    each.truncate(MOST);
    if more > 0 {
        each.push(format!("{more} more"));
    }
    each.join(" or ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::manifest::{Read, read};
    use crate::policy::model::Object;

    fn policy_of(value: &serde_json::Value) -> Policy {
        match read(value).pop() {
            Some(Ok(Read::Object { object: Object::Policy(policy), .. })) => policy,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rules_read_as_sentences() {
        let found = policy_of(&json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "db", "namespace": "shop"},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [
                {"from": [{"podSelector": {"matchLabels": {"app": "web"}}},
                          {"podSelector": {}, "namespaceSelector": {"matchExpressions": [
                              {"key": "team", "operator": "NotIn", "values": ["a", "b"]}, {"key": "old", "operator": "DoesNotExist"}]}}],
                 "ports": [{"port": "sql"}, {"port": 80, "endPort": 90}, {"protocol": "UDP"}]},
                {},
                {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}, {"namespaceSelector": {}}], "ports": [{"port": 1}]},
            ]},
        }));
        let says: Vec<String> = (0..3).map(|number| rule(&found, Direction::Ingress, number)).collect();
        assert_eq!(
            says,
            [
                "ingress[0] accepts from pods with app=web of shop or all pods of namespaces with team not in (a, b) and !old, \
             on TCP port `sql` or TCP/80-90 or any UDP port",
                "ingress[1] accepts from anybody, on any port",
                "ingress[2] accepts from 10.0.0.0/8 but 10.1.0.0/16 or all pods of any namespace, on TCP/1",
            ]
        );
        assert_eq!(policy(&found, Direction::Ingress), "NetworkPolicy shop/db isolates it");
        assert_eq!(policy(&found, Direction::Egress), "NetworkPolicy shop/db isolates it, and has no egress rules");
    }

    #[test]
    fn long_lists_are_counted() {
        let numbers: Vec<u32> = (0..9).collect();
        assert_eq!(either(&numbers, ToString::to_string, "none"), "0 or 1 or 2 or 3 or 5 more");
        assert_eq!(either(&[1, 1, 1], ToString::to_string, "none"), "1");
    }
}
