//! `felt cleanup`.

use anyhow::Context as _;

use super::host_args::CleanupArgs;
use super::{Failure, output};
use crate::daemon::cleanup::{Cleanup, CleanupError};

/// Removes what Felt has left on this host, and says what that was.
pub fn cleanup(args: &CleanupArgs) -> Result<(), Failure> {
    let cleanup = Cleanup::find(args.env_file.then_some(args.subnet_file.as_path()))?;
    if cleanup.traces().is_empty() {
        return output::say("nothing of Felt's is left on this host");
    }
    for trace in cleanup.traces() {
        if args.dry_run {
            output::say(&format!("would remove {trace}"))?;
        } else {
            cleanup.remove(trace)?;
            output::say(&format!("removed {trace}"))?;
        }
    }
    Ok(())
}

impl From<CleanupError> for Failure {
    fn from(error: CleanupError) -> Self {
        if error.is_permission() {
            Self::NotPermitted(error.into())
        } else {
            Self::Internal(anyhow::Result::<(), _>::Err(error).context("cannot clean up").unwrap_err())
        }
    }
}
