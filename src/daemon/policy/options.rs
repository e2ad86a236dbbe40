//! What a node is asked to do about policy: plain values, already checked.

use std::path::PathBuf;

use crate::policy::UnknownPods;

/// How a node goes by policy. A node without any has no such options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyOptions {
    /// Folders and files of manifests, the later one counting where two hold the same object.
    pub manifests: Vec<PathBuf>,
    /// Whether the registry's objects count; those in `manifests` come first.
    pub from_registry: bool,
    /// Which traffic of its pods is judged.
    pub scope: PolicyScope,
    /// What pods may do before it is known what they may do.
    pub until_synced: UntilSynced,
    /// What addresses of our subnet may do that no pod is known to have.
    pub unknown_pods: UnknownPods,
    /// What becomes of flows that policy comes to forbid.
    pub established: Established,
    /// Flows remembered at a time.
    pub flows: usize,
    /// Whether multicast passes unasked; if not, it does not pass.
    pub allow_mcast: bool,
    /// This node's name, as pods say which node they run on; not empty.
    pub node_name: String,
}

/// Which traffic of a node's pods is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyScope {
    /// What crosses the tunnel.
    #[default]
    Overlay,
    /// All of it: from pod to pod on this host and to the world, too.
    Node,
}

/// What pods may do before every policy source has said what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UntilSynced {
    /// Nothing.
    #[default]
    Deny,
    /// Whatever those policies allow that are known already; so, at first, anything.
    Allow,
}

/// What becomes of flows that policy comes to forbid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Established {
    /// They end at their next packet.
    #[default]
    Strict,
    /// They go on.
    Keep,
}
