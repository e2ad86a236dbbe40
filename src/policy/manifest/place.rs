//! Namespaces and nodes: what says where pods are.

use std::net::IpAddr;

use super::super::model::{Labels, Namespace, Node};
use super::at::At;
use super::head::Head;
use super::remark::{ManifestError, Notes};
use super::selector::labels;

/// The label that an API server gives every namespace and keeps there.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Reads a namespace.
pub(super) fn namespace(head: &Head, root: &At<'_>) -> Result<Namespace, ManifestError> {
    let mut labels = metadata_labels(head, root)?;
    labels.insert(NAME_LABEL.to_owned(), head.name.clone());
    Ok(Namespace { name: head.name.clone(), labels })
}

/// Reads a node. Addresses that are no IP addresses, and kinds that are names, are left out.
pub(super) fn node(head: &Head, root: &At<'_>, notes: &mut Notes) -> Result<Node, ManifestError> {
    notes.effect = "the address is ignored";
    let status = root.place("status");
    let list = status.place("addresses");
    let mut addresses = Vec::new();
    for item in list.items().into_iter().flatten() {
        if matches!(item.place("type").text(), Some("InternalIP" | "ExternalIP")) {
            addresses.extend(address(&item.place("address"), notes).filter(|address| !addresses.contains(address)));
        }
    }
    Ok(Node { name: head.name.clone(), labels: metadata_labels(head, root)?, addresses })
}

/// An IP address. `None`: it is none, and that is remarked on.
pub(super) fn address(at: &At<'_>, notes: &mut Notes) -> Option<IpAddr> {
    let address = at.text().and_then(|text| text.parse::<IpAddr>().ok());
    if address.is_none() {
        notes.add(at, "an IP address");
    }
    address.map(|address| address.to_canonical())
}

/// An object's labels. Without them nobody can say which policies speak of it, so they have to be readable.
pub(super) fn metadata_labels(head: &Head, root: &At<'_>) -> Result<Labels, ManifestError> {
    let metadata = root.place("metadata");
    let at = metadata.place("labels");
    labels(&at).map_err(|at| head.unreadable(&at, "labels: texts by name"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::model::Object;
    use super::super::{Read, read};
    use super::*;

    fn object(value: &serde_json::Value) -> (Object, usize) {
        match read(value).pop() {
            Some(Ok(Read::Object { object, remarks })) => (object, remarks.len()),
            other => panic!("{other:?} of {value}"),
        }
    }

    #[test]
    fn a_namespace_has_its_name_among_its_labels() {
        for labels in [json!(null), json!({}), json!({NAME_LABEL: "other"})] {
            let value = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "red", "labels": labels}});
            let labels = Labels::from([(NAME_LABEL.to_owned(), "red".to_owned())]);
            assert_eq!(object(&value), (Object::Namespace(Namespace { name: "red".into(), labels }), 0));
        }
    }

    #[test]
    fn a_node_has_the_addresses_that_are_addresses() {
        let value = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"a": "b"}}, "status": {
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "10.0.0.9"},
            {"type": "InternalIP", "address": "fd00::1"}, {"type": "ExternalIP", "address": "::ffff:192.0.2.1"},
            {"type": "InternalIP", "address": "10.0.0.1/8"}, {"type": "InternalIP"}, 7
        ]}});
        let addresses = ["10.0.0.1", "fd00::1", "192.0.2.1"].map(|text| text.parse().unwrap()).to_vec();
        let labels = Labels::from([("a".to_owned(), "b".to_owned())]);
        assert_eq!(object(&value), (Object::Node(Node { name: "n".into(), labels, addresses }), 2));
    }

    #[test]
    fn unreadable_labels_make_an_object_unknown() {
        for kind in ["Namespace", "Node", "Pod"] {
            let value = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "n", "labels": {"a": 1}}});
            let error = read(&value).pop().unwrap().unwrap_err();
            assert!(error.object().is_some() && error.to_string().contains("`metadata.labels.a`"), "{error}");
        }
    }
}
