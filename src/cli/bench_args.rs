//! What can be typed after `felt bench`, and the plan it means.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use clap::Args;

use crate::bench::arena::EndKind;
use crate::bench::{Measure, Path, Plan, Timing, Underlay};

/// When a quick run begins no other round. The last one's report, and tearing down, have what is left of the minute.
const QUICK: Duration = Duration::from_secs(50);

/// What `felt bench` takes.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Measure everything, but shortly: done within a minute, coarse
    #[arg(long, conflicts_with = "seconds")]
    pub quick: bool,
    /// How often everything is measured, 1 to 100 [default: 3; with --quick up to 2, as time permits]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: Option<u32>,
    /// How long each TCP run counts, 0.1 to 60; other runs take their share of it [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// Paths to measure [default: veth,vxlan,felt,felt-plain, and felt-policy with --policies]
    #[arg(long, value_name = "PATHS", value_delimiter = ',', value_parser = Path::from_str)]
    pub only: Vec<Path>,
    /// What the wire carries: whole super-packets or single segments [default: both: super,single]
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = Underlay::from_str)]
    pub underlay: Vec<Underlay>,
    /// Figures to measure
    #[arg(help = "Figures to measure [default: all: tcp1,tcp4,tcp1r,udp64,udp1400,rtt_p50,rtt_p99,rtt_idle_p50,rtt_idle_p99,\
                  cpu_s_per_gb,cpu_s_per_gb_daemons]")]
    #[arg(long, value_name = "MEASURES", value_delimiter = ',', value_parser = Measure::from_str)]
    pub measures: Vec<Measure>,
    /// What is at the ends of a path: the nodes themselves, or a pod on each, behind a veth pair and the node's routing [default:
    /// nodes; with --policies: pods]
    #[arg(long, value_name = "KIND", value_parser = EndKind::from_str)]
    pub ends: Option<EndKind>,
    /// Measure the path felt-policy too: the same nodes with this many policies that select the pods, 1 to 10000; the ends are
    /// pods then, as policy judges no node
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub policies: Option<u32>,
    /// MTU of the wire, 576 to 65535
    #[arg(long, value_name = "BYTES", default_value = "1500", value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub mtu: u32,
    /// Print the report as JSON (schema felt-bench/v1)
    #[arg(long)]
    pub json: bool,
    /// Draw the report as a chart into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Show the change since a report that --json wrote
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,
    /// Further options of `felt run` for the paths felt and felt-policy, as in: felt bench -- --spin 100us
    #[arg(last = true, value_name = "OPTIONS")]
    pub run_args: Vec<String>,
}

impl BenchArgs {
    /// Whether what was typed goes together.
    ///
    /// # Errors
    /// What was asked for and excludes itself.
    pub fn check(&self) -> Result<(), String> {
        match (self.policies, self.ends) {
            (Some(_), Some(EndKind::Nodes)) => {
                Err("--policies judges pods, so the ends cannot be nodes; leave out --ends nodes".to_owned())
            }
            (None, _) if self.only.contains(&Path::FeltPolicy) => {
                Err("the path felt-policy needs to know how many policies; add --policies COUNT".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// What is at the ends of each path.
    #[must_use]
    pub fn ends(&self) -> EndKind {
        let usual = if self.policies.is_some() { EndKind::Pods } else { EndKind::Nodes };
        self.ends.unwrap_or(usual)
    }

    /// What is to be measured, by a clock that says `now`.
    #[must_use]
    pub fn plan(&self, now: Instant) -> Plan {
        let whole = Plan::whole();
        let timing = if self.quick { Timing::quick() } else { self.seconds.map_or(whole.timing, Timing::of) };
        let usual = if self.quick { Plan::QUICK_ROUNDS } else { whole.rounds };
        Plan {
            underlays: chosen(&self.underlay, &whole.underlays),
            paths: self.paths(),
            measures: chosen(&self.measures, &whole.measures),
            rounds: self.rounds.unwrap_or(usual),
            timing,
            // Who asks for a number of rounds gets it.
            deadline: (self.quick && self.rounds.is_none()).then(|| now + QUICK),
        }
    }

    fn paths(&self) -> Vec<Path> {
        let usual = if self.only.is_empty() { &Path::USUAL[..] } else { &self.only };
        let policy = self.policies.map(|_| Path::FeltPolicy);
        chosen(&usual.iter().copied().chain(policy).collect::<Vec<_>>(), &Path::ALL)
    }
}

/// What was asked for, each once and in the usual order; everything if nothing was.
fn chosen<T: PartialEq + Copy>(asked: &[T], all: &[T]) -> Vec<T> {
    all.iter().copied().filter(|one| asked.is_empty() || asked.contains(one)).collect()
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    if (0.1..=60.0).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err("expected 0.1 to 60".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn plan(line: &str, now: Instant) -> Plan {
        args(line).plan(now)
    }

    #[test]
    fn nothing_typed_is_everything() {
        assert_eq!(plan("", Instant::now()), Plan::whole());
    }

    #[test]
    fn parts_are_chosen_in_the_usual_order() {
        let plan =
            plan("--only felt,vxlan,felt --underlay single --measures udp64,tcp1 --rounds 7 --seconds 2.5", Instant::now());
        assert_eq!(plan.paths, [Path::Vxlan, Path::Felt]);
        assert_eq!(plan.underlays, [Underlay::Single]);
        assert_eq!(plan.measures, [Measure::Tcp1, Measure::Udp64]);
        assert_eq!((plan.rounds, plan.timing.tcp, plan.deadline), (7, Duration::from_millis(2500), None));
    }

    #[test]
    fn quick_measures_everything_and_has_an_end() {
        let now = Instant::now();
        let quick = plan("--quick", now);
        assert_eq!((quick.deadline, quick.rounds), (Some(now + QUICK), 2));
        assert_eq!((quick.measures, quick.paths), (Plan::whole().measures, Plan::whole().paths));
        let asked = plan("--quick --rounds 5", now);
        assert_eq!((asked.deadline, asked.rounds), (None, 5));
    }

    fn args(line: &str) -> BenchArgs {
        Line::try_parse_from(format!("bench {line}").split_whitespace()).unwrap_or_else(|error| panic!("{error}")).args
    }

    #[test]
    fn policies_bring_a_path_and_pods() {
        let usual = args("");
        assert!(usual.check().is_ok() && usual.ends() == EndKind::Nodes && args("--ends pods").ends() == EndKind::Pods);
        let with = args("--policies 1000");
        assert!(with.check().is_ok() && with.ends() == EndKind::Pods);
        assert_eq!(with.plan(Instant::now()).paths, Path::ALL);
        for line in ["--policies 10 --only felt", "--policies 10 --only felt,felt-policy --ends pods"] {
            let with = args(line);
            assert!(with.check().is_ok() && with.ends() == EndKind::Pods, "{line}");
            assert_eq!(with.plan(Instant::now()).paths, [Path::Felt, Path::FeltPolicy], "{line}");
        }
        assert!(args("--policies 10 --ends nodes").check().unwrap_err().contains("--ends nodes"));
        assert!(args("--only felt-policy").check().unwrap_err().contains("add --policies"));
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "--only vlan",
            "--seconds 0",
            "--seconds NaN",
            "--rounds 0",
            "--quick --seconds 1",
            "--measures tcp,",
            "--policies 0",
            "x",
        ] {
            assert!(Line::try_parse_from(format!("bench {line}").split_whitespace()).is_err(), "{line}");
        }
    }
}
