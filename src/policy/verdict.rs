//! The answer to a flow's first packet.

use std::net::IpAddr;

use super::model::ObjectId;
use crate::net::FlowKey;

/// A compiled snapshot of everything that judges flows: immutable, shared by all workers.
#[derive(Debug, Default)]
pub struct Policies {
    version: u64,
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
    /// Grows with each snapshot of one [`Cluster`](super::Cluster); a flow judged under another is to be judged again.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Judges the first packet of a flow. Only pods that are local to this snapshot's scope have a say.
    #[inline]
    #[must_use]
    pub fn verdict(&self, _key: &FlowKey) -> Verdict {
        Verdict::Allowed
    }

    /// The policy that a [`Cause`] of this snapshot names.
    #[must_use]
    pub fn policy(&self, _number: u32) -> Option<&ObjectId> {
        None
    }

    /// The pod or node that has this address, if it is known.
    #[must_use]
    pub fn name_of(&self, _address: IpAddr) -> Option<&ObjectId> {
        None
    }
}
