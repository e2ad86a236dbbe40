//! The answer to a flow's first packet.

use std::net::IpAddr;
use std::sync::Arc;

use super::Scope;
use super::compile::{Compiler, Numbers};
use super::judge::{Addresses, Blocks, DirectionRules, NodeView, Ours, Peer, PodView, Refusal, RuleSets, Target};
use super::model::ObjectId;
use crate::net::{FlowKey, address_bits};

/// A compiled snapshot of everything that judges flows: immutable, shared by all workers.
///
/// The default one is open: nobody makes policies, and everything is allowed.
#[derive(Debug, Default)]
pub struct Policies {
    version: u64,
    state: State,
    ours: Ours,
    pods: Arc<Addresses<Arc<PodView>>>,
    nodes: Arc<Addresses<Arc<NodeView>>>,
    blocks: Arc<Blocks>,
    numbers: Arc<Numbers>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// There are no policies, and none will come.
    #[default]
    Open,
    /// They are not known yet.
    Unsynced,
    /// They are known.
    Known,
}

/// Whether a flow may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may, as far as the pods judged here have a say.
    Allowed,
    /// It may not.
    Refused(Refused),
}

/// Which ends refuse a flow; at least one does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Why the source pod's egress does.
    pub egress: Option<Cause>,
    /// Why the destination pod's ingress does.
    pub ingress: Option<Cause>,
}

/// Why one end refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Policy is not known yet, and until it is, pods are closed.
    Unsynced,
    /// No pod is known at this address of ours.
    UnknownPod,
    /// Policies isolate the pod, and none of them allows it. The number is that of the first of them; see [`Policies::policy`].
    Isolated(u32),
    /// A rule of an Admin or Baseline policy denies it: the numbers of the policy and of its rule in this direction.
    Denied(u32, u32),
}

impl Policies {
    /// Before anything is known: what our pods send is refused, and what comes to them, but for what the host itself sends.
    ///
    /// `version` is to be above that of every snapshot in force before, or flows that were allowed then would go on; the
    /// snapshot after it has to be [newer](super::Cluster::outdate).
    #[must_use]
    pub fn closed(scope: &Scope, version: u64) -> Self {
        Self { version, state: State::Unsynced, ours: Ours::new(scope), ..Self::default() }
    }

    /// Grows with each snapshot in force; a flow judged under another is to be judged again. 0 where there is no cluster.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether everything is allowed, so that nobody needs to ask.
    #[inline]
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Judges the first packet of a flow. Only pods that are local to this snapshot's scope have a say.
    #[inline]
    #[must_use]
    pub fn verdict(&self, key: &FlowKey) -> Verdict {
        if self.is_open() {
            return Verdict::Allowed;
        }
        let (source, destination) = (self.end(key.source), self.end(key.destination));
        if source.is_same(&destination) {
            return Verdict::Allowed;
        }
        let names = destination.pod.map_or(&[][..], |pod| &pod.ports);
        let target = Target { protocol: key.protocol, port: key.destination_port, names };
        let egress = self.refusal(&source, &destination, &target, |rules| &rules.egress);
        let ingress = if self.is_own_node(&source, &destination) {
            None
        } else {
            self.refusal(&destination, &source, &target, |rules| &rules.ingress)
        };
        if egress.is_none() && ingress.is_none() { Verdict::Allowed } else { Verdict::Refused(Refused { egress, ingress }) }
    }

    /// The policy that a [`Cause`] of this snapshot names.
    #[must_use]
    pub fn policy(&self, number: u32) -> Option<&ObjectId> {
        self.numbers.name(number)
    }

    /// The pod or node that has this address, if it is known.
    #[must_use]
    pub fn name_of(&self, address: IpAddr) -> Option<&ObjectId> {
        let end = self.end(address_bits(address));
        end.pod.map(|pod| &*pod.id).or(end.node.map(|node| &*node.id))
    }

    /// The snapshot of what was compiled.
    pub(super) fn known(version: u64, scope: &Scope, compiled: &Compiler) -> Self {
        Self {
            version,
            state: State::Known,
            ours: Ours::new(scope),
            pods: Arc::clone(&compiled.pods),
            nodes: Arc::clone(&compiled.nodes),
            blocks: Arc::clone(&compiled.blocks),
            numbers: Arc::clone(&compiled.numbers),
        }
    }

    #[inline]
    fn end(&self, address: u128) -> End<'_> {
        let pod = self.pods.get(&address).map(|pod| &**pod);
        let node = self.nodes.get(&address).map(|node| &**node);
        let nobody = pod.is_none() && node.is_none();
        End { address, pod, node, is_unknown: nobody && self.ours.covers(address) && !self.ours.is_host(address) }
    }

    /// Why an end refuses, if it has a say.
    #[inline]
    fn refusal(
        &self,
        subject: &End,
        other: &End,
        target: &Target,
        direction: impl Fn(&RuleSets) -> &DirectionRules,
    ) -> Option<Cause> {
        if subject.is_unknown {
            return match self.state {
                State::Unsynced => Some(Cause::Unsynced),
                _ => self.ours.refuse_unknown.then_some(Cause::UnknownPod),
            };
        }
        let rules = direction(subject.pod?.rules.as_deref()?);
        if rules.is_empty() {
            return None;
        }
        let pods = other.pod.map(|pod| &*pod.atoms);
        let nodes = other.node.map(|node| &node.atoms);
        let cause = match rules.refusal(&Peer::new(other.address, pods, nodes, &self.blocks), target)? {
            Refusal::Isolated(policy) => Cause::Isolated(self.numbers.rank(policy)),
            Refusal::Denied(policy, rule) => Cause::Denied(self.numbers.rank(policy), rule),
        };
        Some(cause)
    }

    /// Whether the source is the destination pod's own node, from which everything is allowed: probes come from there.
    #[inline]
    fn is_own_node(&self, source: &End, destination: &End) -> bool {
        let node = match destination.pod {
            Some(pod) if !pod.node.is_empty() => &*pod.node,
            _ => self.ours.node(),
        };
        self.ours.is_host(source.address) || source.node.is_some_and(|known| known.is(node))
    }
}

/// One end of a flow.
struct End<'a> {
    address: u128,
    pod: Option<&'a PodView>,
    node: Option<&'a NodeView>,
    /// Whether it is ours, and nobody is known to have it.
    is_unknown: bool,
}

impl End<'_> {
    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        self.address == other.address || self.pod.zip(other.pod).is_some_and(|(one, two)| std::ptr::eq(one, two))
    }
}
