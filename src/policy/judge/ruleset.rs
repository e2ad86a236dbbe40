//! The rules of a pod, tier by tier.

use std::sync::Arc;

use super::matcher::{MatchRule, Matcher, Peer, Target};
use crate::policy::model::{Action, PodPort};

/// What was compiled for pods that the same policies select and that name the same ports.
#[derive(Debug, Default)]
pub struct RuleSets {
    /// For what comes to them.
    pub ingress: DirectionRules,
    /// For what leaves them.
    pub egress: DirectionRules,
}

/// The rules of one direction.
#[derive(Debug, Default)]
pub struct DirectionRules {
    /// The Admin tier's, if it has any.
    pub admin: Option<Arc<TierRules>>,
    /// The first of the policies that isolate, and what those accept; `None` if none isolates.
    pub isolation: Option<(u32, Arc<TierRules>)>,
    /// The Baseline tier's, if it has any.
    pub baseline: Option<Arc<TierRules>>,
}

/// The rules of one tier and direction, in order.
#[derive(Debug)]
pub struct TierRules {
    rules: Box<[OrderedRule]>,
    matcher: Matcher,
}

/// A rule, known by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedRule {
    /// Its policy.
    pub policy: u32,
    /// Its number in that policy and direction.
    pub rule: u32,
    /// What it does.
    pub action: Action,
}

/// Why a pod refuses. Policies are numbered as the compiler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is isolated, first by this policy, and nothing accepts.
    Isolated(u32),
    /// This rule of this policy denies.
    Denied(u32, u32),
}

impl DirectionRules {
    /// Whether there is no rule at all, so that everything is allowed.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.admin.is_none() && self.isolation.is_none() && self.baseline.is_none()
    }

    /// Why this pod refuses, if it does.
    #[inline]
    pub fn refusal(&self, peer: &Peer, target: &Target) -> Option<Refusal> {
        match self.admin.as_ref().and_then(|tier| tier.first(peer, target)).map(|rule| (rule.action, rule)) {
            Some((Action::Accept, _)) => return None,
            Some((Action::Deny, rule)) => return Some(Refusal::Denied(rule.policy, rule.rule)),
            Some((Action::Pass, _)) | None => {}
        }
        if let Some((by, accepted)) = &self.isolation {
            return (!accepted.matcher.matches(peer, target)).then_some(Refusal::Isolated(*by));
        }
        let rule = self.baseline.as_ref()?.first(peer, target)?;
        (rule.action == Action::Deny).then_some(Refusal::Denied(rule.policy, rule.rule))
    }
}

impl TierRules {
    /// Compiles. `own`: see [`Matcher::new`].
    pub fn new(rules: &[(OrderedRule, MatchRule)], own: Option<&[PodPort]>) -> Self {
        let (rules, matched): (Vec<_>, Vec<_>) = rules.iter().copied().unzip();
        Self { rules: rules.into(), matcher: Matcher::new(&matched, own) }
    }

    #[inline]
    fn first(&self, peer: &Peer, target: &Target) -> Option<&OrderedRule> {
        self.rules.get(self.matcher.first(peer, target)? as usize)
    }
}
