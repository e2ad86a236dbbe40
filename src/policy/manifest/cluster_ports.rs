//! Protocols and ports in rules of the cluster's policies.

use super::super::model::{PolicyKind, Ports};
use super::at::At;
use super::port;
use super::remark::Notes;
use crate::net::Protocol;

/// What a rule restricts itself to; `None`: nothing. Entries that are not understood are [`Ports::Nothing`], and remarked on.
pub(super) fn ports(kind: PolicyKind, at: &At<'_>, notes: &mut Notes) -> Option<Vec<Ports>> {
    let read = if kind == PolicyKind::ClusterNetworkPolicy { protocol_entry } else { port_entry };
    let Some(items) = at.items() else {
        if at.value.is_null() {
            return None;
        }
        notes.add(at, "a list");
        return Some(vec![Ports::Nothing]);
    };
    let found: Vec<_> = items.map(|item| read(&item, notes).unwrap_or(Ports::Nothing)).collect();
    (!found.is_empty()).then_some(found)
}

/// The only field of an object, if it is one of these. `None`: not so, and remarked on.
fn only<'a>(at: &'a At<'a>, names: &[&str], notes: &mut Notes) -> Option<At<'a>> {
    if !notes.knows(at, names) {
        return None;
    }
    let mut fields = at.fields();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        notes.add(at, format!("exactly one of `{}`", names.join("`, `")));
        return None;
    };
    Some(field)
}

/// An entry of `protocols`, of v1alpha2.
fn protocol_entry(at: &At<'_>, notes: &mut Notes) -> Option<Ports> {
    let field = only(at, &["tcp", "udp", "sctp", "destinationNamedPort"], notes)?;
    let protocol = match field.name() {
        "tcp" => Protocol::TCP,
        "udp" => Protocol::UDP,
        "sctp" => Protocol::SCTP,
        _ => return Some(Ports::Named { name: port::name(&field, notes)?, protocol: None }),
    };
    if !notes.knows(&field, &["destinationPort"]) {
        return None;
    }
    let Some(destination) = field.field("destinationPort") else { return Some(port::all_of(protocol)) };
    let numbers = only(&destination, &["number", "range"], notes)?;
    let (first, last) = if numbers.name() == "number" {
        port::range(&numbers, &numbers, notes)?
    } else if notes.knows(&numbers, &["start", "end"]) {
        port::range(&numbers.place("start"), &numbers.place("end"), notes)?
    } else {
        return None;
    };
    Some(Ports::Numbers { protocol, first, last })
}

/// An entry of `ports`, of v1alpha1.
fn port_entry(at: &At<'_>, notes: &mut Notes) -> Option<Ports> {
    let field = only(at, &["portNumber", "portRange", "namedPort"], notes)?;
    let (known, first, last): (&[&str], _, _) = match field.name() {
        "portNumber" => (&["protocol", "port"], "port", "port"),
        "portRange" => (&["protocol", "start", "end"], "start", "end"),
        _ => return Some(Ports::Named { name: port::name(&field, notes)?, protocol: None }),
    };
    if !notes.knows(&field, known) {
        return None;
    }
    let protocol = port::protocol(&field.place("protocol"), notes)?;
    let (first, last) = port::range(&field.place(first), &field.place(last), notes)?;
    Some(Ports::Numbers { protocol, first, last })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::model::ObjectId;
    use super::*;

    fn check(kind: PolicyKind, value: &Value, expected: Option<&[Ports]>) {
        let mut notes = Notes::new(ObjectId::Node("n".into()));
        assert_eq!(ports(kind, &At::root(value), &mut notes).as_deref(), expected, "{value}");
        let nothing = expected.into_iter().flatten().filter(|ports| **ports == Ports::Nothing).count();
        assert_eq!(notes.into_remarks().len(), nothing, "{value}");
    }

    fn numbers(protocol: Protocol, first: u16, last: u16) -> Ports {
        Ports::Numbers { protocol, first, last }
    }

    #[test]
    fn protocols_of_v1alpha2() {
        let web = || Ports::Named { name: "web".into(), protocol: None };
        let table = [
            (json!({"tcp": {}}), numbers(Protocol::TCP, 0, 65535)),
            (json!({"udp": {"destinationPort": null}}), numbers(Protocol::UDP, 0, 65535)),
            (json!({"tcp": {"destinationPort": {"number": 80}}}), numbers(Protocol::TCP, 80, 80)),
            (json!({"sctp": {"destinationPort": {"range": {"start": 1, "end": 9}}}}), numbers(Protocol::SCTP, 1, 9)),
            (json!({"destinationNamedPort": "web", "tcp": null}), web()),
            (json!({}), Ports::Nothing),
            (json!({"icmp": {}}), Ports::Nothing),
            (json!({"tcp": {}, "udp": {}}), Ports::Nothing),
            (json!({"tcp": {"sourcePort": {"number": 80}}}), Ports::Nothing),
            (json!({"tcp": {"destinationPort": {}}}), Ports::Nothing),
            (json!({"tcp": {"destinationPort": {"number": 0}}}), Ports::Nothing),
            (json!({"tcp": {"destinationPort": {"number": 80, "range": {"start": 1, "end": 9}}}}), Ports::Nothing),
            (json!({"tcp": {"destinationPort": {"range": {"start": 9, "end": 1}}}}), Ports::Nothing),
            (json!({"tcp": {"destinationPort": {"range": {"start": 9}}}}), Ports::Nothing),
            (json!({"tcp": {"destinationPort": 80}}), Ports::Nothing),
            (json!({"tcp": 80}), Ports::Nothing),
            (json!({"destinationNamedPort": "80"}), Ports::Nothing),
            (json!({"portNumber": {"port": 80}}), Ports::Nothing),
            (json!(null), Ports::Nothing),
        ];
        for (value, expected) in table {
            check(PolicyKind::ClusterNetworkPolicy, &json!([value, {"destinationNamedPort": "web"}]), Some(&[expected, web()]));
        }
        check(PolicyKind::ClusterNetworkPolicy, &json!(null), None);
        check(PolicyKind::ClusterNetworkPolicy, &json!([]), None);
        check(PolicyKind::ClusterNetworkPolicy, &json!({}), Some(&[Ports::Nothing]));
    }

    #[test]
    fn ports_of_v1alpha1() {
        let table = [
            (json!({"portNumber": {"port": 80}}), numbers(Protocol::TCP, 80, 80)),
            (json!({"portNumber": {"protocol": "UDP", "port": 53}}), numbers(Protocol::UDP, 53, 53)),
            (json!({"portRange": {"protocol": "SCTP", "start": 1, "end": 9}}), numbers(Protocol::SCTP, 1, 9)),
            (json!({"namedPort": "web"}), Ports::Named { name: "web".into(), protocol: None }),
            (json!({"portNumber": {"protocol": "UDP"}}), Ports::Nothing),
            (json!({"portNumber": {"protocol": "IP", "port": 1}}), Ports::Nothing),
            (json!({"portRange": {"start": 10, "end": 9}}), Ports::Nothing),
            (json!({"portRange": {"start": 1, "end": 9, "step": 2}}), Ports::Nothing),
            (json!({"namedPort": 80}), Ports::Nothing),
            (json!({"namedPort": "web", "portNumber": {"port": 80}}), Ports::Nothing),
            (json!({"tcp": {}}), Ports::Nothing),
        ];
        for (value, expected) in table {
            check(PolicyKind::AdminNetworkPolicy, &json!([value]), Some(&[expected]));
        }
    }
}
