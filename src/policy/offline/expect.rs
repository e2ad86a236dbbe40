//! What somebody expects of a cluster, and what holds of it.

use super::{End, ExpectError, Family, Letter, Probe, World};
use crate::net::FlowKey;
use crate::policy::model::Labels;

/// Everything expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectations(pub Vec<Expectation>);

/// That each of some ends reaches each of others, or that none does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Where it is written: `deny[2]`.
    pub place: String,
    /// What whoever wrote it says about it; may be empty.
    pub note: String,
    /// Whether the flows are to be allowed.
    pub allowed: bool,
    /// Sources.
    pub from: Vec<Who>,
    /// Destinations.
    pub to: Vec<Who>,
    /// Protocols and ports.
    pub probes: Vec<Probe>,
}

/// Whom an expectation is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// One end, as it is written.
    End(String),
    /// All pods that fit.
    Pods {
        /// Their namespace; `None`: any.
        namespace: Option<String>,
        /// Labels that their namespace has.
        namespace_labels: Labels,
        /// Labels that they have.
        labels: Labels,
    },
}

/// What became of expectations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How many flows were asked about.
    pub flows: usize,
    /// Those that are not as expected, in the order of expectations.
    pub differences: Vec<Difference>,
}

/// A flow that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which expectation, by its place in [`Expectations`].
    pub expectation: usize,
    /// The source.
    pub from: End,
    /// The destination.
    pub to: End,
    /// Protocol and port.
    pub probe: Probe,
    /// With which addresses.
    pub family: Family,
    /// The flow, to be explained.
    pub key: FlowKey,
    /// What the verdict is.
    pub found: Letter,
}

impl Expectations {
    /// Judges every flow that is expected to be or not to be.
    ///
    /// # Errors
    /// A name that names nothing, a selector that selects nothing, and an expectation that speaks of no flow at all: each would
    /// hold for ever without saying anything.
    pub fn check(&self, world: &mut World) -> Result<Outcome, Vec<ExpectError>> {
        let mut outcome = Outcome::default();
        let mut errors = Vec::new();
        for (number, expectation) in self.0.iter().enumerate() {
            if let Err(error) = expectation.check(number, world, &mut outcome) {
                errors.push(error);
            }
        }
        if errors.is_empty() { Ok(outcome) } else { Err(errors) }
    }
}

impl Expectation {
    fn check(&self, number: usize, world: &mut World, outcome: &mut Outcome) -> Result<(), ExpectError> {
        let before = outcome.flows;
        let (from, to) = (self.ends("from", &self.from, world)?, self.ends("to", &self.to, world)?);
        for (from, from_is_selected) in &from {
            for (to, to_is_selected) in &to {
                // Nobody means that by "all pods": a pod cannot be cut off from itself.
                if from.kind == to.kind && (*from_is_selected || *to_is_selected) {
                    continue;
                }
                for probe in &self.probes {
                    for family in Family::ALL {
                        let Some(key) = from.flow(to, *probe, family) else { continue };
                        outcome.flows += 1;
                        let found = Letter::of(world.verdict(from, to, &key));
                        if self.allowed != (found == Letter::Allowed) {
                            let (from, to, probe) = (from.clone(), to.clone(), *probe);
                            outcome.differences.push(Difference { expectation: number, from, to, probe, family, key, found });
                        }
                    }
                }
            }
        }
        if outcome.flows == before { Err(ExpectError::NoFlow(self.place.clone())) } else { Ok(()) }
    }

    /// The ends meant, each with whether a selector meant it.
    fn ends(&self, field: &str, all: &[Who], world: &World) -> Result<Vec<(End, bool)>, ExpectError> {
        let mut ends: Vec<(End, bool)> = Vec::new();
        for (number, who) in all.iter().enumerate() {
            let place = || match all.len() {
                1 => format!("{}.{field}", self.place),
                _ => format!("{}.{field}[{number}]", self.place),
            };
            let is_selector = matches!(who, Who::Pods { .. });
            for end in who.ends(world).map_err(|reason| ExpectError::Names { place: place(), reason })? {
                if !ends.iter().any(|(known, _)| *known == end) {
                    ends.push((end, is_selector));
                }
            }
        }
        Ok(ends)
    }
}

impl Who {
    fn ends(&self, world: &World) -> Result<Vec<End>, String> {
        let (namespace, namespace_labels, labels) = match self {
            Self::End(text) => return world.end(text).map(|end| vec![end]).map_err(|error| error.to_string()),
            Self::Pods { namespace, namespace_labels, labels } => (namespace.as_deref(), namespace_labels, labels),
        };
        if let Some(name) = namespace.filter(|name| !world.has_namespace(name)) {
            return Err(format!("there is no namespace {name} in what was read"));
        }
        let has = |all: &Labels, asked: &Labels| asked.iter().all(|(key, value)| all.get(key) == Some(value));
        let ends = world.pods(|name, of_namespace, of_pod| {
            namespace.is_none_or(|namespace| namespace == name) && has(of_namespace, namespace_labels) && has(of_pod, labels)
        });
        if ends.is_empty() { Err("no pod fits this selector".to_owned()) } else { Ok(ends) }
    }
}
