//! What an explanation is made of.

use std::net::IpAddr;

use crate::net::FlowKey;
use crate::policy::model::{Action, ObjectId, Tier};
use crate::policy::{Cause, Verdict};

/// Why a flow is allowed or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The flow.
    pub flow: FlowKey,
    /// The engine's answer.
    pub verdict: Verdict,
    /// How the source's end comes to its part of it.
    pub egress: Side,
    /// How the destination's does.
    pub ingress: Side,
}

/// How one end decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Which way the flow goes, seen from it.
    pub direction: Direction,
    /// Who decides.
    pub subject: End,
    /// Who is at the other end.
    pub peer: End,
    /// What was looked at, in order. The last one decides.
    pub steps: Vec<Step>,
    /// What came out: why it refuses, if it does.
    pub refusal: Option<Cause>,
}

/// Which way a flow goes, seen from a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It comes.
    Ingress,
    /// It leaves.
    Egress,
}

/// Who has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A live pod.
    Pod(ObjectId, IpAddr),
    /// A node, and so the pods on its network.
    Node(ObjectId, IpAddr),
    /// The host itself, though no node says so.
    Host(IpAddr),
    /// A pod of ours that is not known.
    UnknownPod(IpAddr),
    /// Anybody else.
    Outside(IpAddr),
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Source and destination are one pod: allowed.
    SamePod,
    /// The source is the pod's own node: allowed.
    OwnNode,
    /// The end is no pod, and has no say.
    NoPod,
    /// The pod runs on another node, named here, which judges it.
    JudgedElsewhere(String),
    /// No pod is known at this address of ours; whether it is refused.
    UnknownPod {
        /// Whether that is a reason to refuse.
        refused: bool,
    },
    /// A policy was asked.
    Policy(PolicyStep),
    /// A rule of an ordered tier decided: the flow is allowed or refused.
    Decided(Tier, Action),
    /// A rule passed: the rest of the tier is left out.
    Passed(Tier),
    /// No rule of an ordered tier matches.
    NoRule(Tier),
    /// Policies isolate the pod in this direction; whether any of their rules accepts. Final.
    Isolated {
        /// Whether one does.
        accepted: bool,
    },
    /// No NetworkPolicy isolates the pod in this direction.
    NotIsolated,
    /// Nobody had a word: allowed.
    Default,
}

/// A policy that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyStep {
    /// Its tier.
    pub tier: Tier,
    /// Which policy.
    pub policy: ObjectId,
    /// Whether it is about this pod and direction.
    pub selected: Selected,
    /// Its rules for this direction; none unless it is.
    pub rules: Vec<RuleStep>,
}

/// Whether a policy is about a pod in a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selected {
    /// It is.
    Yes,
    /// It selects other pods.
    OtherPods,
    /// It selects the pod, but says nothing of this direction.
    OtherDirection,
}

/// A rule that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleStep {
    /// Its number in its policy and direction, from 0.
    pub number: u32,
    /// Its name, if it has one.
    pub name: String,
    /// What it does.
    pub action: Action,
    /// Whether it matches.
    pub outcome: RuleOutcome,
}

/// Whether a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleOutcome {
    /// It does.
    Matches,
    /// It was not understood and would refuse or pass: it refuses everything.
    FailsClosed,
    /// It is about others than the other end.
    OtherPeer,
    /// It is about that end, but other ports or protocols.
    OtherPorts,
}

impl Explanation {
    /// What the steps come to. It is the engine's verdict; anything else is a defect in one of them.
    #[must_use]
    pub fn conclusion(&self) -> Verdict {
        let (egress, ingress) = (self.egress.refusal, self.ingress.refusal);
        match (egress, ingress) {
            (None, None) => Verdict::Allowed,
            _ => Verdict::Refused(crate::policy::Refused { egress, ingress }),
        }
    }
}

impl End {
    /// Its address.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        match self {
            Self::Pod(_, address)
            | Self::Node(_, address)
            | Self::Host(address)
            | Self::UnknownPod(address)
            | Self::Outside(address) => *address,
        }
    }
}
