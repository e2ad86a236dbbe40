//! From a command to the file that does it.

use std::process::ExitCode;

use super::args::{Cli, Command, LogArgs, LogLevel, VERSION};
use super::{Failure, bench, cleanup, config, docker_opts, lab, lease, output, policy, run, serve};

impl Cli {
    /// How much is to be logged: 0 state changes, more of it above, only what went wrong below.
    #[must_use]
    pub fn verbosity(&self) -> i64 {
        match &self.command {
            Command::Run(args) => verbosity(&args.log),
            Command::Serve(args) => verbosity(&args.log),
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
        Command::Lease { command } => lease::lease(command)?,
        Command::Policy { command } => return policy::policy(command),
        Command::Lab { command } => return lab::lab(command),
        Command::Bench(args) => return bench::bench(&args),
        Command::Cleanup(args) => cleanup::cleanup(&args)?,
        Command::DockerOpts(args) => docker_opts::docker_opts(&args)?,
        Command::Version => output::say(VERSION)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn verbosity(args: &LogArgs) -> i64 {
    match args.log_level {
        None => args.v,
        Some(LogLevel::Debug) => 1,
        Some(LogLevel::Info) => 0,
        Some(LogLevel::Warning) => -1,
        Some(LogLevel::Error) => -2,
    }
}
