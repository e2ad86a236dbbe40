//! What the engine knows: a cluster's objects and policies, without Kubernetes' types.
//!
//! Manifests, an API server and a registry all come to this. Defaults have been applied, and what could not be understood has
//! become a part that fails closed ([`Peer::Nothing`], [`Peer::Unintelligible`], [`Selector::Nothing`]) and has been reported by
//! whoever read it. Source of the meaning: NetworkPolicy `networking.k8s.io/v1`, `ClusterNetworkPolicy`
//! `policy.networking.k8s.io/v1alpha2`, `AdminNetworkPolicy` and `BaselineAdminNetworkPolicy`
//! `policy.networking.k8s.io/v1alpha1`.

mod object;
mod policy;
mod selector;

pub use object::{Namespace, Node, Object, ObjectId, Pod, PodPort};
pub use policy::{Action, Block, Peer, Policy, PolicyKind, Ports, Rule, Subject, Tier};
pub use selector::{Labels, Requirement, Selector};
