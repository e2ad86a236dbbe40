//! Labs under policy: what they enforce, and what the engine says of it.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;

use felt::lab::{EphemeralLab, Lab, LabPlan, LabPolicy, Place, PolicyScope, RegistryKind};
use felt::policy::manifest::{Read, read};
use felt::policy::{Change, Cluster, Policies, Scope};
use serde_json::{Value, json};

use crate::probes::Pod;
use crate::support::{PATIENCE, acquainted, eventually, metrics, node, plan, scrape, up};

/// TCP and UDP ports that answer in each pod.
const TCP: [u16; 2] = [80, 81];
const UDP: [u16; 2] = [53, 80];

/// Two nodes with two pods each.
pub fn lab(test: &str, scope: PolicyScope) -> EphemeralLab {
    lab_on(RegistryKind::Embedded, test, scope, &[])
}

/// The same on a registry of that kind; `args` are for every daemon.
pub fn lab_on(registry: RegistryKind, test: &str, scope: PolicyScope, args: &[&str]) -> EphemeralLab {
    let policy = Some(LabPolicy { dirs: Vec::new(), scope });
    let run_args = args.iter().map(ToString::to_string).collect();
    let lab = up(LabPlan { pods_per_node: 2, policy, registry, run_args, ..plan(test, 2) });
    acquainted(&lab);
    for number in [1, 2] {
        let known = || scrape(&node(&lab, number)).contains(r#"felt_policy_objects{kind="Pod"} 4"#);
        eventually("the pods are known", PATIENCE, || known().then_some(()));
    }
    lab
}

/// Its pods, in order, with servers in them.
pub fn pods(lab: &Lab) -> Vec<Pod> {
    let serving =
        |place: Place| Pod::serving(&place.to_string(), lab.netns(place).unwrap(), lab.address(place).unwrap(), &TCP, &UDP);
    lab.pods().map(serving).collect()
}

/// Puts these policies into the lab's folder, in place of those of the same file, and waits until all nodes go by them.
pub fn enforce(lab: &Lab, file: &str, policies: &[Value]) {
    let versions = || [1, 2].map(|number| metrics(&node(lab, number)).value("felt_policy_version"));
    let before = versions();
    write(lab, file, &json!({"apiVersion": "v1", "kind": "List", "items": policies}).to_string());
    eventually("the policies are in force", PATIENCE, || {
        versions().iter().zip(before).all(|(now, before)| *now > before).then_some(())
    });
}

/// Puts a file into the lab's folder, whole.
pub fn write(lab: &Lab, file: &str, text: &str) {
    let folder = lab.directory().join("policy");
    let unfinished = folder.join(format!(".{file}"));
    fs::write(&unfinished, text).unwrap();
    fs::rename(&unfinished, folder.join(file)).unwrap();
}

/// What the engine makes of the lab and these policies.
pub fn engine(lab: &Lab, policies: &[Value]) -> Arc<Policies> {
    let places = lab.pods().map(|place| (place, lab.address(place).unwrap()));
    let mut cluster = Cluster::new(Scope::default());
    for object in lab.plan().objects(places).iter().chain(policies) {
        match read(object).pop() {
            Some(Ok(Read::Object { object, remarks })) if remarks.is_empty() => cluster.apply(Change::Put(object)),
            other => panic!("{other:?} of {object}"),
        }
    }
    cluster.compile()
}

/// The node that an address's pod is on.
pub fn same_node(lab: &Lab, one: Ipv4Addr, other: Ipv4Addr) -> bool {
    let node_of = |address| {
        lab.pods().find_map(|place| match place {
            Place::Pod { node, .. } if lab.address(place).unwrap() == address => Some(node),
            _ => None,
        })
    };
    node_of(one) == node_of(other)
}

/// A policy of the namespace `lab`.
pub fn policy(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": "lab"}, "spec": spec
    })
}

/// Lets nobody in but to a port where nothing answers.
pub fn closed(name: &str) -> Value {
    policy(name, &json!({"podSelector": {"matchLabels": {"app": name}}, "ingress": [{"ports": [{"port": 443}]}]}))
}
