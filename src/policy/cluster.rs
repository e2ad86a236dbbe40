//! What is known, kept current change by change.

use std::net::IpAddr;
use std::sync::Arc;

use super::compile::{Compiler, News, Objects};
use super::model::{Object, ObjectId};
use super::{Explanation, Policies};
use crate::net::{FlowKey, Prefix4, Prefix6};

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
///
/// Compiling does again only what the changes since the last snapshot touch; snapshots share the rest.
#[derive(Debug, Default)]
pub struct Cluster {
    scope: Scope,
    objects: Objects,
    news: News,
    compiler: Compiler,
    version: u64,
    last: Option<Arc<Policies>>,
}

impl Cluster {
    /// Nothing known yet.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self { scope, ..Self::default() }
    }

    /// Nothing known, in the place of a cluster whose last snapshot had this version: versions go on from there.
    #[must_use]
    pub fn after(version: u64) -> Self {
        Self { version, ..Self::default() }
    }

    /// Takes in news, in any order.
    pub fn apply(&mut self, change: Change) {
        self.objects.apply(change, &mut self.news);
    }

    /// Judges by another scope from the next snapshot on.
    pub fn set_scope(&mut self, scope: Scope) {
        self.news.scope |= self.scope != scope;
        self.scope = scope;
    }

    /// Makes the next snapshot newer than `version`, though nothing may have changed: another's snapshot of that version has been
    /// in force since the last.
    pub fn outdate(&mut self, version: u64) {
        if version > self.version {
            (self.version, self.last) = (version, None);
        }
    }

    /// The snapshot of what is known now: the last one, if nothing has changed since.
    pub fn compile(&mut self) -> Arc<Policies> {
        if let Some(last) = self.last.as_ref().filter(|_| self.news.is_empty()) {
            return Arc::clone(last);
        }
        self.compiler.refresh(&self.objects, &self.scope, &self.news);
        if self.compiler.is_wasteful() {
            self.compiler = Compiler::default();
            self.compiler.refresh(&self.objects, &self.scope, &self.objects.everything());
        }
        self.news = News::default();
        self.version += 1;
        let policies = Arc::new(Policies::known(self.version, &self.scope, &self.compiler));
        self.last = Some(Arc::clone(&policies));
        policies
    }

    /// Why the snapshot of what is known now judges a flow as it does.
    pub fn explain(&mut self, flow: &FlowKey) -> Explanation {
        let verdict = self.compile().verdict(flow);
        Explanation::new(*flow, verdict, &self.objects, &self.scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::{Action, Peer, Policy, PolicyKind, Requirement, Rule, Selector, Subject, Tier};

    /// A policy whose selectors nobody else has.
    fn policy(round: usize) -> Policy {
        let select = |key: &str| Selector::All(vec![Requirement::Exists(format!("{key}-{round}"))]);
        let peers = Some(vec![Peer::Own(select("peer")), Peer::Nodes(select("node"))]);
        Policy {
            kind: PolicyKind::NetworkPolicy,
            namespace: "x".into(),
            name: "p".into(),
            tier: Tier::NetworkPolicy,
            priority: 0,
            subject: Subject::Own(select("subject")),
            ingress: Some(vec![Rule { name: String::new(), action: Action::Accept, peers, ports: None }]),
            egress: None,
        }
    }

    #[test]
    fn a_snapshot_is_newer_than_what_was_in_force_meanwhile() {
        let mut cluster = Cluster::default();
        let first = cluster.compile();
        cluster.outdate(first.version());
        assert!(Arc::ptr_eq(&first, &cluster.compile()), "nobody else's was in force");
        cluster.outdate(7);
        assert_eq!([cluster.compile().version(), cluster.compile().version()], [8, 8]);
        cluster.outdate(3);
        assert_eq!(cluster.compile().version(), 8);
    }

    #[test]
    fn what_is_no_longer_used_does_not_pile_up() {
        let mut cluster = Cluster::default();
        for round in 0..300 {
            cluster.apply(Change::Put(Object::Policy(policy(round))));
            cluster.compile();
            assert!(!cluster.compiler.is_wasteful(), "{round}");
        }
    }
}
