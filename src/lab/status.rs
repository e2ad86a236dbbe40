//! What a lab looks like now, for people and programs.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use serde::Serialize;

use super::{Lab, LabError, Node, Place, PolicyScope, RegistryKind, SubnetEnv};

/// What a lab looks like now. Its JSON form is the output of `felt lab status --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabStatus {
    /// The lab's name.
    pub name: String,
    /// Whether building it came to its end.
    pub complete: bool,
    /// Logs, store, and a directory per node.
    pub directory: PathBuf,
    /// Its registry.
    pub registry: RegistryStatus,
    /// The policy its daemons enforce; `None` if they enforce none.
    pub policy: Option<PolicyStatus>,
    /// Its nodes, by number.
    pub nodes: Vec<NodeStatus>,
}

/// The registry of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegistryStatus {
    /// Which it is.
    pub kind: RegistryKind,
    /// Where it listens, inside the lab.
    pub endpoint: Option<SocketAddrV4>,
    /// The hub's network namespace.
    pub namespace: String,
    /// Its process, if that runs.
    pub pid: Option<u32>,
}

/// The policy of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyStatus {
    /// Which traffic is judged.
    pub scope: PolicyScope,
    /// Where manifests are read from: the lab's own folder, then the user's.
    pub dirs: Vec<PathBuf>,
}

/// A node of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    /// What it is called in the lab.
    pub name: String,
    /// Its network namespace.
    pub namespace: String,
    /// Its address in the underlay.
    pub underlay: Ipv4Addr,
    /// Its daemon's process, if that runs.
    pub pid: Option<u32>,
    /// Whether the daemon says it is ready.
    pub ready: bool,
    /// What subnet.env says; `None` before the first lease.
    pub lease: Option<SubnetEnv>,
    /// What its daemon printed.
    pub log: PathBuf,
    /// Its pods, by number.
    pub pods: Vec<PodStatus>,
}

/// A pod of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodStatus {
    /// What it is called in the lab.
    pub name: String,
    /// Its network namespace.
    pub namespace: String,
    /// Its address in the overlay; `None` before its node's first lease.
    pub address: Option<Ipv4Addr>,
}

impl Lab {
    /// What it looks like now.
    ///
    /// # Errors
    /// When a subnet.env cannot be understood.
    pub fn status(&self) -> Result<LabStatus, LabError> {
        let plan = self.plan();
        // On a line of its own: the lock must not be held while the nodes are asked.
        let complete = self.state().complete;
        let registry = RegistryStatus {
            kind: plan.registry,
            endpoint: plan.registry_endpoint(),
            namespace: plan.name.namespace(Place::Hub),
            pid: self.registry().pid(),
        };
        Ok(LabStatus {
            name: plan.name.to_string(),
            complete,
            directory: self.directory(),
            registry,
            policy: self.policy_status(),
            nodes: self.nodes().map(|node| self.node_status(node)).collect::<Result<_, _>>()?,
        })
    }

    fn policy_status(&self) -> Option<PolicyStatus> {
        let policy = self.plan().policy.as_ref()?;
        let dirs = self.policy_dir().into_iter().chain(policy.dirs.iter().cloned());
        Some(PolicyStatus { scope: policy.scope, dirs: dirs.collect() })
    }

    fn node_status(&self, node: Node<'_>) -> Result<NodeStatus, LabError> {
        let plan = self.plan();
        let pod_status = |place: Place| PodStatus {
            name: place.to_string(),
            namespace: plan.name.namespace(place),
            address: self.state().address(place),
        };
        Ok(NodeStatus {
            name: node.place().to_string(),
            namespace: plan.name.namespace(node.place()),
            underlay: plan.underlay(node.number()),
            pid: node.pid(),
            ready: node.is_ready(),
            lease: node.subnet()?,
            log: node.log(),
            pods: node.pods().map(pod_status).collect(),
        })
    }
}
