//! `felt bench`.

use std::fs::{self, OpenOptions};
use std::path::Path as FilePath;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;

use super::bench_args::BenchArgs;
use super::bench_progress::BenchProgress;
use super::{Failure, output};
use crate::bench::arena::{Arena, ArenaPlan};
use crate::bench::show::{self, OldReport, OldReportError};
use crate::bench::{self, BenchError, Plan, Report};
use crate::lab::Interrupt;

/// Measures, and shows what came of it.
pub fn bench(args: &BenchArgs) -> Result<ExitCode, Failure> {
    // What was typed wrong is told now, not after minutes.
    args.check().map_err(Failure::Usage)?;
    let plan = args.plan(Instant::now());
    let old = args.compare.as_deref().map(OldReport::read).transpose()?;
    args.svg.as_deref().map(try_file).transpose()?;
    let interrupt = Interrupt::on_signals().context("cannot listen for signals").map_err(Failure::Internal)?;

    let mut progress = BenchProgress::new();
    let measured = measure(args, &plan, &mut progress, &interrupt);
    progress.end();
    let report = measured?;

    if let Some(file) = &args.svg {
        let written = fs::write(file, show::svg(&report));
        written.with_context(|| format!("cannot write {}", file.display())).map_err(Failure::Internal)?;
    }
    let comparison = old.map(|old| show::compare(&old, &report));
    if args.json {
        output::say(&report.to_json().map_err(|error| Failure::Internal(error.into()))?)?;
        // Beside the JSON, so that programs get nothing else.
        if let Some(text) = comparison {
            output::complain(&text);
        }
    } else {
        output::say(&show::table(&report))?;
        if let Some(text) = comparison {
            output::say(&format!("\n{text}"))?;
        }
    }
    match report.failed {
        0 => Ok(ExitCode::SUCCESS),
        failed => Err(Failure::Internal(anyhow::anyhow!("{failed} runs failed; the notes of the report say how"))),
    }
}

fn measure(args: &BenchArgs, plan: &Plan, progress: &mut BenchProgress, interrupt: &Interrupt) -> Result<Report, Failure> {
    let felt = std::env::current_exe().context("cannot find this program's own file").map_err(Failure::Internal)?;
    let arena = ArenaPlan {
        paths: plan.paths.clone(),
        ends: args.ends(),
        policies: args.policies.unwrap_or_default(),
        underlay_mtu: args.mtu,
        felt_args: args.run_args.clone(),
        ..ArenaPlan::new(felt)
    };
    let mut arena = Arena::raise(arena, progress, interrupt)?;
    let report = bench::run(plan, &mut arena, progress, interrupt)?;
    arena.down()?;
    Ok(report)
}

/// Makes sure that a file can be written, and leaves no trace of that.
fn try_file(file: &FilePath) -> Result<(), Failure> {
    let existed = file.exists();
    let opened = OpenOptions::new().append(true).create(true).open(file);
    opened.map_err(|error| Failure::Usage(format!("cannot write {}: {error}", file.display())))?;
    if !existed {
        drop(fs::remove_file(file));
    }
    Ok(())
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Lab(error) => error.into(),
            _ => Self::Internal(error.into()),
        }
    }
}

impl From<OldReportError> for Failure {
    fn from(error: OldReportError) -> Self {
        Self::Usage(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::LabError;

    #[test]
    fn errors_keep_their_meaning() {
        let denied = LabError::NotPermitted { missing: "root".into(), remedy: "be root".into() };
        let cases = [
            (BenchError::Lab(LabError::Interrupted), 130),
            (BenchError::Lab(denied), 4),
            (BenchError::Nothing("no path".into()), 1),
        ];
        for (error, code) in cases {
            let text = error.to_string();
            let failure = Failure::from(error);
            assert_eq!((failure.code(), failure.to_string()), (code, text));
        }
    }

    #[test]
    fn trying_a_file_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        fs::write(&old, "x").unwrap();
        try_file(&old).unwrap();
        try_file(&new).unwrap();
        assert_eq!((fs::read_to_string(&old).unwrap().as_str(), new.exists()), ("x", false));
        assert_eq!(try_file(&directory.path().join("no/where")).unwrap_err().code(), 2);
    }
}
