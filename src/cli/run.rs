//! `felt run`.

use anyhow::Context as _;

use super::args::RunArgs;
use super::{Failure, options};
use crate::daemon::{self, RunError};

/// How long what still runs beside the node (a registry call, the health server) may take to end.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(200);

/// Runs a node until it is told to end.
pub fn run(args: RunArgs) -> Result<(), Failure> {
    let options = options::run(args)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime").map_err(Failure::Internal)?;
    let ended = runtime.block_on(daemon::run(options));
    runtime.shutdown_timeout(LAST_WORDS);
    Ok(ended?)
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Registry(error) => Self::Usage(error.to_string()),
            error @ RunError::Policy(_) => Self::Usage(error.to_string()),
            error if error.is_permission() => Self::NotPermitted(error.into()),
            error => Self::Internal(error.into()),
        }
    }
}
