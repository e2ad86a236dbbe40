//! The `felt` binary: arguments, logs, the command, its exit code.

use std::env;
use std::process::ExitCode;

use felt::cli::{self, Failure, logging};

fn main() -> ExitCode {
    run().unwrap_or_else(|failure| failure.report())
}

fn run() -> Result<ExitCode, Failure> {
    let cli = cli::parse(env::args_os(), |name| env::var_os(name))?;
    logging::start(cli.verbosity(), env::var(logging::VARIABLE).ok().filter(|text| !text.is_empty()).as_deref())?;
    cli::dispatch(cli)
}
