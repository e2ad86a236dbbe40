//! The objects of a cluster that policies speak of.

use std::fmt;
use std::net::IpAddr;

use super::{Labels, Policy, PolicyKind};
use crate::net::Protocol;

/// Anything a source may know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A namespace.
    Namespace(Namespace),
    /// A node.
    Node(Node),
    /// A pod.
    Pod(Pod),
    /// A policy of any kind.
    Policy(Policy),
}

/// What names an object among all of a source. A body never names it, so events may come in any order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectId {
    /// A namespace by its name.
    Namespace(String),
    /// A node by its name.
    Node(String),
    /// A pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A policy.
    Policy {
        /// Of which kind.
        kind: PolicyKind,
        /// Its namespace; empty for kinds that have none.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its labels; `kubernetes.io/metadata.name` among them, whoever read it has seen to that.
    pub labels: Labels,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Tells it from earlier and later pods of its name; empty if nobody said.
    pub uid: String,
    /// Its labels.
    pub labels: Labels,
    /// Its addresses, of either family; of a `host_network` pod its node's.
    pub addresses: Vec<IpAddr>,
    /// Ports that have a name, of all containers and restartable init containers.
    pub ports: Vec<PodPort>,
    /// The node it runs on; empty until it is known.
    pub node: String,
    /// Whether it has its node's addresses, and so no identity of its own.
    pub host_network: bool,
    /// Whether it has succeeded or failed: it owns no address any more.
    pub finished: bool,
    /// Whether it runs, rather than being about to; the running one of two pods has the address they both claim.
    pub running: bool,
}

/// A port of a pod that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodPort {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub number: u16,
}

impl Object {
    /// What names it.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        match self {
            Self::Namespace(namespace) => ObjectId::Namespace(namespace.name.clone()),
            Self::Node(node) => ObjectId::Node(node.name.clone()),
            Self::Pod(pod) => ObjectId::Pod { namespace: pod.namespace.clone(), name: pod.name.clone() },
            Self::Policy(policy) => {
                ObjectId::Policy { kind: policy.kind, namespace: policy.namespace.clone(), name: policy.name.clone() }
            }
        }
    }
}

impl Pod {
    /// Whether flows of its addresses are its own: it has not finished and is not on its host's network.
    #[must_use]
    pub const fn has_identity(&self) -> bool {
        !self.finished && !self.host_network
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(name) => write!(to, "Namespace {name}"),
            Self::Node(name) => write!(to, "Node {name}"),
            Self::Pod { namespace, name } => write!(to, "Pod {namespace}/{name}"),
            Self::Policy { kind, namespace, name } if namespace.is_empty() => write!(to, "{kind} {name}"),
            Self::Policy { kind, namespace, name } => write!(to, "{kind} {namespace}/{name}"),
        }
    }
}
