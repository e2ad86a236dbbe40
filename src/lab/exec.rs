//! Running programs in a place of a lab.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output};

use super::process::{mark, netns_step};
use super::{Lab, LabError, Place};

/// A shell's way to tell of an end by a signal: this plus the signal's number.
const SIGNALLED: i32 = 128;

impl Lab {
    /// Runs `argv` in a place, with our stdin, stdout and stderr, and waits; its exit code, or 128 + the signal that
    /// ended it.
    ///
    /// # Errors
    /// When there is no such place, or the program cannot be started.
    pub fn exec(&self, place: Place, argv: &[OsString]) -> Result<i32, LabError> {
        let status = self.command_in(place, argv)?.status().map_err(not_run(place, argv))?;
        Ok(status.code().or_else(|| status.signal().map(|signal| SIGNALLED + signal)).unwrap_or(SIGNALLED))
    }

    /// Runs `argv` in a place and gathers what it prints.
    ///
    /// # Errors
    /// When there is no such place, or the program cannot be started. How it ended is for the caller to judge.
    pub fn output(&self, place: Place, argv: &[OsString]) -> Result<Output, LabError> {
        self.command_in(place, argv)?.output().map_err(not_run(place, argv))
    }

    /// Becomes `argv` in a place: the program takes over this process, and with it the terminal, its signals and the exit
    /// code. Returns only if that failed.
    #[must_use]
    pub fn become_program(&self, place: Place, argv: &[OsString]) -> LabError {
        match self.command_in(place, argv) {
            Ok(mut command) => not_run(place, argv)(command.exec()),
            Err(error) => error,
        }
    }

    /// A command that will run in a place, marked as the lab's, so that taking the lab down ends it.
    fn command_in(&self, place: Place, argv: &[OsString]) -> Result<Command, LabError> {
        let (program, rest) =
            argv.split_first().ok_or_else(|| LabError::BadPlan("expected a program to run, found none".to_owned()))?;
        let mut command = Command::new(program);
        command.args(rest);
        mark(&mut command, &self.plan().name);
        self.netns(place)?.place(&mut command).map_err(netns_step)?;
        Ok(command)
    }
}

fn not_run(place: Place, argv: &[OsString]) -> impl FnOnce(io::Error) -> LabError {
    let program = argv.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
    move |reason| LabError::Exec { program, place: place.to_string(), reason }
}
