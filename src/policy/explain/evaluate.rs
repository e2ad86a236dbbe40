//! The rules of the field, applied one by one to objects as they are known.

use std::net::IpAddr;
use std::ops::ControlFlow;

use super::explanation::{Direction, End, Explanation, PolicyStep, RuleOutcome, RuleStep, Selected, Side, Step};
use crate::net::{FlowKey, address_bits, address_of};
use crate::policy::compile::Objects;
use crate::policy::model::{Action, Labels, ObjectId, Peer, Pod, Policy, Ports, Rule, Selector, Subject, Tier};
use crate::policy::{Cause, Scope, UnknownPods, Verdict};

/// What is known, and whose flows are judged.
struct Evaluation<'a> {
    objects: &'a Objects,
    scope: &'a Scope,
}

/// One side of a flow.
struct Asked<'a> {
    direction: Direction,
    flow: FlowKey,
    subject: IpAddr,
    peer: IpAddr,
    pod: Option<&'a Pod>,
    other: Option<&'a Pod>,
}

impl Explanation {
    /// Explains `flow`; `verdict` is what the engine answered.
    pub(in crate::policy) fn new(flow: FlowKey, verdict: Verdict, objects: &Objects, scope: &Scope) -> Self {
        let evaluation = Evaluation { objects, scope };
        let side = |direction| evaluation.side(direction, flow);
        Self { flow, verdict, egress: side(Direction::Egress), ingress: side(Direction::Ingress) }
    }
}

impl Evaluation<'_> {
    fn side(&self, direction: Direction, flow: FlowKey) -> Side {
        let (source, destination) = (address_of(flow.source), address_of(flow.destination));
        let (subject, peer) = match direction {
            Direction::Egress => (source, destination),
            Direction::Ingress => (destination, source),
        };
        let asked = Asked { direction, flow, subject, peer, pod: self.pod(subject), other: self.pod(peer) };
        let mut steps = Vec::new();
        let refusal = self.decide(&asked, &mut steps);
        Side { direction, subject: self.end(subject), peer: self.end(peer), steps, refusal }
    }

    fn decide(&self, asked: &Asked, steps: &mut Vec<Step>) -> Option<Cause> {
        let mut allowed = |step| {
            steps.push(step);
            None
        };
        let is_same = asked.pod.zip(asked.other).is_some_and(|(one, two)| std::ptr::eq(one, two));
        if asked.subject == asked.peer || is_same {
            return allowed(Step::SamePod);
        }
        let end = self.end(asked.subject);
        if asked.pod.is_none() && !matches!(end, End::UnknownPod(_)) {
            return allowed(Step::NoPod);
        }
        if asked.direction == Direction::Ingress && self.is_own_node(asked.peer, asked.pod) {
            return allowed(Step::OwnNode);
        }
        let Some(pod) = asked.pod else {
            let refused = self.scope.unknown_pods == UnknownPods::Refuse;
            steps.push(Step::UnknownPod { refused });
            return refused.then_some(Cause::UnknownPod);
        };
        if self.scope.node.as_ref().is_some_and(|node| pod.node != *node)
            && !pod.addresses.iter().any(|address| self.is_ours(*address))
        {
            return allowed(Step::JudgedElsewhere(pod.node.clone()));
        }
        if let ControlFlow::Break(decided) = self.ordered(Tier::Admin, asked, pod, steps) {
            return decided;
        }
        if let ControlFlow::Break(decided) = self.isolation(asked, pod, steps) {
            return decided;
        }
        if let ControlFlow::Break(decided) = self.ordered(Tier::Baseline, asked, pod, steps) {
            return decided;
        }
        steps.push(Step::Default);
        None
    }

    /// A tier whose first matching rule decides.
    fn ordered(&self, tier: Tier, asked: &Asked, pod: &Pod, steps: &mut Vec<Step>) -> ControlFlow<Option<Cause>> {
        let mut policies = self.policies(tier, pod);
        policies.sort_by_key(|(_, _, policy)| policy.priority);
        let any = !policies.is_empty();
        for (rank, id, policy) in policies {
            let mut step = self.policy(asked, pod, id, policy);
            let matches = |rule: &RuleStep| matches!(rule.outcome, RuleOutcome::Matches | RuleOutcome::FailsClosed);
            let first = step.rules.iter().position(matches);
            // What comes after it was never asked.
            step.rules.truncate(first.map_or(usize::MAX, |first| first + 1));
            let decided = first.and_then(|_| step.rules.last()).map(|rule| {
                let closed = rule.outcome == RuleOutcome::FailsClosed;
                (rule.number, if closed { Action::Deny } else { rule.action })
            });
            steps.push(Step::Policy(step));
            match decided {
                None => {}
                Some((_, Action::Pass)) => {
                    steps.push(Step::Passed(tier));
                    return ControlFlow::Continue(());
                }
                Some((number, action)) => {
                    steps.push(Step::Decided(tier, action));
                    return ControlFlow::Break((action == Action::Deny).then_some(Cause::Denied(rank, number)));
                }
            }
        }
        if any {
            steps.push(Step::NoRule(tier));
        }
        ControlFlow::Continue(())
    }

    /// The tier that is a union of what is accepted.
    fn isolation(&self, asked: &Asked, pod: &Pod, steps: &mut Vec<Step>) -> ControlFlow<Option<Cause>> {
        let mut isolated_by = None;
        let mut accepted = false;
        for (rank, id, policy) in self.policies(Tier::NetworkPolicy, pod) {
            let step = self.policy(asked, pod, id, policy);
            if step.selected == Selected::Yes {
                isolated_by = isolated_by.or(Some(rank));
                accepted |= step.rules.iter().any(|rule| rule.outcome == RuleOutcome::Matches);
            }
            steps.push(Step::Policy(step));
        }
        let Some(first) = isolated_by else {
            steps.push(Step::NotIsolated);
            return ControlFlow::Continue(());
        };
        steps.push(Step::Isolated { accepted });
        ControlFlow::Break((!accepted).then_some(Cause::Isolated(first)))
    }

    /// The policies of a tier that could be about a pod, with their numbers, in the order of their names.
    fn policies(&self, tier: Tier, pod: &Pod) -> Vec<(u32, &ObjectId, &Policy)> {
        let all = (0..).zip(self.objects.policies.numbers());
        let all = all.filter_map(|(rank, number)| self.objects.policies.get(number).map(|(id, policy)| (rank, &**id, &**policy)));
        let could = |policy: &Policy| match policy.subject {
            Subject::Own(_) => policy.namespace == pod.namespace,
            Subject::Cluster { .. } => true,
        };
        all.filter(|(_, _, policy)| policy.tier == tier && could(policy)).collect()
    }

    fn policy(&self, asked: &Asked, pod: &Pod, id: &ObjectId, policy: &Policy) -> PolicyStep {
        let selects = match &policy.subject {
            Subject::Own(pods) => pods.matches(&pod.labels),
            Subject::Cluster { namespaces, pods } => self.selects(namespaces, pods, pod),
        };
        let rules = match asked.direction {
            Direction::Ingress => &policy.ingress,
            Direction::Egress => &policy.egress,
        };
        let (selected, rules) = match rules {
            _ if !selects => (Selected::OtherPods, Vec::new()),
            None => (Selected::OtherDirection, Vec::new()),
            Some(rules) => {
                let step = |(number, rule): (u32, &Rule)| {
                    let outcome = self.rule(asked, pod, policy, rule);
                    RuleStep { number, name: rule.name.clone(), action: rule.action, outcome }
                };
                (Selected::Yes, (0..).zip(rules).map(step).collect())
            }
        };
        PolicyStep { tier: policy.tier, policy: id.clone(), selected, rules }
    }

    fn rule(&self, asked: &Asked, pod: &Pod, policy: &Policy, rule: &Rule) -> RuleOutcome {
        let peers = rule.peers.as_deref();
        if rule.action != Action::Accept && peers.unwrap_or_default().contains(&Peer::Unintelligible) {
            return RuleOutcome::FailsClosed;
        }
        if !peers.is_none_or(|peers| peers.iter().any(|peer| self.peer(asked, policy, peer))) {
            return RuleOutcome::OtherPeer;
        }
        let target = match asked.direction {
            Direction::Ingress => Some(pod),
            Direction::Egress => asked.other,
        };
        let ports = rule.ports.as_deref();
        let matches = ports.is_none_or(|ports| ports.iter().any(|ports| port(asked.flow, target, ports)));
        if matches { RuleOutcome::Matches } else { RuleOutcome::OtherPorts }
    }

    fn peer(&self, asked: &Asked, policy: &Policy, peer: &Peer) -> bool {
        match peer {
            Peer::Own(pods) => {
                asked.other.is_some_and(|other| other.namespace == policy.namespace && pods.matches(&other.labels))
            }
            Peer::Pods { namespaces, pods } => asked.other.is_some_and(|other| self.selects(namespaces, pods, other)),
            Peer::Block(block) => block.contains(asked.peer),
            Peer::Nodes(selector) => {
                let mut nodes = self.objects.nodes.values();
                nodes.any(|node| node.addresses.contains(&asked.peer) && selector.matches(&node.labels))
            }
            Peer::Nothing | Peer::Unintelligible => false,
        }
    }

    fn selects(&self, namespaces: &Selector, pods: &Selector, pod: &Pod) -> bool {
        let named = || Labels::from([("kubernetes.io/metadata.name".to_owned(), pod.namespace.clone())]);
        let labels = self.objects.namespaces.get(&pod.namespace).map_or_else(named, |namespace| namespace.labels.clone());
        namespaces.matches(&labels) && pods.matches(&pod.labels)
    }

    fn pod(&self, address: IpAddr) -> Option<&Pod> {
        let number = self.objects.owner(address_bits(address))?;
        self.objects.pods.get(number).map(|(_, pod)| &**pod)
    }

    fn end(&self, address: IpAddr) -> End {
        let node = || self.objects.nodes.values().find(|node| node.addresses.contains(&address));
        if let Some(pod) = self.pod(address) {
            return End::Pod(ObjectId::Pod { namespace: pod.namespace.clone(), name: pod.name.clone() }, address);
        }
        if let Some(node) = node() {
            return End::Node(ObjectId::Node(node.name.clone()), address);
        }
        match (self.scope.host.contains(&address), self.is_ours(address)) {
            (true, _) => End::Host(address),
            (false, true) => End::UnknownPod(address),
            (false, false) => End::Outside(address),
        }
    }

    fn is_own_node(&self, address: IpAddr, pod: Option<&Pod>) -> bool {
        let ours = self.scope.node.as_deref().unwrap_or_default();
        let name = pod.map(|pod| &*pod.node).filter(|node| !node.is_empty()).unwrap_or(ours);
        self.scope.host.contains(&address) || self.objects.nodes.get(name).is_some_and(|node| node.addresses.contains(&address))
    }

    fn is_ours(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.scope.own4.iter().any(|own| own.contains(address)),
            IpAddr::V6(address) => self.scope.own6.iter().any(|own| own.contains(address)),
        }
    }
}

/// Whether a flow to `target` goes to such ports.
fn port(flow: FlowKey, target: Option<&Pod>, ports: &Ports) -> bool {
    if !flow.protocol.has_ports() {
        return false;
    }
    match ports {
        Ports::Numbers { protocol, first, last } => {
            flow.protocol == *protocol && (*first == 0 || (*first..=*last).contains(&flow.destination_port))
        }
        Ports::Named { name, protocol } => target.into_iter().flat_map(|pod| &pod.ports).any(|port| {
            port.name == *name
                && port.protocol == flow.protocol
                && port.number == flow.destination_port
                && protocol.is_none_or(|protocol| protocol == flow.protocol)
        }),
        Ports::Nothing => false,
    }
}
