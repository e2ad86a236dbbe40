//! Why a flow is judged as it is, in words for people and values for programs.

use serde::Serialize;
use serde_json::{Value, json};

use super::describe;
use crate::policy::model::{ObjectId, Policy, Tier};
use crate::policy::offline::{Letter, Probe, World};
use crate::policy::{Direction, End, Explanation, PolicyStep, RuleOutcome, RuleStep, Selected, Side, Step};

/// Policies named of those that say nothing.
const MOST_SILENT: usize = 3;

/// What one end has to say.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Words {
    /// Whether it allows the flow.
    pub allowed: bool,
    /// Whose word it is: `ingress of shop/db`.
    pub head: String,
    /// How it comes to that, a line for each policy and rule; those of rules are indented.
    pub lines: Vec<String>,
}

/// The words of an end; `None`: it is no pod, and has none.
pub fn words(side: &Side, world: &World) -> Option<Words> {
    if side.steps.contains(&Step::NoPod) {
        return None;
    }
    let lines = taking_part(side).flat_map(|step| match step {
        Step::Policy(step) if step.selected == Selected::OtherDirection => Vec::new(),
        Step::Policy(step) => policy_lines(step, side.direction, world),
        other => vec![other.to_string()],
    });
    let lines = silent(side).into_iter().chain(lines).collect();
    Some(Words { allowed: side.refusal.is_none(), head: head(side), lines })
}

/// The whole explanation for people.
pub fn text(explanation: &Explanation, world: &World) -> String {
    let sides = [&explanation.egress, &explanation.ingress].map(|side| match words(side, world) {
        Some(Words { allowed, head, lines }) => {
            let verdict = if allowed { "allowed" } else { "refused" };
            std::iter::once(format!("{head}: {verdict}"))
                .chain(lines.iter().map(|line| format!("  {line}")))
                .collect::<Vec<_>>()
                .join("\n")
        }
        None => format!("{}: no say, not a pod", head(side)),
    });
    sides.join("\n")
}

/// One line for each end that refuses the flow; if none does, for each that lets it through.
pub fn reasons(explanation: &Explanation) -> Vec<String> {
    let is_allowed = Letter::of(explanation.verdict) == Letter::Allowed;
    let sides = [&explanation.egress, &explanation.ingress].into_iter();
    let speaking = sides.filter(|side| if is_allowed { !side.steps.contains(&Step::NoPod) } else { side.refusal.is_some() });
    speaking.map(|side| format!("{}: {}", head(side), reason(side))).collect()
}

/// The whole explanation for programs.
pub fn value(explanation: &Explanation, probe: Probe, world: &World) -> Value {
    let letter = Letter::of(explanation.verdict);
    json!({
        "protocol": probe.protocol.to_string(),
        "port": probe.port,
        "source": explanation.egress.subject.address(),
        "destination": explanation.ingress.subject.address(),
        "allowed": letter == Letter::Allowed,
        "letter": letter.as_char(),
        "egress": side_value(&explanation.egress, world),
        "ingress": side_value(&explanation.ingress, world),
    })
}

fn side_value(side: &Side, world: &World) -> Value {
    let policies = taking_part(side).filter_map(|step| match step {
        Step::Policy(step) => Some(policy_value(step)),
        _ => None,
    });
    json!({
        "end": name(&side.subject),
        "allowed": side.refusal.is_none(),
        "policies": policies.collect::<Vec<_>>(),
        "text": words(side, world).map(|words| words.lines).unwrap_or_default(),
    })
}

fn policy_value(step: &PolicyStep) -> Value {
    let (kind, namespace, name) = match &step.policy {
        ObjectId::Policy { kind, namespace, name } => (kind.as_str(), namespace.as_str(), name.as_str()),
        _ => ("", "", ""),
    };
    let rules = step.rules.iter().map(|rule| {
        let outcome = match rule.outcome {
            RuleOutcome::Matches => "matches",
            RuleOutcome::FailsClosed => "fails-closed",
            RuleOutcome::OtherPeer => "other-peer",
            RuleOutcome::OtherPorts => "other-ports",
        };
        json!({"index": rule.number, "name": rule.name, "action": rule.action.to_string(), "outcome": outcome})
    });
    json!({
        "tier": step.tier.to_string(),
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "speaks_of_direction": step.selected == Selected::Yes,
        "rules": rules.collect::<Vec<_>>(),
    })
}

/// Policies about other pods take no part, however many there are, and then their tier has not been asked either.
fn taking_part(side: &Side) -> impl Iterator<Item = &Step> {
    let takes_part = |step: &PolicyStep| step.selected != Selected::OtherPods;
    let is_asked = move |tier: Tier| {
        side.steps.iter().any(|step| matches!(step, Step::Policy(step) if step.tier == tier && takes_part(step)))
    };
    side.steps.iter().filter(move |step| match step {
        Step::Policy(step) => takes_part(step),
        Step::NoRule(tier) => is_asked(*tier),
        _ => true,
    })
}

fn head(side: &Side) -> String {
    format!("{} of {}", side.direction, name(&side.subject))
}

/// An end as it is written on the command line.
fn name(end: &End) -> String {
    match end {
        End::Pod(ObjectId::Pod { namespace, name }, _) => format!("{namespace}/{name}"),
        End::Node(ObjectId::Node(name), _) => format!("node:{name}"),
        other => other.to_string(),
    }
}

/// One line for all policies that select the pod, but say nothing of this direction.
fn silent(side: &Side) -> Option<String> {
    let silent = side.steps.iter().filter_map(|step| match step {
        Step::Policy(step) if step.selected == Selected::OtherDirection => Some(step.policy.to_string()),
        _ => None,
    });
    let mut names: Vec<String> = silent.collect();
    let says = if names.len() == 1 { "says" } else { "say" };
    let more = names.len().saturating_sub(MOST_SILENT);
    names.truncate(MOST_SILENT);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    (!names.is_empty()).then(|| format!("{} {says} nothing of {}", names.join(", "), side.direction))
}

fn policy_lines(step: &PolicyStep, direction: Direction, world: &World) -> Vec<String> {
    let Some(policy) = world.policy(&step.policy) else { return vec![step.to_string()] };
    let rules = step.rules.iter().map(|rule| format!("  {}", rule_line(policy, direction, rule)));
    std::iter::once(describe::policy(policy, direction)).chain(rules).collect()
}

fn rule_line(policy: &Policy, direction: Direction, rule: &RuleStep) -> String {
    let number = usize::try_from(rule.number).unwrap_or(usize::MAX);
    let outcome = match rule.outcome {
        RuleOutcome::Matches => "matches",
        RuleOutcome::FailsClosed => "not understood, so it refuses everything",
        RuleOutcome::OtherPeer => "the other end is none of these",
        RuleOutcome::OtherPorts => "another port",
    };
    format!("{}: {outcome}", describe::rule(policy, direction, number))
}

/// The step that decides, and the policies behind it.
fn reason(side: &Side) -> String {
    let last = side.steps.last().map(ToString::to_string).unwrap_or_default();
    let mut asked = side.steps.iter().filter_map(|step| match step {
        Step::Policy(step) if step.selected == Selected::Yes => Some(step),
        _ => None,
    });
    let accepts = |step: &PolicyStep| step.rules.iter().any(|rule| rule.outcome == RuleOutcome::Matches);
    let named: Vec<String> = match side.steps.last() {
        Some(Step::Isolated { accepted }) => {
            let isolating = asked.filter(|step| step.tier == Tier::NetworkPolicy && (!accepted || accepts(step)));
            isolating.map(|step| step.policy.to_string()).collect()
        }
        Some(Step::Decided(..)) => {
            let rule = |step: &PolicyStep| step.rules.last().map_or(0, |rule| rule.number);
            asked.next_back().map(|step| format!("{}, {}[{}]", step.policy, side.direction, rule(step))).into_iter().collect()
        }
        _ => Vec::new(),
    };
    if named.is_empty() { last } else { format!("{last} ({})", named.join(", ")) }
}
