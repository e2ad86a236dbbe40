//! Instructions, counted: the bodies of the criterion benches under callgrind, beside a checked-in baseline. Unlike time, the
//! count does not depend on who else uses the machine, so a body that costs more than before is found where time is noise.
//!
//! Run it as `scripts/icount`. Without arguments every body is compared, with `--update` the baseline is written anew, with
//! `NAME…` only those bodies whose name contains one of them are compared. A body above the tolerance, or without a baseline,
//! fails the run.
//!
//! The counts belong to a compiler, and to the vectors that valgrind's CPU offers: both stand in the baseline. What libc
//! contributes (`memcpy`) is pinned to the form that every machine has.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program that reports")]

mod baseline;
mod bodies;
mod callgrind;

use std::process::ExitCode;

use baseline::{Baseline, Settings};

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let mut arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, name] = &arguments[..]
        && flag == callgrind::RUN
    {
        return if callgrind::answer(name) || bodies::run(name) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let update = arguments.iter().any(|argument| argument == "--update");
    arguments.retain(|argument| argument != "--update");
    if let Some(unknown) = arguments.iter().find(|argument| argument.starts_with('-')) {
        eprintln!("error: expected --update or parts of names, found {unknown}");
        return ExitCode::from(2);
    }
    if update && !arguments.is_empty() {
        eprintln!("error: expected --update alone, as the baseline is written whole");
        return ExitCode::from(2);
    }
    match count(update, &arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Counts and compares, or writes the baseline; `false` if something is above it or missing in it.
fn count(update: bool, wanted: &[String]) -> Result<bool, String> {
    let settings = Settings {
        rustc: callgrind::version("rustc")?,
        valgrind: callgrind::version("valgrind")?,
        vectors: callgrind::vectors()?,
    };
    let before = if update { Baseline::default() } else { Baseline::read()? };
    println!("{:<28} {:>12} {:>12} {:>9}", "instructions per run", "baseline", "found", "change");
    let mut found = Baseline { settings, counts: Vec::new() };
    let mut passed = true;
    for (name, _) in bodies::BODIES {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let count = callgrind::count(name)?;
        found.counts.push(((*name).to_owned(), count));
        passed &= report(name, before.of(name), count, update);
    }
    if update {
        found.write()?;
        println!("written to {}", baseline::PATH);
        return Ok(true);
    }
    for stale in before.counts.iter().filter(|(name, _)| !bodies::BODIES.iter().any(|(body, _)| body == name)) {
        println!("{:<28} {:>12} {:>12} {:>9}  no such body any more", stale.0, stale.1, "", "");
        passed = false;
    }
    if !passed {
        println!("\nIf the change is meant, run `scripts/icount --update` and check in {}.", baseline::PATH);
        for difference in before.settings.differences(&found.settings) {
            println!("The baseline was counted with {difference}: that may be all there is to it.");
        }
    }
    Ok(passed)
}

/// Prints a row; whether it may stay so.
fn report(name: &str, before: Option<u64>, found: u64, update: bool) -> bool {
    let Some(before) = before else {
        println!("{name:<28} {:>12} {found:>12} {:>9}{}", "", "", if update { "" } else { "  missing in the baseline" });
        return update;
    };
    let change = baseline::change(before, found);
    let (passed, remark) = match change {
        _ if change > baseline::TOLERANCE => (false, "  too many"),
        _ if change < -baseline::TOLERANCE => (true, "  fewer: worth an update"),
        _ => (true, ""),
    };
    println!("{name:<28} {before:>12} {found:>12} {change:>+8.1}%{remark}");
    passed
}
