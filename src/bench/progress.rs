//! Who hears how a benchmark goes while it goes.

use super::{Job, Measure, Path, Underlay};

/// One run, as progress tells it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The round, from 1.
    pub round: u32,
    /// How many rounds are planned.
    pub rounds: u32,
    /// The run within all, from 1.
    pub number: usize,
    /// How many runs are planned in all.
    pub total: usize,
    /// Over which underlay.
    pub underlay: Underlay,
    /// Along which path.
    pub path: Path,
    /// What runs.
    pub job: Job,
}

/// Hears how it goes.
pub trait Progress {
    /// A run begins.
    fn begins(&mut self, step: &Step);
    /// It is done, and brought these values.
    fn done(&mut self, step: &Step, values: &[(Measure, f64)]);
    /// Something a reader should know; it is in the report's notes too.
    fn note(&mut self, note: &str);
}

/// Tells nobody.
#[derive(Debug)]
pub struct Silent;

impl Progress for Silent {
    fn begins(&mut self, _: &Step) {}
    fn done(&mut self, _: &Step, _: &[(Measure, f64)]) {}
    fn note(&mut self, _: &str) {}
}
