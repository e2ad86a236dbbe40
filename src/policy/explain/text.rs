//! Explanations in plain English.

use std::fmt;

use super::explanation::{Direction, End, Explanation, PolicyStep, RuleOutcome, RuleStep, Selected, Side, Step};
use crate::policy::Verdict;
use crate::policy::model::{Action, Tier};

impl fmt::Display for Explanation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.verdict == Verdict::Allowed { "allowed" } else { "refused" };
        writeln!(to, "{}: {verdict}", self.flow)?;
        write!(to, "{}\n{}", self.egress, self.ingress)
    }
}

impl fmt::Display for Side {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.refusal.is_none() { "allowed" } else { "refused" };
        let towards = if self.direction == Direction::Egress { "to" } else { "from" };
        write!(to, "{} of {} {towards} {}: {verdict}", self.direction, self.subject, self.peer)?;
        self.steps.iter().try_for_each(|step| write!(to, "\n  {step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SamePod => to.write_str("allowed: a pod may always talk to itself"),
            Self::OwnNode => to.write_str("allowed: a pod's own node may always talk to it"),
            Self::NoPod => to.write_str("no say: not a pod"),
            Self::JudgedElsewhere(node) if node.is_empty() => to.write_str("no say: the pod's node is not known"),
            Self::JudgedElsewhere(node) => write!(to, "no say: the pod runs on node {node}, which judges it"),
            Self::UnknownPod { refused: true } => to.write_str("refused: no pod is known at this address of ours"),
            Self::UnknownPod { refused: false } => {
                to.write_str("allowed: no pod is known at this address of ours, and unknown pods are let be")
            }
            Self::Policy(step) => step.fmt(to),
            Self::Decided(tier, Action::Deny) => write!(to, "refused: that is the {tier} tier's word"),
            Self::Decided(tier, _) => write!(to, "allowed: that is the {tier} tier's word"),
            Self::Passed(tier) => write!(to, "the rest of the {tier} tier is passed over"),
            Self::NoRule(tier) => write!(to, "no rule of the {tier} tier matches"),
            Self::Isolated { accepted: true } => to.write_str("allowed: the pod is isolated, and a rule accepts"),
            Self::Isolated { accepted: false } => to.write_str("refused: the pod is isolated, and no rule accepts"),
            Self::NotIsolated => to.write_str("no NetworkPolicy isolates the pod in this direction"),
            Self::Default => to.write_str("allowed: nobody said otherwise"),
        }
    }
}

impl fmt::Display for PolicyStep {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} tier, {}: ", self.tier, self.policy)?;
        match self.selected {
            Selected::OtherPods => to.write_str("selects other pods"),
            Selected::OtherDirection => to.write_str("selects the pod, but not for this direction"),
            Selected::Yes if self.rules.is_empty() => to.write_str("selects the pod, and has no rules"),
            Selected::Yes => {
                to.write_str("selects the pod")?;
                self.rules.iter().try_for_each(|rule| write!(to, "\n    {rule}"))
            }
        }
    }
}

impl fmt::Display for RuleStep {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "rule {}", self.number)?;
        if !self.name.is_empty() {
            write!(to, " ({})", self.name)?;
        }
        write!(to, ", {}: {}", self.action, self.outcome)
    }
}

impl fmt::Display for RuleOutcome {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Matches => "matches",
            Self::FailsClosed => "not understood, so it refuses everything",
            Self::OtherPeer => "is about others",
            Self::OtherPorts => "is about other ports",
        })
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(id, address) | Self::Node(id, address) => write!(to, "{id} ({address})"),
            Self::Host(address) => write!(to, "the host ({address})"),
            Self::UnknownPod(address) => write!(to, "an unknown pod ({address})"),
            Self::Outside(address) => write!(to, "{address}"),
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Admin => "Admin",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::Baseline => "Baseline",
        })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Accept => "accept",
            Self::Deny => "deny",
            Self::Pass => "pass",
        })
    }
}
