//! A refused flow, in words.

use std::net::{IpAddr, SocketAddr};

use crate::net::address_of;
use crate::policy::{Cause, Policies, RefusalEvent};

/// What is said of a refused flow.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    /// TCP, UDP, …
    pub protocol: String,
    /// Who it came from.
    pub from: String,
    /// Who it was to go to.
    pub to: String,
    /// The destination's port; 0 where there are none.
    pub port: u16,
    /// Whose rules refused it: those for what leaves the source, those for what comes to the destination, or both.
    pub direction: &'static str,
    /// Which policies, or what else.
    pub by: String,
}

impl Words {
    /// The words for `event`. Without `policies`, which have to be those that refused it, names are left out.
    pub(super) fn of(event: &RefusalEvent, policies: Option<&Policies>) -> Self {
        let key = &event.key;
        let named = |bits, port| {
            let address = address_of(bits);
            let place = place(address, key.protocol.has_ports().then_some(port));
            policies.and_then(|policies| policies.name_of(address)).map_or(place.clone(), |id| format!("{id} {place}"))
        };
        let (egress, ingress) = (event.refused.egress, event.refused.ingress);
        let said = [("egress", egress), ("ingress", ingress)].into_iter();
        let said = said.filter_map(|(direction, cause)| Some(cause_in_words(direction, cause?, policies)));
        Self {
            protocol: key.protocol.to_string(),
            from: named(key.source, key.source_port),
            to: named(key.destination, key.destination_port),
            port: if key.protocol.has_ports() { key.destination_port } else { 0 },
            direction: match (egress, ingress) {
                (Some(_), Some(_)) => "egress and ingress",
                (Some(_), None) => "egress",
                _ => "ingress",
            },
            by: said.collect::<Vec<_>>().join(" and "),
        }
    }
}

fn place(address: IpAddr, port: Option<u16>) -> String {
    port.map_or_else(|| address.to_string(), |port| SocketAddr::new(address, port).to_string())
}

fn cause_in_words(direction: &str, cause: Cause, policies: Option<&Policies>) -> String {
    let name = |number| {
        let id = policies.and_then(|policies| policies.policy(number));
        id.map_or_else(|| "a policy that has changed since".to_owned(), ToString::to_string)
    };
    match cause {
        Cause::Unsynced => "policy not synced".to_owned(),
        Cause::UnknownPod => "unknown pod".to_owned(),
        Cause::Isolated(policy) => format!("isolation by {}", name(policy)),
        Cause::Denied(policy, rule) => format!("{} {direction}[{rule}]", name(policy)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{FlowKey, Protocol};
    use crate::policy::model::{Object, Pod, Policy, PolicyKind, Selector, Subject, Tier};
    use crate::policy::{Change, Cluster, Refused, Scope, Verdict};

    fn pod(name: &str, address: &str) -> Object {
        Object::Pod(Pod {
            namespace: "default".into(),
            name: name.into(),
            uid: String::new(),
            labels: std::iter::once(("app".to_owned(), name.to_owned())).collect(),
            addresses: vec![address.parse().unwrap()],
            ports: Vec::new(),
            node: "n1".into(),
            host_network: false,
            finished: false,
            running: true,
        })
    }

    fn deny_all() -> Object {
        Object::Policy(Policy {
            kind: PolicyKind::NetworkPolicy,
            namespace: "default".into(),
            name: "deny".into(),
            tier: Tier::NetworkPolicy,
            priority: 0,
            subject: Subject::Own(Selector::everything()),
            ingress: Some(Vec::new()),
            egress: None,
        })
    }

    fn event(protocol: Protocol, refused: Refused, version: u64) -> RefusalEvent {
        let key = FlowKey::new(protocol, ("10.5.1.2".parse().unwrap(), 40_000), ("10.5.1.3".parse().unwrap(), 80));
        RefusalEvent { key, refused, version, opens: true }
    }

    #[test]
    fn a_line_says_who_whom_and_why() {
        let mut cluster = Cluster::new(Scope::default());
        for object in [pod("a", "10.5.1.2"), pod("b", "10.5.1.3"), deny_all()] {
            cluster.apply(Change::Put(object));
        }
        let policies = cluster.compile();
        let refused = match policies.verdict(&event(Protocol::TCP, Refused::default(), 0).key) {
            Verdict::Refused(refused) => refused,
            Verdict::Allowed => panic!("expected a refusal"),
        };
        let words = Words::of(&event(Protocol::TCP, refused, policies.version()), Some(&policies));
        assert_eq!(
            words,
            Words {
                protocol: "TCP".into(),
                from: "Pod default/a 10.5.1.2:40000".into(),
                to: "Pod default/b 10.5.1.3:80".into(),
                port: 80,
                direction: "ingress",
                by: "isolation by NetworkPolicy default/deny".into(),
            }
        );
    }

    #[test]
    fn without_the_snapshot_there_are_no_names() {
        let refused = Refused { egress: Some(Cause::Denied(3, 1)), ingress: Some(Cause::UnknownPod) };
        let words = Words::of(&event(Protocol::ICMP, refused, 9), None);
        assert_eq!((words.from.as_str(), words.to.as_str(), words.port), ("10.5.1.2", "10.5.1.3", 0));
        assert_eq!(words.direction, "egress and ingress");
        assert_eq!(words.by, "a policy that has changed since egress[1] and unknown pod");
        let unsynced = Refused { egress: Some(Cause::Unsynced), ingress: None };
        let words = Words::of(&event(Protocol::UDP, unsynced, 0), None);
        assert_eq!((words.direction, words.by.as_str()), ("egress", "policy not synced"));
    }
}
