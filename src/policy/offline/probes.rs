//! The probes of a matrix for which nobody asked: the ports that policies and pods name.

use std::collections::BTreeSet;

use super::Probe;
use crate::net::Protocol;
use crate::policy::model::{Object, Policy, Ports};

/// What is always asked.
const ALWAYS: Probe = Probe { protocol: Protocol::TCP, port: 80 };

/// TCP/80, then the ports that policies name, then the named ports of pods, each once, in ascending order; at most `most`. Also how many
/// were left out.
#[must_use]
pub fn usual_probes<'a>(objects: impl IntoIterator<Item = &'a Object>, most: usize) -> (Vec<Probe>, usize) {
    let (mut by_policies, mut by_pods) = (BTreeSet::new(), BTreeSet::new());
    for object in objects {
        match object {
            Object::Policy(policy) => by_policies.extend(named(policy)),
            Object::Pod(pod) => by_pods.extend(pod.ports.iter().map(|port| Probe { protocol: port.protocol, port: port.number })),
            Object::Namespace(_) | Object::Node(_) => {}
        }
    }
    let mut probes = vec![ALWAYS];
    for probe in by_policies.into_iter().chain(by_pods) {
        if !probes.contains(&probe) && probe.port > 0 && probe.protocol.has_ports() {
            probes.push(probe);
        }
    }
    let left_out = probes.len().saturating_sub(most);
    probes.truncate(most);
    (probes, left_out)
}

/// The ports that a policy names by number; of a range the first.
fn named(policy: &Policy) -> impl Iterator<Item = Probe> {
    let rules = [&policy.ingress, &policy.egress].into_iter().flatten().flatten();
    rules.filter_map(|rule| rule.ports.as_ref()).flatten().filter_map(|ports| match ports {
        Ports::Numbers { protocol, first, .. } => Some(Probe { protocol: *protocol, port: *first }),
        Ports::Named { .. } | Ports::Nothing => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::{Action, Labels, Pod, PodPort, PolicyKind, Rule, Selector, Subject, Tier};

    fn policy(ports: Vec<Ports>) -> Object {
        let rule = Rule { name: String::new(), action: Action::Accept, peers: None, ports: Some(ports) };
        Object::Policy(Policy {
            kind: PolicyKind::NetworkPolicy,
            namespace: "shop".into(),
            name: "p".into(),
            tier: Tier::NetworkPolicy,
            priority: 0,
            subject: Subject::Own(Selector::everything()),
            ingress: None,
            egress: Some(vec![rule]),
        })
    }

    fn pod(ports: &[(Protocol, u16)]) -> Object {
        let ports = ports.iter().map(|(protocol, number)| PodPort { name: "a".into(), protocol: *protocol, number: *number });
        Object::Pod(Pod {
            namespace: "shop".into(),
            name: "web".into(),
            uid: String::new(),
            labels: Labels::new(),
            addresses: Vec::new(),
            ports: ports.collect(),
            node: String::new(),
            host_network: false,
            finished: false,
            running: true,
        })
    }

    fn text(objects: &[Object], most: usize) -> (String, usize) {
        let (probes, left_out) = usual_probes(objects, most);
        (probes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "), left_out)
    }

    #[test]
    fn ports_that_decide_come_first() {
        let numbers = |protocol, first, last| Ports::Numbers { protocol, first, last };
        let ports = vec![
            numbers(Protocol::UDP, 53, 53),
            numbers(Protocol::TCP, 8000, 8100),
            numbers(Protocol::TCP, 80, 80),
            numbers(Protocol::SCTP, 0, u16::MAX),
            Ports::Named { name: "web".into(), protocol: None },
            Ports::Nothing,
        ];
        let objects = [pod(&[(Protocol::TCP, 443), (Protocol::UDP, 53)]), policy(ports)];
        assert_eq!(text(&objects, 8), ("TCP/80 TCP/8000 UDP/53 TCP/443".into(), 0));
        assert_eq!(text(&objects, 3), ("TCP/80 TCP/8000 UDP/53".into(), 1));
        assert_eq!(text(&[], 8), ("TCP/80".into(), 0));
    }
}
