//! Kubernetes as registry: each node's lease is its podCIDR, and what it publishes are annotations of its node object.
//!
//! Source: flannel's kube subnet manager, whose annotations, conditions and values these are to the byte. Nothing is allocated
//! here, which the cluster's controller manager does, and leases have no end: a node holds its subnet as long as its object is there.
//!
//! | module | |
//! |---|---|
//! | `choice` | which cluster, and who this node is in it |
//! | `prefix` | what the names of annotations begin with |
//! | `node` | the little that counts of a node object, and the lease that it makes |
//! | `published` | what a node object lacks of what it should say, as a patch |
//! | `nodes` | the calls there are |
//! | `registry` | the registry |
//! | `records` | all leases, and what a change of one node does to them |
//! | `watch` | a watch that never ends, whatever the API server does |
//! | `upkeep` | our own node object, kept as it should be |
//! | `config_file` | the network config, which is a file here |

mod choice;
#[cfg(feature = "kube")]
mod config_file;
#[cfg(feature = "kube")]
mod node;
#[cfg(feature = "kube")]
mod nodes;
mod prefix;
#[cfg(feature = "kube")]
mod published;
#[cfg(feature = "kube")]
mod records;
#[cfg(feature = "kube")]
mod registry;
#[cfg(feature = "kube")]
mod upkeep;
#[cfg(feature = "kube")]
mod watch;

pub use choice::{KubeChoice, NodeIdentity};
pub use prefix::{AnnotationPrefix, PrefixError};
#[cfg(feature = "kube")]
pub use registry::KubeRegistry;
