//! What a lab with network policy tells its daemons: a folder of manifests in which its nodes and pods are described as a
//! Kubernetes cluster would, beside the user's own folders of policies.
//!
//! ```text
//! /run/felt/lab/NAME/policy/lab.yaml     Namespace, Nodes, Pods; rewritten whenever pods get addresses
//!                          /….yaml       what is put beside it by the demo, the benchmark or a test
//! ```
//!
//! The folder is there before the first daemon starts, with the namespace and the nodes; pods follow once their addresses are
//! known. A file appears or changes at once and whole.

mod folder;
mod objects;
mod plan;

pub use objects::NAMESPACE;
pub use plan::{LabPolicy, PolicyScope};

pub(super) use plan::check;
