//! Going through a plan: rounds of runs, their values gathered, what went wrong noted.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::load::{self, Bulk, Found, Limit};
use super::plan::Task;
use super::samples::Samples;
use super::{Absent, BenchError, Ends, Ground, Host, Job, Measure, Path, Plan, Progress, Report, SCHEMA, Step, Underlay};
use crate::lab::Interrupt;

/// The rate the first search of all begins with, in datagrams a second: below every path worth having.
const FIRST_RATE: f64 = 50_000.0;

/// Where a search begins once a rate is known: below it, but not by far.
const BELOW_KNOWN: f64 = 0.75;

/// Measures what `plan` says on `ground`.
///
/// A path that is missing is noted and left out; so is a run that fails, and its path is tried again in the next round.
///
/// # Errors
/// When the ground fails, when `interrupt` is raised, and when nothing at all could be measured.
pub fn run(
    plan: &Plan,
    ground: &mut dyn Ground,
    progress: &mut dyn Progress,
    interrupt: &Interrupt,
) -> Result<Report, BenchError> {
    let mut bench = Bench::new(plan, ground, progress, interrupt);
    bench.rounds()?;
    bench.report()
}

struct Bench<'a> {
    plan: &'a Plan,
    ground: &'a mut dyn Ground,
    progress: &'a mut dyn Progress,
    interrupt: &'a Interrupt,
    host: Host,
    samples: Samples,
    missing: Vec<(Underlay, Path)>,
    /// Where searches of this kind ended last.
    rates: HashMap<(Path, Job), f64>,
    cpu: Machine,
    /// Searches that the sender's own limit ended.
    bounded: BTreeSet<(Underlay, Path, Measure)>,
    /// Runs that failed.
    failed: usize,
}

/// Processor time of the machine during TCP runs, in processor-seconds.
#[derive(Debug, Default)]
struct Machine {
    stolen: Duration,
    all: Duration,
}

type Values = Vec<(Measure, f64)>;

impl<'a> Bench<'a> {
    fn new(plan: &'a Plan, ground: &'a mut dyn Ground, progress: &'a mut dyn Progress, interrupt: &'a Interrupt) -> Self {
        let host = with_settings(plan, ground.host());
        let (samples, missing, rates, cpu) = (Samples::default(), Vec::new(), HashMap::new(), Machine::default());
        Self { plan, ground, progress, interrupt, host, samples, missing, rates, cpu, bounded: BTreeSet::new(), failed: 0 }
    }

    fn rounds(&mut self) -> Result<(), BenchError> {
        let total = (0..self.plan.rounds).map(|round| self.plan.tasks(round).len()).sum();
        let mut number = 0;
        for round in 0..self.plan.rounds {
            let begin = Instant::now();
            for task in self.plan.tasks(round) {
                number += 1;
                let Task { underlay, path, job } = task;
                self.interrupt.check()?;
                if self.missing.contains(&(underlay, path)) {
                    continue;
                }
                let step = Step { round: round + 1, rounds: self.plan.rounds, number, total, underlay, path, job };
                self.progress.begins(&step);
                let values = self.attempt(task)?;
                for (measure, value) in values.iter().filter(|(measure, _)| self.plan.measures.contains(measure)) {
                    self.samples.put(round, underlay, path, *measure, *value);
                }
                self.progress.done(&step, &values);
            }
            let is_last = round + 1 == self.plan.rounds;
            if !is_last && self.plan.deadline.is_some_and(|deadline| Instant::now() + begin.elapsed() > deadline) {
                self.note(format!("{} of {} rounds were made, for want of time", round + 1, self.plan.rounds));
                break;
            }
        }
        Ok(())
    }

    fn report(mut self) -> Result<Report, BenchError> {
        let results = self.samples.rows();
        if results.is_empty() {
            return Err(BenchError::Nothing(self.host.notes.join("; ")));
        }
        if !self.bounded.is_empty() {
            let bounded = self.bounded.iter().map(|(underlay, path, measure)| format!("{underlay} {path} {measure}"));
            let bounded = bounded.collect::<Vec<_>>().join(", ");
            self.note(format!("the sender could offer no more, so that the path may carry more: {bounded}"));
        }
        let share = 100.0 * self.cpu.stolen.as_secs_f64() / self.cpu.all.as_secs_f64().max(f64::MIN_POSITIVE);
        self.host.stolen_percent = (share * 10.0).round() / 10.0;
        Ok(Report { schema: SCHEMA, host: self.host, results, failed: self.failed })
    }

    /// Runs one task. Whatever goes wrong with it alone is noted, and yields no value.
    fn attempt(&mut self, task: Task) -> Result<Values, BenchError> {
        let Task { underlay, path, job } = task;
        let ends = match self.ground.ends(underlay, path) {
            Ok(ends) => ends,
            Err(Absent::Missing(reason)) => {
                self.missing.push((underlay, path));
                self.note(format!("{underlay} {path} is left out: {reason}"));
                return Ok(Values::new());
            }
            Err(Absent::Lab(error)) => return Err(error.into()),
        };
        match self.measure(&ends, task) {
            Err(error) if error.is_final() => Err(error),
            Err(error) => {
                self.failed += 1;
                self.note(format!("{underlay} {path} {job} failed: {error}"));
                Ok(Values::new())
            }
            Ok(values) => Ok(values),
        }
    }

    fn measure(&mut self, ends: &Ends, task: Task) -> Result<Values, BenchError> {
        let timing = self.plan.timing;
        match task.job {
            Job::Tcp { streams, reverse } => {
                let bulk = Bulk { streams, reverse, warm_up: timing.warm_up, time: timing.tcp };
                self.tcp(ends, bulk)
            }
            Job::Udp { payload_bytes } => self.udp(ends, task, payload_bytes),
            Job::RoundTrip { idle } => {
                let trips = load::round_trips(ends, idle, timing.round_trips, self.interrupt)?;
                let (p50, p99) =
                    if idle { (Measure::RttIdleP50, Measure::RttIdleP99) } else { (Measure::RttP50, Measure::RttP99) };
                Ok(vec![(p50, trips.percentile(50.0)), (p99, trips.percentile(99.0))])
            }
        }
    }

    fn tcp(&mut self, ends: &Ends, bulk: Bulk) -> Result<Values, BenchError> {
        let report = load::bulk(ends, bulk, self.interrupt)?;
        let processors = u32::try_from(self.host.cpus).unwrap_or(u32::MAX);
        self.cpu.stolen += report.cpu.stolen;
        self.cpu.all += report.time.saturating_mul(processors);
        if self.host.congestion_control.is_empty() {
            self.host.congestion_control.clone_from(&report.congestion_control);
        }
        let rate = report.gigabits_per_second();
        Ok(match (bulk.streams, bulk.reverse) {
            (1, false) => {
                let mut values = vec![(Measure::Tcp1, rate), (Measure::Cpu, report.seconds_per_gigabyte(report.cpu.busy))];
                if !ends.daemons.is_empty() {
                    values.push((Measure::CpuDaemons, report.seconds_per_gigabyte(report.cpu.processes)));
                }
                values
            }
            (1, true) => vec![(Measure::Tcp1Reverse, rate)],
            _ => vec![(Measure::Tcp4, rate)],
        })
    }

    fn udp(&mut self, ends: &Ends, task: Task, payload_bytes: usize) -> Result<Values, BenchError> {
        let Task { underlay, path, job } = task;
        let timing = self.plan.timing;
        let start = self.rates.get(&(path, job)).map_or(FIRST_RATE, |rate| rate * BELOW_KNOWN);
        let mut blaster = load::Blaster::open(ends, payload_bytes)?;
        let found = load::search(start, timing.trials, |rate| {
            self.interrupt.check()?;
            blaster.trial(rate, timing.trial)
        })?;
        let Some(Found { delivered, limit, .. }) = found else {
            return Err(BenchError::Senseless("no rate was carried without loss".to_owned()));
        };
        self.rates.insert((path, job), delivered);
        let measure = if payload_bytes <= 64 { Measure::Udp64 } else { Measure::Udp1400 };
        if limit == Limit::Sender {
            self.bounded.insert((underlay, path, measure));
        }
        Ok(vec![(measure, delivered)])
    }

    /// Notes something, once.
    fn note(&mut self, note: String) {
        if !self.host.notes.contains(&note) {
            self.progress.note(&note);
            self.host.notes.push(note);
        }
    }
}

/// The ground's host with what the plan adds to its settings.
fn with_settings(plan: &Plan, mut host: Host) -> Host {
    let Plan { rounds, timing, .. } = plan;
    let settings = [
        ("rounds", format!("{rounds}, interleaved")),
        ("tcp", format!("{:?} after {:?}, 128 KiB a call", timing.tcp, timing.warm_up)),
        ("udp", format!("{:?} a rate, {} rates at most, beats of {:?}", timing.trial, timing.trials, load::TICK)),
        ("round trip", format!("{:?}, 64 B, back to back; apart: {:?}", timing.round_trips, load::PAUSE)),
    ];
    host.settings.extend(settings.map(|(name, value)| (name.to_owned(), value)));
    host
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Silent;

    /// A ground that has nothing, for some reason.
    struct Nowhere(fn() -> Absent);

    impl Ground for Nowhere {
        fn ends(&mut self, _: Underlay, _: Path) -> Result<Ends, Absent> {
            Err((self.0)())
        }

        fn host(&self) -> Host {
            Host::default()
        }
    }

    #[test]
    fn what_is_missing_is_told_once_and_left_out() {
        #[derive(Default)]
        struct Heard(Vec<String>, usize);
        impl Progress for Heard {
            fn begins(&mut self, _: &Step) {
                self.1 += 1;
            }
            fn done(&mut self, _: &Step, _: &[(Measure, f64)]) {}
            fn note(&mut self, note: &str) {
                self.0.push(note.to_owned());
            }
        }
        let (mut heard, plan) = (Heard::default(), Plan { paths: vec![Path::Vxlan], ..Plan::whole() });
        let mut ground = Nowhere(|| Absent::Missing("no such kernel".to_owned()));
        let error = run(&plan, &mut ground, &mut heard, &Interrupt::new()).unwrap_err();
        let notes = ["super vxlan is left out: no such kernel", "single vxlan is left out: no such kernel"];
        assert_eq!((heard.0.as_slice(), heard.1), (&notes.map(str::to_owned)[..], 2));
        assert!(matches!(error, BenchError::Nothing(why) if why.contains("no such kernel")));
    }

    #[test]
    fn a_broken_ground_and_an_interrupt_end_it() {
        use crate::lab::LabError;
        let mut ground = Nowhere(|| LabError::Probe("gone".to_owned()).into());
        let error = run(&Plan::whole(), &mut ground, &mut Silent, &Interrupt::new()).unwrap_err();
        assert!(matches!(error, BenchError::Lab(LabError::Probe(_))), "{error}");
        let interrupt = Interrupt::new();
        interrupt.raise();
        let error = run(&Plan::whole(), &mut ground, &mut Silent, &interrupt).unwrap_err();
        assert!(matches!(error, BenchError::Lab(LabError::Interrupted)), "{error}");
    }
}
