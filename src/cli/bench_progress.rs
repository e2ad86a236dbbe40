//! How a benchmark goes, while it goes: one living line on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output;
use crate::bench::show::figure;
use crate::bench::{Measure, Progress, Step};
use crate::lab;

/// Tells it on standard error.
pub enum BenchProgress {
    /// A bar with the run under way and the time that is left.
    Living(ProgressBar),
    /// A line for each run.
    Plain,
}

impl BenchProgress {
    /// What suits standard error.
    pub fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Self::Plain;
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len}  {msg}  {eta} left") {
            bar.set_style(style);
        }
        Self::Living(bar)
    }

    /// The end: the line vanishes.
    pub fn end(&self) {
        if let Self::Living(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl Progress for BenchProgress {
    fn begins(&mut self, step: &Step) {
        if let Self::Living(bar) = self {
            bar.set_length(step.total as u64);
            bar.set_position(step.number.saturating_sub(1) as u64);
            bar.set_message(title(step));
        }
    }

    fn done(&mut self, step: &Step, values: &[(Measure, f64)]) {
        match self {
            Self::Living(bar) => bar.set_position(step.number as u64),
            Self::Plain if values.is_empty() => {}
            Self::Plain => {
                let values: Vec<_> =
                    values.iter().map(|(measure, value)| format!("{measure} {} {}", figure(*value), measure.unit())).collect();
                output::complain(&format!("{}/{} {}: {}", step.number, step.total, title(step), values.join(", ")));
            }
        }
    }

    fn note(&mut self, note: &str) {
        match self {
            Self::Living(bar) => bar.println(format!("note: {note}")),
            Self::Plain => output::complain(&format!("note: {note}")),
        }
    }
}

/// How building goes, before the runs.
impl lab::Progress for BenchProgress {
    fn step(&mut self, what: &str) {
        match self {
            Self::Living(bar) => bar.set_message(what.to_owned()),
            Self::Plain => output::complain(what),
        }
    }
}

fn title(step: &Step) -> String {
    let Step { round, rounds, underlay, path, job, .. } = step;
    format!("round {round} of {rounds}, {underlay} {path} {job}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Job, Path, Underlay};

    #[test]
    fn a_step_says_what_runs() {
        let job = Job::Tcp { streams: 4, reverse: false };
        let (underlay, path) = (Underlay::Single, Path::FeltPlain);
        let step = Step { round: 2, rounds: 3, number: 5, total: 9, underlay, path, job };
        assert_eq!(title(&step), "round 2 of 3, single felt-plain TCP 4 streams");
    }
}
