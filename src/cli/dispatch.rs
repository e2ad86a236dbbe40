//! From a command to the file that does it.

use std::process::ExitCode;

use super::args::{Cli, Command, VERSION};
use super::{Failure, bench, config, lab, output, run, serve};

impl Cli {
    /// How much is to be logged.
    #[must_use]
    pub fn verbosity(&self) -> i64 {
        match &self.command {
            Command::Run(args) => args.log.v,
            Command::Serve(args) => args.log.v,
            _ => 0,
        }
    }
}

/// Does what was asked for; the exit code is that of a command run on the user's behalf, else success.
pub fn dispatch(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command {
        Command::Run(args) if args.version => output::say(VERSION)?,
        Command::Run(args) => run::run(*args)?,
        Command::Serve(args) => serve::serve(*args)?,
        Command::Config { command } => config::config(command)?,
        Command::Lab { command } => return lab::lab(command),
        Command::Bench(args) => return bench::bench(&args),
        Command::Version => output::say(VERSION)?,
    }
    Ok(ExitCode::SUCCESS)
}
