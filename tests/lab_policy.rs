//! Labs with policy: what their daemons are told of nodes and pods, and where. Needs root.

mod lab_support;

use std::fs;

use felt::lab::{EphemeralLab, Interrupt, LabError, LabPlan, LabPolicy, Place, PolicyScope, RegistryKind, Silent};
use lab_support::plan;
use serde_json::{Value, json};

/// The documents of a manifest, each on a line of its own.
fn documents(text: &str) -> Vec<Value> {
    text.lines().filter(|line| *line != "---").map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn daemons_are_told_of_nodes_and_pods() {
    let user = tempfile::tempdir().unwrap();
    let policy = LabPolicy { dirs: vec![user.path().to_owned()], scope: PolicyScope::Overlay };
    let plan = LabPlan { nodes: 2, pods_per_node: 1, policy: Some(policy), ..plan("policy") };
    let lab = EphemeralLab::up(plan, &mut Silent, &Interrupt::new()).unwrap();
    let own = lab.policy_dir().unwrap();
    assert_eq!(own, lab.directory().join("policy"));

    let text = fs::read_to_string(own.join("lab.yaml")).unwrap();
    let objects = documents(&text);
    let names: Vec<_> = objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["lab", "node1", "node2", "node1-pod1", "node2-pod1"]);
    let address = lab.address(Place::Pod { node: 2, pod: 1 }).unwrap();
    assert_eq!(objects[4]["status"]["podIPs"], json!([{ "ip": address }]));
    assert_eq!(objects[2]["status"]["addresses"][0]["address"], "172.30.1.2");

    let pid = lab.node(2).unwrap().running_pid().unwrap();
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap().replace('\0', " ");
    let (own_dir, user_dir) = (own.display(), user.path().display());
    let told = format!("--policy-dir {own_dir} --policy-dir {user_dir} --policy-scope overlay --node-name node2");
    assert!(line.contains(&told), "{line}");
    let status = lab.status().unwrap().policy.unwrap();
    assert_eq!((status.scope, status.dirs), (PolicyScope::Overlay, vec![own.clone(), user.path().to_owned()]));

    lab.put_manifest("more.yaml", &[json!({ "kind": "A" }), json!({ "kind": "B" })]).unwrap();
    assert_eq!(documents(&fs::read_to_string(own.join("more.yaml")).unwrap()), [json!({ "kind": "A" }), json!({ "kind": "B" })]);
    lab.remove_manifest("more.yaml").unwrap();
    lab.remove_manifest("more.yaml").unwrap();
    // Told anew with what was there before, and nothing half-written is left.
    fs::remove_file(own.join("lab.yaml")).unwrap();
    lab.node(1).unwrap().attach_pods().unwrap();
    assert_eq!(fs::read_to_string(own.join("lab.yaml")).unwrap(), text);
    let left = |dir: &std::path::Path| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(left(&own), ["lab.yaml"]);
    assert!(left(&lab.directory()).iter().all(|name| !name.to_string_lossy().ends_with(".next")));
}

#[test]
fn a_lab_without_policy_has_no_folder_for_it() {
    let plan = LabPlan { nodes: 1, registry: RegistryKind::Absent, ..plan("no-policy") };
    let lab = EphemeralLab::up(plan, &mut Silent, &Interrupt::new()).unwrap();
    assert!(lab.policy_dir().is_none() && lab.status().unwrap().policy.is_none());
    assert!(!lab.directory().join("policy").exists());
    assert!(matches!(lab.put_manifest("a.yaml", &[]), Err(LabError::BadPlan(_))));
}
