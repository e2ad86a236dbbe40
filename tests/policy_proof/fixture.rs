//! Fixtures `netpol-fixture/v1`: small clusters with the verdict for every pair of endpoints, as Kubernetes objects.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// One state of one case.
pub struct Step {
    /// Which case and step it is.
    pub name: String,
    /// Everything there is, as Kubernetes writes it.
    pub objects: Vec<Value>,
    /// What must come out.
    pub cells: Vec<Cell>,
}

/// One verdict.
#[derive(Debug)]
pub struct Cell {
    /// Who and whom.
    pub ends: [String; 2],
    /// Where the flow comes from.
    pub from: IpAddr,
    /// Where it goes.
    pub to: IpAddr,
    /// Its protocol.
    pub protocol: String,
    /// Its destination port.
    pub port: u16,
    /// The letters that are right; `-`: neither end is a pod.
    pub right: &'static str,
}

/// The folder of fixtures, if there is one.
pub fn folder() -> Option<PathBuf> {
    let given = std::env::var_os("FELT_FIXTURES").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures");
    Some(given.unwrap_or_else(beside)).filter(|folder| folder.is_dir())
}

/// The steps of each case in a folder.
pub fn cases(folder: &Path) -> Vec<Vec<Step>> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.iter().map(|file| case(&serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap())).collect()
}

fn case(case: &Value) -> Vec<Step> {
    assert_eq!(case["schema"], "netpol-fixture/v1");
    let steps = list(&case["steps"]).iter().enumerate();
    steps
        .flat_map(|(at, step)| {
            settled(Step { name: format!("{} step {at}", case["id"]), objects: objects(step), cells: cells(step) })
        })
        .collect()
}

/// A step, or several if two running pods claim one address: cells are about pods, but whoever judges packets can only know one
/// of them. So each has the address in a step of its own, with the cells that are about it.
fn settled(mut step: Step) -> Vec<Step> {
    let address = |pod: &Value| pod["status"]["podIPs"][0]["ip"].clone();
    let lives = |pod: &Value| pod["kind"] == "Pod" && pod["status"]["phase"] == "Running" && pod["spec"]["hostNetwork"] != true;
    let pods: Vec<Value> = step.objects.iter().filter(|object| lives(object)).cloned().collect();
    let named =
        |pod: &Value| format!("{}/{}", pod["metadata"]["namespace"].as_str().unwrap(), pod["metadata"]["name"].as_str().unwrap());
    let late: Vec<_> =
        pods.iter().enumerate().filter(|(at, pod)| pods[..*at].iter().any(|one| address(one) == address(pod))).collect();
    let mut steps = Vec::new();
    for (_, pod) in &late {
        let (about, others) = step.cells.into_iter().partition(|cell| cell.from != cell.to && cell.ends.contains(&named(pod)));
        step.cells = others;
        let objects =
            step.objects.iter().filter(|one| !lives(one) || address(one) != address(pod) || one == pod).cloned().collect();
        steps.push(Step { name: format!("{} with {}", step.name, named(pod)), objects, cells: about });
    }
    step.objects.retain(|object| !late.iter().any(|(_, pod)| *pod == object));
    steps.insert(0, step);
    steps
}

/// The state as manifests.
fn objects(step: &Value) -> Vec<Value> {
    let cluster = &step["cluster"];
    let namespaces = list(&cluster["namespaces"]).iter().map(|namespace| {
        let metadata = json!({"name": namespace["name"], "labels": namespace["labels"]});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    });
    let nodes = list(&cluster["nodes"]).iter().map(|node| {
        let addresses: Vec<_> = list(&node["ips"]).iter().map(|ip| json!({"type": "InternalIP", "address": ip})).collect();
        let metadata = json!({"name": node["name"], "labels": node["labels"]});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"addresses": addresses}})
    });
    let pods = list(&cluster["pods"]).iter().map(|pod| {
        let mut metadata = json!({"namespace": pod["namespace"], "name": pod["name"], "labels": pod["labels"]});
        metadata["deletionTimestamp"] = pod["deletionTimestamp"].clone();
        let containers = [json!({"name": "c", "ports": pod["ports"]})];
        let spec = json!({"containers": containers, "nodeName": pod["node"], "hostNetwork": pod["hostNetwork"]});
        let ips: Vec<_> = list(&pod["ips"]).iter().map(|ip| json!({"ip": ip})).collect();
        let phase = pod["phase"].as_str().unwrap_or("Running");
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"podIPs": ips, "phase": phase}})
    });
    namespaces.chain(nodes).chain(pods).chain(list(&step["policies"]).iter().cloned()).collect()
}

fn cells(step: &Value) -> Vec<Cell> {
    let endpoints: Vec<_> = list(&step["endpoints"]).iter().map(|name| name.as_str().unwrap()).collect();
    let mut found = Vec::new();
    let mut add = |from: &str, to: &str, probe: &Value, right: &'static str| {
        let family = probe["family"].as_str().unwrap_or("IPv4");
        let (protocol, port) = (probe["protocol"].as_str().unwrap(), u16::try_from(probe["port"].as_u64().unwrap()).unwrap());
        let ends = (address(step, from, family), address(step, to, family));
        // `-` is also for ends without an address, of which nobody can ask.
        if let (Some(from_address), Some(to_address)) = ends {
            let (ends, protocol) = ([from, to].map(str::to_owned), protocol.to_owned());
            found.push(Cell { ends, from: from_address, to: to_address, protocol, port, right });
        } else {
            assert_eq!(right, "-", "{from} to {to}");
        }
    };
    for table in list(&step["expect"]) {
        for (row, from) in list(&table["rows"]).iter().zip(&endpoints) {
            let letters = row.as_str().unwrap();
            assert_eq!((letters.len(), list(&table["rows"]).len()), (endpoints.len(), endpoints.len()));
            for (letter, to) in letters.chars().zip(&endpoints) {
                let known = [".", "i", "e", "b", "-", "?"].into_iter().find(|known| known.starts_with(letter));
                match known.unwrap_or_else(|| panic!("letter {letter}")) {
                    "?" => {}
                    right => add(from, to, table, right),
                }
            }
        }
    }
    for checked in list(&step["checked"]) {
        let right = if checked["allow"] == true { "." } else { "ieb" };
        add(checked["from"].as_str().unwrap(), checked["to"].as_str().unwrap(), checked, right);
    }
    found
}

/// An endpoint's address of a family.
fn address(step: &Value, endpoint: &str, family: &str) -> Option<IpAddr> {
    let cluster = &step["cluster"];
    let named = |list_name: &str, name: &str| list(&cluster[list_name]).iter().find(|one| one["name"] == name);
    let found = if let Some(name) = endpoint.strip_prefix("node:") {
        named("nodes", name)
    } else if let Some(name) = endpoint.strip_prefix("ext:") {
        named("externals", name)
    } else {
        let (namespace, name) = endpoint.split_once('/').unwrap();
        list(&cluster["pods"]).iter().find(|pod| pod["namespace"] == namespace && pod["name"] == name)
    };
    let found = found.unwrap_or_else(|| panic!("no endpoint {endpoint}"));
    let mut addresses = list(&found["ips"]).iter().map(|ip| ip.as_str().unwrap().parse::<IpAddr>().unwrap());
    addresses.find(|address| address.is_ipv4() == (family == "IPv4"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
