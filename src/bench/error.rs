//! Why a benchmark came to nothing.

use std::io;

use crate::lab::LabError;

/// Why a benchmark came to nothing.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum BenchError {
    /// The ground could not be had, or somebody asked to stop.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A load generator could not do its work.
    #[error("failed to {attempt}: {reason}")]
    Load { attempt: String, reason: io::Error },
    /// A load generator worked, but what it saw makes no figure.
    #[error("{0}")]
    Senseless(String),
    /// Not one run succeeded.
    #[error("nothing could be measured: {0}")]
    Nothing(String),
}

impl BenchError {
    /// For `map_err`: a generator failed to do `attempt`.
    pub(super) fn load(attempt: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let attempt = attempt.into();
        move |reason| Self::Load { attempt, reason }
    }

    /// Whether no other run need be tried: somebody asked to stop, or the ground is gone.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Lab(_))
    }
}
