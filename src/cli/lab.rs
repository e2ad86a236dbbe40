//! `felt lab`.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use anyhow::Context as _;

use super::lab_args::{LabCommand, LabSize};
use super::{Failure, lab_table, output};
use crate::lab::{self, Interrupt, Lab, LabError, LabName, LabPlan, Progress, RegistryKind, Stage};

/// The demo's own network, so that it disturbs none that stands.
const DEMO: &str = "felt-demo";

/// Makes, uses, shows or takes down a test network.
pub fn lab(command: LabCommand) -> Result<ExitCode, Failure> {
    match command {
        LabCommand::Up { lab, size, policy } => {
            let interrupt = interrupt()?;
            let lab = Lab::up(LabPlan { policy: policy.policy(), ..plan(lab.name, size)? }, &mut Steps, &interrupt)?;
            output::say(&lab_table::text(&lab.status()?))?;
        }
        // The command takes our place, its exit code is ours.
        LabCommand::Exec { lab, place, command } => return Err(Lab::open(&lab.name)?.become_program(place, &command).into()),
        LabCommand::Status { lab, json } => {
            let status = Lab::open(&lab.name)?.status()?;
            output::say(&if json { lab_table::json(&status)? } else { lab_table::text(&status) })?;
        }
        LabCommand::Down { lab } => {
            let removed = lab::down(&lab.name)?;
            let (processes, namespaces) = (removed.processes, removed.namespaces);
            output::say(&if removed.is_nothing() {
                format!("there was no lab `{}`", lab.name)
            } else {
                format!("lab `{}` is gone: {processes} processes ended, {namespaces} namespaces removed", lab.name)
            })?;
        }
        LabCommand::Demo { size } => {
            let interrupt = interrupt()?;
            let mut out = io::stdout().lock();
            lab::demo(plan(DEMO.parse()?, size)?, &mut Stage::new(&mut out, io::stdout().is_terminal()), &interrupt)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(name: LabName, size: LabSize) -> Result<LabPlan, Failure> {
    let felt = std::env::current_exe().context("cannot find this program's own file").map_err(Failure::Internal)?;
    Ok(LabPlan {
        name,
        nodes: size.nodes,
        pods_per_node: size.pods,
        registry: if size.etcd { RegistryKind::Etcd } else { RegistryKind::Embedded },
        ..LabPlan::new(felt)
    })
}

fn interrupt() -> Result<Interrupt, Failure> {
    Interrupt::on_signals().context("cannot listen for signals").map_err(Failure::Internal)
}

/// Tells people how building goes, beside the result.
struct Steps;

impl Progress for Steps {
    fn step(&mut self, what: &str) {
        output::complain(what);
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        if matches!(error, LabError::Interrupted) {
            Self::Interrupted
        } else if error.is_usage() {
            Self::Usage(error.to_string())
        } else if error.is_not_permitted() {
            Self::NotPermitted(error.into())
        } else {
            Self::Internal(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_errors_keep_their_meaning() {
        let cases = [
            (LabError::Interrupted, 130),
            (LabError::BadPlan("no nodes".into()), 2),
            (LabError::NotPermitted { missing: "root".into(), remedy: "be root".into() }, 4),
            (LabError::Probe("no answer".into()), 1),
        ];
        for (error, code) in cases {
            let text = error.to_string();
            let failure = Failure::from(error);
            assert_eq!((failure.code(), failure.to_string()), (code, text));
        }
    }
}
