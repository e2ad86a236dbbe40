//! What to measure, how long, how often, and in which order.

use std::time::{Duration, Instant};

use super::{Job, Measure, Path, Underlay};

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Over which underlays.
    pub underlays: Vec<Underlay>,
    /// Along which paths.
    pub paths: Vec<Path>,
    /// Which figures.
    pub measures: Vec<Measure>,
    /// How often everything is measured, from 1.
    pub rounds: u32,
    /// How long each run takes.
    pub timing: Timing,
    /// No round but the first is begun that would not end by then, going by the last one's time.
    pub deadline: Option<Instant>,
}

/// How long each run of a load generator takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// TCP, before bytes are counted.
    pub warm_up: Duration,
    /// TCP, while bytes are counted.
    pub tcp: Duration,
    /// One rate tried in the search for the highest.
    pub trial: Duration,
    /// Trials of such a search, at most.
    pub trials: u32,
    /// Round trips, of each kind.
    pub round_trips: Duration,
}

impl Timing {
    /// Runs whose TCP part counts for `tcp`; the others' times are in proportion.
    #[must_use]
    pub fn of(tcp: Duration) -> Self {
        Self {
            warm_up: (tcp / 4).max(Duration::from_millis(100)),
            tcp,
            trial: tcp.mul_f64(0.4),
            trials: 14,
            round_trips: tcp / 2,
        }
    }

    /// Runs as short as still makes sense: two rounds of everything within a minute, coarse and noisy.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            warm_up: Duration::from_millis(100),
            tcp: Duration::from_millis(200),
            trial: Duration::from_millis(100),
            trials: 7,
            round_trips: Duration::from_millis(120),
        }
    }
}

/// One run of a load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) underlay: Underlay,
    pub(super) path: Path,
    pub(super) job: Job,
}

impl Plan {
    /// Rounds of a whole run.
    pub const ROUNDS: u32 = 3;
    /// Rounds of a quick one, time permitting.
    pub const QUICK_ROUNDS: u32 = 2;

    /// Every usual path, thoroughly: some minutes.
    #[must_use]
    pub fn whole() -> Self {
        Self {
            underlays: Underlay::ALL.to_vec(),
            paths: Path::USUAL.to_vec(),
            measures: Measure::ALL.to_vec(),
            rounds: Self::ROUNDS,
            timing: Timing::of(Duration::from_secs(1)),
            deadline: None,
        }
    }

    /// The runs of round `round`, from 0, in order.
    ///
    /// Each job goes over all paths before the next begins, so that what is compared is measured within seconds. Who comes
    /// first changes from round to round, so that no path always has the machine as another left it.
    pub(super) fn tasks(&self, round: u32) -> Vec<Task> {
        let mut tasks = Vec::new();
        let jobs = self.jobs();
        for underlay in rotated(&self.underlays, round) {
            for (number, job) in (0..).zip(&jobs) {
                for path in rotated(&self.paths, round + number) {
                    tasks.push(Task { underlay, path, job: *job });
                }
            }
        }
        tasks
    }

    /// The jobs that yield the measures, each once.
    fn jobs(&self) -> Vec<Job> {
        let mut jobs: Vec<Job> = Vec::new();
        for job in Measure::ALL.iter().filter(|measure| self.measures.contains(measure)).map(|measure| measure.job()) {
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        jobs
    }
}

fn rotated<T: Copy>(all: &[T], by: u32) -> impl Iterator<Item = T> {
    all.iter().copied().cycle().skip(by as usize % all.len().max(1)).take(all.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_holds_everything_once() {
        let plan = Plan::whole();
        for round in 0..5 {
            let tasks = plan.tasks(round);
            assert_eq!(tasks.len(), 2 * 4 * 7);
            for underlay in Underlay::ALL {
                for path in Path::USUAL {
                    let jobs = plan.jobs();
                    let found: Vec<_> = tasks.iter().filter(|task| (task.underlay, task.path) == (underlay, path)).collect();
                    assert_eq!(found.len(), jobs.len());
                    assert!(jobs.iter().all(|job| found.iter().any(|task| task.job == *job)));
                }
            }
        }
    }

    #[test]
    fn paths_take_turns_in_coming_first() {
        let first = |round| Plan::whole().tasks(round).first().copied();
        let firsts: Vec<_> = (0..4).filter_map(|round| Some(first(round)?.path)).collect();
        assert_eq!(firsts, Path::USUAL);
        assert_eq!(first(1).map(|task| task.underlay), Some(Underlay::Single));
    }

    #[test]
    fn one_job_yields_several_measures() {
        let only = |measures: &[Measure]| Plan { measures: measures.to_vec(), ..Plan::whole() }.jobs();
        assert_eq!(only(&[Measure::CpuDaemons, Measure::Tcp1]), [Job::Tcp { streams: 1, reverse: false }]);
        assert_eq!(only(&[Measure::RttP99]), [Job::RoundTrip { idle: false }]);
        assert_eq!(only(&[]), []);
    }
}
