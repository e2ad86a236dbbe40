//! Peers and ports of a `NetworkPolicy`'s rules.

use super::super::model::{Peer, Ports, Selector};
use super::at::At;
use super::block::block;
use super::port;
use super::remark::Notes;
use super::selector::selector;

/// One entry of `from` or `to`.
pub(super) fn peer(at: &At<'_>, notes: &mut Notes) -> Peer {
    notes.effect = "the peer matches nobody";
    if !notes.knows(at, &["podSelector", "namespaceSelector", "ipBlock"]) {
        return Peer::Unintelligible;
    }
    let mut understood = |at: At<'_>| selector(&at, notes).unwrap_or(Selector::Nothing);
    match (at.field("podSelector"), at.field("namespaceSelector"), at.field("ipBlock")) {
        (Some(pods), None, None) => Peer::Own(understood(pods)),
        (None, Some(namespaces), None) => Peer::Pods { namespaces: understood(namespaces), pods: Selector::everything() },
        (Some(pods), Some(namespaces), None) => Peer::Pods { namespaces: understood(namespaces), pods: understood(pods) },
        (None, None, Some(at)) => block(&at, notes).map_or(Peer::Nothing, Peer::Block),
        (None, None, None) => {
            notes.add(at, "`podSelector`, `namespaceSelector` or `ipBlock`");
            Peer::Nothing
        }
        (_, _, Some(block)) => {
            notes.add(&block, "either `ipBlock` or selectors, not both");
            Peer::Nothing
        }
    }
}

/// One entry of `ports`.
pub(super) fn ports(at: &At<'_>, notes: &mut Notes) -> Ports {
    notes.effect = "the entry matches no port";
    if !notes.knows(at, &["protocol", "port", "endPort"]) {
        return Ports::Nothing;
    }
    understood_ports(at, notes).unwrap_or(Ports::Nothing)
}

fn understood_ports(at: &At<'_>, notes: &mut Notes) -> Option<Ports> {
    let protocol = port::protocol(&at.place("protocol"), notes)?;
    let (port, end) = (at.place("port"), at.place("endPort"));
    if !port.value.is_null() && !port.value.is_string() {
        let end = if end.value.is_null() { &port } else { &end };
        let (first, last) = port::range(&port, end, notes)?;
        return Some(Ports::Numbers { protocol, first, last });
    }
    if !end.value.is_null() {
        notes.add(&end, "no `endPort` without a number as `port`");
        return None;
    }
    if port.value.is_null() {
        return Some(port::all_of(protocol));
    }
    Some(Ports::Named { name: port::name(&port, notes)?, protocol: Some(protocol) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::model::{Block, ObjectId, Requirement};
    use super::*;
    use crate::net::Protocol;

    fn notes() -> Notes {
        Notes::new(ObjectId::Node("n".into()))
    }

    #[test]
    fn peers() {
        let a = || Selector::All(vec![Requirement::In("a".into(), ["b".to_owned()].into())]);
        let (labelled, wrong) = (json!({"matchLabels": {"a": "b"}}), json!({"matchLabel": {"a": "b"}}));
        let pods = |namespaces, pods| Peer::Pods { namespaces, pods };
        let block = Block::V4 { cidr: "10.0.0.0/8".parse().unwrap(), except: vec![] };
        let table = [
            (json!({"podSelector": labelled}), Peer::Own(a()), 0),
            (json!({"podSelector": {}}), Peer::Own(Selector::everything()), 0),
            (json!({"podSelector": labelled, "namespaceSelector": null}), Peer::Own(a()), 0),
            (json!({"namespaceSelector": labelled}), pods(a(), Selector::everything()), 0),
            (json!({"namespaceSelector": {}, "podSelector": labelled}), pods(Selector::everything(), a()), 0),
            (json!({"ipBlock": {"cidr": "10.0.0.0/8"}}), Peer::Block(block), 0),
            (json!({"podSelector": wrong}), Peer::Own(Selector::Nothing), 1),
            (json!({"namespaceSelector": wrong, "podSelector": {}}), pods(Selector::Nothing, Selector::everything()), 1),
            (json!({"ipBlock": {"cidr": "10.0.0.0"}}), Peer::Nothing, 1),
            (json!({"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}), Peer::Nothing, 1),
            (json!({}), Peer::Nothing, 1),
            (json!({"podSelector": null}), Peer::Nothing, 1),
            (json!({"podSelector": {}, "planets": {}}), Peer::Unintelligible, 1),
            (json!({"planets": null}), Peer::Nothing, 1),
            (json!(null), Peer::Unintelligible, 1),
            (json!("all"), Peer::Unintelligible, 1),
        ];
        for (value, expected, remarks) in table {
            let mut notes = notes();
            assert_eq!(peer(&At::root(&value), &mut notes), expected, "{value}");
            assert_eq!(notes.into_remarks().len(), remarks, "{value}");
        }
    }

    #[test]
    fn port_entries() {
        let numbers = |protocol, first, last| Ports::Numbers { protocol, first, last };
        let named = |name: &str, protocol| Ports::Named { name: name.into(), protocol: Some(protocol) };
        let table = [
            (json!({}), numbers(Protocol::TCP, 0, 65535)),
            (json!({"protocol": null, "port": null, "endPort": null}), numbers(Protocol::TCP, 0, 65535)),
            (json!({"protocol": "SCTP"}), numbers(Protocol::SCTP, 0, 65535)),
            (json!({"port": 1}), numbers(Protocol::TCP, 1, 1)),
            (json!({"port": 65535, "protocol": "UDP"}), numbers(Protocol::UDP, 65535, 65535)),
            (json!({"port": 1024, "endPort": 32768}), numbers(Protocol::TCP, 1024, 32768)),
            (json!({"port": 80, "endPort": 80}), numbers(Protocol::TCP, 80, 80)),
            (json!({"port": "web"}), named("web", Protocol::TCP)),
            (json!({"port": "p-53-udp", "protocol": "UDP"}), named("p-53-udp", Protocol::UDP)),
            (json!({"port": 0}), Ports::Nothing),
            (json!({"port": 70_000}), Ports::Nothing),
            (json!({"port": -1}), Ports::Nothing),
            (json!({"port": 80.5}), Ports::Nothing),
            (json!({"port": [80]}), Ports::Nothing),
            (json!({"port": "80"}), Ports::Nothing),
            (json!({"port": ""}), Ports::Nothing),
            (json!({"port": 80, "endPort": 79}), Ports::Nothing),
            (json!({"port": 80, "endPort": 70_000}), Ports::Nothing),
            (json!({"port": 80, "endPort": "90"}), Ports::Nothing),
            (json!({"port": "web", "endPort": 90}), Ports::Nothing),
            (json!({"endPort": 90}), Ports::Nothing),
            (json!({"protocol": "tcp"}), Ports::Nothing),
            (json!({"protocol": "ICMP"}), Ports::Nothing),
            (json!({"protocol": 6}), Ports::Nothing),
            (json!({"port": 80, "startPort": 1}), Ports::Nothing),
            (json!(80), Ports::Nothing),
            (json!(null), Ports::Nothing),
        ];
        for (value, expected) in table {
            let mut notes = notes();
            assert_eq!(ports(&At::root(&value), &mut notes), expected, "{value}");
            assert_eq!(notes.into_remarks().len(), usize::from(expected == Ports::Nothing), "{value}");
        }
    }
}
