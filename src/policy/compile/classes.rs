//! Rule sets, shared by the pods that the same policies select and that name the same ports.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::catalogue::{Catalogue, Entry, FlatRule};
use super::compiler::Numbers;
use crate::policy::judge::{AtomSet, DirectionRules, MatchRule, OrderedRule, RuleSets, TierRules};
use crate::policy::model::{PodPort, Ports, Tier};

/// Rule sets that were compiled.
#[derive(Debug, Default)]
pub struct Classes {
    by_pods: HashMap<PodsKey, Arc<RuleSets>>,
    /// What they are put together from: pods with different policies of their own share the administrator's.
    tiers: HashMap<TierKey, Arc<TierRules>>,
}

/// The selectors of subjects that match a pod, and its ports that have names.
type PodsKey = (Arc<AtomSet>, Arc<[PodPort]>);

/// Which rules of a tier.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TierKey {
    direction: Direction,
    /// In order.
    policies: Vec<u32>,
    /// The ports that have names in the pods they are for, if the rules care.
    ports: Option<Arc<[PodPort]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Direction {
    Ingress,
    Egress,
}

/// A policy with its number and its rules for a direction.
type Speaking<'a> = (u32, &'a Entry, &'a [FlatRule]);

/// Rule sets that no pod may have before somebody looks.
const SPARE: usize = 64;

impl Classes {
    /// The rules of pods that these selectors of subjects match.
    pub fn rules(
        &mut self,
        subjects: &Arc<AtomSet>,
        ports: &Arc<[PodPort]>,
        catalogue: &Catalogue,
        numbers: &Numbers,
    ) -> Arc<RuleSets> {
        let key = (Arc::clone(subjects), Arc::clone(ports));
        if let Some(known) = self.by_pods.get(&key) {
            return Arc::clone(known);
        }
        let mut policies: Vec<_> = catalogue.of_subjects(subjects.atoms()).collect();
        policies.sort_by_key(|(number, _)| numbers.rank(*number));
        let rules = Arc::new(RuleSets {
            ingress: self.direction(Direction::Ingress, &policies, ports),
            egress: self.direction(Direction::Egress, &policies, ports),
        });
        self.by_pods.insert(key, Arc::clone(&rules));
        rules
    }

    /// These policies, which have these subjects or had them, are others now.
    pub fn forget(&mut self, policies: &BTreeSet<u32>, subjects: &AtomSet) {
        if !policies.is_empty() {
            self.by_pods.retain(|(selected, _), _| !selected.meets(subjects));
            self.tiers.retain(|key, _| !key.policies.iter().any(|policy| policies.contains(policy)));
        }
    }

    /// Drops what nobody has, if that may be much.
    pub fn tidy(&mut self, pods: usize) {
        if self.by_pods.len() > pods + SPARE {
            self.by_pods.retain(|_, rules| Arc::strong_count(rules) > 1);
        }
        if self.tiers.len() > 6 * self.by_pods.len() + SPARE {
            self.tiers.retain(|_, rules| Arc::strong_count(rules) > 1);
        }
    }

    /// `policies` come in the order of their names.
    fn direction(&mut self, direction: Direction, policies: &[(u32, &Entry)], ports: &Arc<[PodPort]>) -> DirectionRules {
        let of = |tier| -> Vec<Speaking> {
            let speaking = policies.iter().filter(|(_, entry)| entry.tier == tier).filter_map(|(number, entry)| {
                let rules = match direction {
                    Direction::Ingress => &entry.ingress,
                    Direction::Egress => &entry.egress,
                };
                Some((*number, *entry, rules.as_deref()?))
            });
            speaking.collect()
        };
        let mut ordered = |tier| {
            let mut policies = of(tier);
            policies.retain(|(_, _, rules)| !rules.is_empty());
            // Stable: names decide where priorities do not.
            policies.sort_by_key(|(_, entry, _)| entry.priority);
            (!policies.is_empty()).then(|| self.tier(direction, &policies, ports))
        };
        let (admin, baseline) = (ordered(Tier::Admin), ordered(Tier::Baseline));
        let isolating = of(Tier::NetworkPolicy);
        let isolation = isolating.first().map(|(by, _, _)| (*by, self.tier(direction, &isolating, ports)));
        DirectionRules { admin, isolation, baseline }
    }

    fn tier(&mut self, direction: Direction, policies: &[Speaking], ports: &Arc<[PodPort]>) -> Arc<TierRules> {
        let own = (direction == Direction::Ingress).then_some(ports);
        let names_ports = policies.iter().flat_map(|(_, _, rules)| *rules).any(names_ports);
        let key = TierKey {
            direction,
            policies: policies.iter().map(|(number, _, _)| *number).collect(),
            ports: own.filter(|_| names_ports).cloned(),
        };
        let rules = self.tiers.entry(key).or_insert_with(|| {
            let rules = policies.iter().flat_map(|(policy, _, rules)| {
                (0..).zip(*rules).map(|(rule, flat)| {
                    let matched = MatchRule { peers: flat.peers.as_ref(), ports: flat.ports.as_deref() };
                    (OrderedRule { policy: *policy, rule, action: flat.action }, matched)
                })
            });
            Arc::new(TierRules::new(&rules.collect::<Vec<_>>(), own.map(|ports| &**ports)))
        });
        Arc::clone(rules)
    }
}

fn names_ports(rule: &FlatRule) -> bool {
    rule.ports.iter().flatten().any(|ports| matches!(ports, Ports::Named { .. }))
}
