//! Pods, as far as policy is concerned: who they are, where, and what their ports are called.

use super::super::model::{Pod, PodPort};
use super::at::At;
use super::head::Head;
use super::place::{address, metadata_labels};
use super::port;
use super::remark::{ManifestError, Notes};

/// Reads a pod. A deletion time changes nothing: until it is gone it is who it was.
///
/// # Errors
/// When its labels, or whether it is on its host's network, cannot be read: who it is would be a guess.
pub(super) fn read(head: &Head, root: &At<'_>, notes: &mut Notes) -> Result<Pod, ManifestError> {
    let (metadata, spec, status) = (root.place("metadata"), root.place("spec"), root.place("status"));
    let host_network = spec.place("hostNetwork");
    let host_network = match host_network.value.as_bool() {
        None if !host_network.value.is_null() => return Err(head.unreadable(&host_network, "true or false")),
        given => given.unwrap_or(false),
    };
    let text = |at: At<'_>| at.text().unwrap_or_default().to_owned();
    let phase = status.place("phase");
    Ok(Pod {
        namespace: head.namespace.clone(),
        name: head.name.clone(),
        uid: text(metadata.place("uid")),
        labels: metadata_labels(head, root)?,
        addresses: addresses(&status, notes),
        ports: ports(&spec, notes),
        node: text(spec.place("nodeName")),
        host_network,
        finished: matches!(phase.text(), Some("Succeeded" | "Failed")),
        running: phase.text() == Some("Running"),
    })
}

fn addresses(status: &At<'_>, notes: &mut Notes) -> Vec<std::net::IpAddr> {
    notes.effect = "the address is ignored";
    let mut found = Vec::new();
    let one = status.field("podIP").filter(|at| at.text() != Some(""));
    let list = status.place("podIPs");
    let several = list.items().into_iter().flatten().filter_map(|item| address(&item.place("ip"), notes));
    for address in several.collect::<Vec<_>>().into_iter().chain(one.and_then(|at| address(&at, notes))) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// The named ports of all containers, and of init containers that go on running beside them.
fn ports(spec: &At<'_>, notes: &mut Notes) -> Vec<PodPort> {
    notes.effect = "the port has no name";
    let mut found = Vec::new();
    let (containers, before) = (spec.place("containers"), spec.place("initContainers"));
    let stays = |container: &At<'_>| container.place("restartPolicy").text() == Some("Always");
    let before = before.items().into_iter().flatten().filter(stays);
    for container in containers.items().into_iter().flatten().chain(before) {
        let list = container.place("ports");
        for port in list.items().into_iter().flatten() {
            let Some(name) = port.place("name").text().filter(|name| !name.is_empty()) else { continue };
            let number = port::number(&port.place("containerPort"), notes);
            if let (Some(number), Some(protocol)) = (number, port::protocol(&port.place("protocol"), notes)) {
                found.push(PodPort { name: name.to_owned(), protocol, number });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::model::Object;
    use super::super::{Read, read};
    use super::*;
    use crate::net::Protocol;

    fn pod(spec: &Value, status: &Value) -> (Pod, usize) {
        let metadata = json!({"name": "p", "uid": "u", "labels": {"a": "b"}, "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status});
        match read(&value).pop() {
            Some(Ok(Read::Object { object: Object::Pod(pod), remarks })) => (pod, remarks.len()),
            other => panic!("{other:?} of {value}"),
        }
    }

    #[test]
    fn a_pod_is_read_from_spec_and_status() {
        let container = json!({"ports": [
            {"name": "web", "containerPort": 80}, {"containerPort": 81}, {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "bad", "containerPort": 0}, {"name": "worse", "containerPort": 1, "protocol": "ICMP"}
        ]});
        let spec = json!({"nodeName": "n", "containers": [container, {}, 7], "initContainers": [
            {"ports": [{"name": "gone", "containerPort": 1}]},
            {"restartPolicy": "Always", "ports": [{"name": "mesh", "containerPort": 15001}]}
        ]});
        let status = json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}, {}]});
        let port = |name: &str, protocol, number| PodPort { name: name.into(), protocol, number };
        let expected = Pod {
            namespace: "default".into(),
            name: "p".into(),
            uid: "u".into(),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            ports: vec![port("web", Protocol::TCP, 80), port("dns", Protocol::UDP, 53), port("mesh", Protocol::TCP, 15001)],
            node: "n".into(),
            host_network: false,
            finished: false,
            running: true,
        };
        assert_eq!(pod(&spec, &status), (expected, 3));
    }

    #[test]
    fn phases_and_addresses() {
        let one: std::net::IpAddr = "10.0.0.1".parse().unwrap();
        let table = [
            (json!({"phase": "Running", "podIP": "10.0.0.1"}), (false, true, vec![one], 0)),
            (json!({"phase": "Pending", "podIPs": [{"ip": "10.0.0.1"}]}), (false, false, vec![one], 0)),
            (json!({"phase": "Succeeded", "podIP": "10.0.0.1"}), (true, false, vec![one], 0)),
            (json!({"phase": "Failed", "podIP": ""}), (true, false, vec![], 0)),
            (json!({"phase": "Unknown", "podIP": "x"}), (false, false, vec![], 1)),
            (json!(null), (false, false, vec![], 0)),
            (json!(3), (false, false, vec![], 0)),
        ];
        for (status, expected) in table {
            let (pod, remarks) = pod(&json!({}), &status);
            assert_eq!((pod.finished, pod.running, pod.addresses, remarks), expected, "{status}");
        }
    }

    #[test]
    fn the_host_network_is_told_from_the_pods() {
        assert!(pod(&json!({"hostNetwork": true}), &json!({})).0.host_network);
        assert!(!pod(&json!({"hostNetwork": null}), &json!({})).0.host_network);
        let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"hostNetwork": "yes"}});
        let error = read(&value).pop().unwrap().unwrap_err().to_string();
        assert!(error.starts_with("Pod default/p: `spec.hostNetwork`: expected true or false, found `yes`"), "{error}");
    }
}
