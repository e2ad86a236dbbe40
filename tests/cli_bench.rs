//! `felt bench` of the real binary: what it prints, writes, compares and refuses. Needs root.

mod cli_support;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cli_support::{Ran, felt, felt_with};
use felt::sys::process::{ProcessFd, Signal};

const PATH: (&str, &str) = ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");

/// As little as can be measured.
const LITTLE: &str = "bench --quick --rounds 2 --only veth --underlay super --measures tcp1,rtt_p50";

fn bench(rest: &str) -> Ran {
    let _alone = alone();
    felt_with(&format!("{LITTLE} {rest}"), &[PATH], "")
}

/// One measurement at a time: they would take the processors from each other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn figures_are_printed_written_and_compared() {
    let directory = tempfile::tempdir().unwrap();
    let (old, chart) = (directory.path().join("old.json"), directory.path().join("chart.svg"));

    let ran = bench(&format!("--json --svg {}", chart.display()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&report["schema"], &report["host"]["congestion_control"]), (&"felt-bench/v1".into(), &"cubic".into()));
    let rows = report["results"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| format!("{} {} {}", row["underlay"], row["path"], row["measure"])).collect();
    assert_eq!(names, [r#""super" "veth" "tcp1""#, r#""super" "veth" "rtt_p50""#]);
    for row in rows {
        let value = |key: &str| row[key].as_f64().unwrap();
        assert!(0.0 < value("min") && value("min") <= value("median") && value("median") <= value("max"), "{row}");
        assert!(row["runs"] == 2 && row["ratio_to_vxlan"].is_null(), "{row}");
    }
    // Not a terminal: a line for each run, and no control characters.
    assert!(ran.stderr.contains("round 2 of 2, super veth TCP 1 stream: tcp1 "), "{}", ran.stderr);
    assert!(!ran.stderr.contains('\x1b') && !ran.stderr.contains('\r'), "{:?}", ran.stderr);
    let chart = fs::read_to_string(chart).unwrap();
    assert!(chart.starts_with("<svg ") && chart.ends_with("</svg>\n"));
    assert!(chart.contains("veth, tcp1: "), "{chart}");

    fs::write(&old, &ran.stdout).unwrap();
    let ran = bench(&format!("--compare {}", old.display()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for part in ["TCP, 1 stream", "Gb/s", "Linux ", "CHANGE", " %", "old: ", "rounds 2, interleaved"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    // With --json, standard output is JSON and nothing else.
    let ran = bench(&format!("--json --compare {}", old.display()));
    assert!(serde_json::from_str::<serde_json::Value>(&ran.stdout).is_ok() && ran.stderr.contains("CHANGE"), "{ran:?}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let later = file("later.json", r#"{"schema":"felt-bench/v9","results":[]}"#);
    let broken = file("broken.json", "{");
    for (rest, part) in [
        (format!("--compare {later}"), "expected schema felt-bench/v1, found \"felt-bench/v9\""),
        (format!("--compare {broken}"), "expected a report as `felt bench --json` writes it"),
        ("--compare /nowhere/old.json".to_owned(), "cannot read /nowhere/old.json"),
        ("--svg /nowhere/chart.svg".to_owned(), "cannot write /nowhere/chart.svg"),
    ] {
        let ran = bench(&rest);
        assert!(ran.code == Some(2) && ran.stdout.is_empty() && ran.stderr.contains(part), "{rest}: {ran:?}");
        assert!(!ran.stderr.contains("round 1"), "{ran:?}");
    }
    for (line, part) in [
        ("bench --only vlan", "expected one of veth, vxlan, felt, felt-policy, felt-plain"),
        ("bench --underlay both", "expected one of super, single"),
        ("bench --measures tcp2", "expected one of tcp1, tcp4"),
        ("bench --quick --seconds 3", "cannot be used with"),
        ("bench --seconds 1e9", "expected 0.1 to 60"),
        ("bench --policies 10 --ends nodes", "--policies judges pods"),
        ("bench --only felt-policy", "add --policies COUNT"),
        ("bench --policies 0", "1..=10000"),
        ("bench stray", "unexpected argument 'stray'"),
    ] {
        let ran = felt(line);
        assert!(ran.code == Some(2) && ran.stderr.contains(part), "{line}: {ran:?}");
    }
}

#[test]
fn who_may_not_make_namespaces_is_told_so() {
    let mut command = Command::new("setpriv");
    command.args(["--inh-caps=-all", "--bounding-set=-all", env!("CARGO_BIN_EXE_felt")]).args(LITTLE.split(' '));
    let ran = Ran::from(command.output().expect("util-linux is there"));
    assert!(ran.code == Some(4) && ran.stdout.is_empty(), "{ran:?}");
    assert!(ran.stderr.contains("error: "), "{ran:?}");
}

#[test]
fn an_interrupt_ends_it_in_good_order() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_felt"));
    command.args(LITTLE.replace("--rounds 2", "--rounds 100").split(' '));
    let _alone = alone();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("round 1 of 100") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "it ended before it measured anything");
    }
    ProcessFd::open(child.id()).unwrap().signal(Signal::Interrupt).unwrap();
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("error: interrupted\n"), "{rest}");
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stdout.is_empty()), (Some(130), true));
}
