//! Policy fixtures of others, put through the real binary. Only where their folder is there.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli_support::felt_with;

/// Where the fixtures are: `FELT_FIXTURES`, or beside this tree.
pub fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("FELT_FIXTURES").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures");
    named.or_else(|| Some(beside())).filter(|folder| folder.join("semantics").is_dir())
}

/// Asserts that every cell of every step of a case is as it should be; how many were compared.
pub fn compare(file: &Path) -> usize {
    let case: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    case["steps"].as_array().unwrap().iter().map(|step| step_cells(step, file)).sum()
}

fn step_cells(step: &Value, file: &Path) -> usize {
    let mut line = "policy matrix -f - --format json".to_owned();
    for outside in list(&step["cluster"]["externals"]) {
        let addresses: Vec<_> = list(&outside["ips"]).iter().map(text).collect();
        write!(line, " --external {}={}", text(&outside["name"]), addresses.join(",")).unwrap();
    }
    for probe in list(&step["expect"]) {
        write!(line, " --probe {}/{}", text(&probe["protocol"]), probe["port"]).unwrap();
    }
    let ran = felt_with(&line, &[], &manifests(step).to_string());
    assert_eq!(ran.code, Some(0), "{}: {}", file.display(), ran.stderr);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();

    let mut cells = 0;
    for expected in list(&step["expect"]) {
        let is_it = |table: &&Value| ["protocol", "port", "family"].iter().all(|field| table[*field] == expected[*field]);
        let table = list(&found["probes"]).iter().find(is_it).unwrap_or_else(|| panic!("{}: no {expected}", file.display()));
        let place = |name: &Value| list(&table["endpoints"]).iter().position(|known| known == name);
        let letter = |row: &Value, at: usize| text(row).chars().nth(at).unwrap();
        for (y, from) in list(&step["endpoints"]).iter().enumerate() {
            for (x, to) in list(&step["endpoints"]).iter().enumerate() {
                let right = letter(&expected["rows"][y], x);
                // Pods on their host's network are no ends of their own here.
                let (Some(row), Some(column), true) = (place(from), place(to), right != '?') else { continue };
                assert_eq!(
                    letter(&table["rows"][row], column),
                    right,
                    "{}: {from} to {to}, {}",
                    file.display(),
                    expected["port"]
                );
                cells += 1;
            }
        }
    }
    cells
}

/// The state of a step as Kubernetes would write it.
fn manifests(step: &Value) -> Value {
    let cluster = &step["cluster"];
    let mut items = list(&step["policies"]).to_vec();
    items.extend(list(&cluster["namespaces"]).iter().map(|namespace| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace["name"], "labels": namespace["labels"]}})
    }));
    items.extend(list(&cluster["nodes"]).iter().map(|node| {
        let addresses: Vec<_> = list(&node["ips"]).iter().map(|ip| json!({"type": "InternalIP", "address": ip})).collect();
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node["name"], "labels": node["labels"]},
               "status": {"addresses": addresses}})
    }));
    items.extend(list(&cluster["pods"]).iter().map(|pod| {
        let phase = if pod["phase"].is_null() { json!("Running") } else { pod["phase"].clone() };
        let ips: Vec<_> = list(&pod["ips"]).iter().map(|ip| json!({"ip": ip})).collect();
        json!({"apiVersion": "v1", "kind": "Pod",
               "metadata": {"namespace": pod["namespace"], "name": pod["name"], "labels": pod["labels"],
                            "deletionTimestamp": pod["deletionTimestamp"]},
               "spec": {"nodeName": pod["node"], "hostNetwork": pod["hostNetwork"],
                        "containers": [{"name": "c", "ports": pod["ports"]}]},
               "status": {"phase": phase, "podIP": pod["ips"][0], "podIPs": ips}})
    }));
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
