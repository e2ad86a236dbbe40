//! What is known, kept current change by change.

use std::net::IpAddr;
use std::sync::Arc;

use super::Policies;
use super::model::{Object, ObjectId};
use crate::net::{Prefix4, Prefix6};

/// News of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is like this now.
    Put(Object),
    /// It is gone.
    Delete(ObjectId),
}

/// Whose flows are judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The node whose pods are judged; `None`: every pod, as offline tools do.
    pub node: Option<String>,
    /// The node's pod subnets: an address in them that is neither a pod's nor the host's is an unknown pod's.
    pub own4: Vec<Prefix4>,
    /// The same for IPv6.
    pub own6: Vec<Prefix6>,
    /// Addresses of the host itself, besides those that its node object has: those of its devices, in the subnet too.
    pub host: Vec<IpAddr>,
    /// What becomes of addresses in them that no pod is known to have.
    pub unknown_pods: UnknownPods,
}

/// What an address of ours may do that no pod is known to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownPods {
    /// Nothing: a pod may be about to be known there, with any policy.
    #[default]
    Refuse,
    /// Anything.
    Allow,
}

/// Everything known, from which snapshots are compiled.
#[derive(Debug, Default)]
pub struct Cluster {
    scope: Scope,
}

impl Cluster {
    /// Nothing known yet.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self { scope }
    }

    /// Takes in news, in any order.
    pub fn apply(&mut self, _change: Change) {}

    /// Judges by another scope from the next snapshot on.
    pub fn set_scope(&mut self, scope: Scope) {
        self.scope = scope;
    }

    /// The snapshot of what is known now.
    pub fn compile(&mut self) -> Arc<Policies> {
        Arc::new(Policies::default())
    }
}
