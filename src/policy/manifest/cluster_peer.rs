//! Peers of the cluster's policies, and the pairs of selectors that they share with subjects.

use super::super::model::{Peer, Selector};
use super::at::At;
use super::block::network;
use super::remark::Notes;
use super::selector::selector;

/// Which side of its pods a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Who comes to them.
    Ingress,
    /// To whom they go.
    Egress,
}

impl End {
    /// The field of the spec that has the rules.
    pub(super) const fn rules(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }

    /// The field of a rule that has the peers.
    pub(super) const fn peers(self) -> &'static str {
        match self {
            Self::Ingress => "from",
            Self::Egress => "to",
        }
    }
}

/// The peers of a rule. There has to be one: a rule without is not understood.
pub(super) fn peers(end: End, at: &At<'_>, notes: &mut Notes) -> Vec<Peer> {
    let mut found = Vec::new();
    for item in at.items().into_iter().flatten() {
        if peer(end, &item, &mut found, notes).is_none() {
            found.push(Peer::Unintelligible);
        }
    }
    if found.is_empty() {
        notes.add(at, "a list of peers, one at least");
        found.push(Peer::Unintelligible);
    }
    found
}

/// One peer, which may be several blocks. `None`: not understood, and remarked on.
fn peer(end: End, at: &At<'_>, found: &mut Vec<Peer>, notes: &mut Notes) -> Option<()> {
    let names: &[&str] = match end {
        End::Ingress => &["namespaces", "pods"],
        End::Egress => &["namespaces", "pods", "networks", "nodes"],
    };
    if !notes.knows(at, names) {
        return None;
    }
    let mut fields = at.fields();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        notes.add(at, "exactly one kind of peer");
        return None;
    };
    match field.name() {
        "namespaces" => found.push(Peer::Pods { namespaces: selector(&field, notes)?, pods: Selector::everything() }),
        "pods" => {
            let (namespaces, pods) = pods(&field, notes)?;
            found.push(Peer::Pods { namespaces, pods });
        }
        "nodes" => found.push(Peer::Nodes(selector(&field, notes)?)),
        _ => {
            let blocks = field.items().into_iter().flatten().map(|item| network(&item, notes)).collect::<Option<Vec<_>>>()?;
            if blocks.is_empty() {
                notes.add(&field, "a list of CIDR blocks, one at least");
                return None;
            }
            found.extend(blocks.into_iter().map(Peer::Block));
        }
    }
    Some(())
}

/// Selectors of namespaces and of pods in them; both have to be there, if only as `null`. `None`: not understood, and remarked on.
pub(super) fn pods(at: &At<'_>, notes: &mut Notes) -> Option<(Selector, Selector)> {
    let names = ["namespaceSelector", "podSelector"];
    if !notes.knows(at, &names) {
        return None;
    }
    if let Some(missing) = names.iter().find(|name| at.value.get(name).is_none()) {
        notes.add(&at.place(missing), "a selector, if only `{}`");
        return None;
    }
    Some((selector(&at.place(names[0]), notes)?, selector(&at.place(names[1]), notes)?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::model::{Block, ObjectId, Requirement};
    use super::*;

    fn check(end: End, value: &Value, expected: &[Peer], remarks: usize) {
        let mut notes = Notes::new(ObjectId::Node("n".into()));
        assert_eq!(peers(end, &At::root(&json!([value])), &mut notes), expected, "{end:?} {value}");
        assert_eq!(notes.into_remarks().len(), remarks, "{end:?} {value}");
    }

    #[test]
    fn peers_of_both_ends() {
        let labelled = json!({"matchLabels": {"a": "b"}});
        let a = || Selector::All(vec![Requirement::In("a".into(), ["b".to_owned()].into())]);
        let block = |cidr: &str| Peer::Block(Block::V4 { cidr: cidr.parse().unwrap(), except: vec![] });
        let pods = |namespaces, pods| vec![Peer::Pods { namespaces, pods }];
        let unclear = || vec![Peer::Unintelligible];
        // The peer, read as one of egress and as one of ingress, and how many remarks each makes.
        let table = [
            (json!({"namespaces": labelled}), pods(a(), Selector::everything()), 0, true),
            (json!({"namespaces": {}, "pods": null}), pods(Selector::everything(), Selector::everything()), 0, true),
            (json!({"pods": {"namespaceSelector": labelled, "podSelector": {}}}), pods(a(), Selector::everything()), 0, true),
            (json!({"pods": {"namespaceSelector": null, "podSelector": labelled}}), pods(Selector::everything(), a()), 0, true),
            (json!({"networks": ["10.0.0.0/8", "11.1.1.1/8"]}), vec![block("10.0.0.0/8"), block("11.0.0.0/8")], 0, false),
            (json!({"nodes": labelled}), vec![Peer::Nodes(a())], 0, false),
            (json!({"pods": {"podSelector": {}}}), unclear(), 1, true),
            (json!({"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": 1}}}), unclear(), 1, true),
            (json!({"namespaces": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}), unclear(), 1, true),
            (json!({"namespaces": {}, "pods": {"namespaceSelector": {}, "podSelector": {}}}), unclear(), 1, true),
            (json!({"networks": []}), unclear(), 1, true),
            (json!({"networks": "10.0.0.0/8"}), unclear(), 1, true),
            (json!({"networks": ["10.0.0.0/8", "x"]}), unclear(), 1, true),
            (json!({"domainNames": ["example.org"]}), unclear(), 1, true),
            (json!({"planets": {}}), unclear(), 1, true),
            (json!({"namespaces": {}, "planets": {}}), unclear(), 1, true),
            (json!({}), unclear(), 1, true),
            (json!({"namespaces": null}), unclear(), 1, true),
            (json!(null), unclear(), 1, true),
        ];
        for (value, expected, remarks, same) in table {
            check(End::Egress, &value, &expected, remarks);
            if same {
                check(End::Ingress, &value, &expected, remarks);
            } else {
                check(End::Ingress, &value, &unclear(), 1);
            }
        }
    }
}
