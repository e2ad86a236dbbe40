//! Daemons with a real etcd that is killed, frozen, compacted, cut off and edited by others: what pods notice of it, and what
//! becomes of the leases. Needs root.

#[path = "../e2e_support/daemon.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod daemon;
#[path = "../e2e_support/http.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod http;
#[path = "../e2e_support/lab.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod lab;
#[path = "../support/etcd.rs"]
mod server;

mod absence;
mod access;
mod address;
mod config;
mod identity;
mod own_key;
mod partition;
mod restart;
mod store;

use std::net::Ipv4Addr;
use std::time::Duration;

use felt::lab::probe::{Pinger, ping};
use felt::lab::{EphemeralLab, Interrupt, Lab, LabPlan, Node, Place, RegistryKind};
use felt::net::Prefix4;
use lab::{PATIENCE, eventually, plan, pod, up};

/// A lab of so many nodes with one pod each on an etcd of its own; `args` are for every daemon.
fn etcd_lab(test: &str, nodes: u16, args: &[&str]) -> EphemeralLab {
    up(etcd_plan(test, nodes, args))
}

fn etcd_plan(test: &str, nodes: u16, args: &[&str]) -> LabPlan {
    let run_args = args.iter().map(ToString::to_string).collect();
    LabPlan { registry: RegistryKind::Etcd, run_args, ..plan(test, nodes) }
}

/// The subnet a node's file names.
fn subnet(node: Node<'_>) -> Prefix4 {
    node.subnet().unwrap().expect("a subnet file").subnet
}

/// The overlay address of the pod of node `number`.
fn address(lab: &Lab, number: u16) -> Ipv4Addr {
    lab.address(Place::Pod { node: number, pod: 1 }).unwrap()
}

/// Pings from one node's pod to another's.
fn pinger(lab: &Lab, from: u16, to: u16, pace: Duration) -> Pinger {
    // A node is ready with the leases there were when it came; those of nodes that come with it are a moment on their way.
    require_both_ways(lab, from, to);
    Pinger::start(&pod(lab, from), address(lab, to), pace).unwrap()
}

/// Waits until pods of two nodes reach each other, both ways.
fn require_both_ways(lab: &Lab, one: u16, other: u16) {
    for (from, to) in [(one, other), (other, one)] {
        let moment = Duration::from_millis(500);
        let reach = || ping(&pod(lab, from), address(lab, to), moment, &Interrupt::new()).unwrap();
        eventually(&format!("the pod of node {from} reaches that of node {to}"), PATIENCE, reach);
    }
}

/// Starts a node's daemon and waits until it is ready.
fn start(node: Node<'_>, args: &[&str]) {
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    node.start_with(&args).unwrap();
    node.wait_ready(&Interrupt::new()).unwrap();
}
