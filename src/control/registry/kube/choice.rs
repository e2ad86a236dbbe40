//! Which cluster is the registry, and who this node is in it, as flags and variables say it.

use std::path::PathBuf;

use super::AnnotationPrefix;
use crate::control::kube::KubeAccess;

/// A Kubernetes cluster as registry.
#[derive(Clone, Debug)]
pub struct KubeChoice {
    /// The way to its API.
    pub access: KubeAccess,
    /// What the names of our annotations begin with.
    pub prefix: AnnotationPrefix,
    /// The file with the network config.
    pub net_config: PathBuf,
    /// Which of its nodes this one is.
    pub node: NodeIdentity,
    /// Whether this node's condition `NetworkUnavailable` is set to `False` once the network is up.
    pub set_condition: bool,
}

/// How a node knows its name in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeIdentity {
    /// It was told.
    Named(String),
    /// It is the node that this pod runs on.
    OfPod {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
    },
    /// It does not; enough to look at others' leases.
    Unknown,
}
