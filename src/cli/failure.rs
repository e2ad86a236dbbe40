//! How a command fails, and with which exit code.

use std::process::ExitCode;

use crate::control::registry::RegistryError;

/// Why a command did not do what was asked. Each kind has an exit code of its own, which scripts may rely on.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Felt itself is at fault, or something nobody foresaw.
    #[error("{0:#}")]
    Internal(anyhow::Error),
    /// What was typed, or put into a variable, makes no sense.
    #[error("{0}")]
    Usage(String),
    /// As `Usage`, found by clap, which words and colours its own message.
    #[error(transparent)]
    Typed(#[from] clap::Error),
    /// The registry cannot be reached.
    #[error("{0:#}")]
    Unreachable(anyhow::Error),
    /// The system or the registry does not let us.
    #[error("{0:#}")]
    NotPermitted(anyhow::Error),
    /// A check was answered "no".
    #[error("{0:#}")]
    AnsweredNo(anyhow::Error),
    /// Somebody asked to stop, by Ctrl-C for one.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// The exit code of this kind of failure.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            // Help that was asked for comes as an "error" too.
            Self::Typed(error) if !error.use_stderr() => 0,
            Self::Internal(_) => 1,
            Self::Usage(_) | Self::Typed(_) => 2,
            Self::Unreachable(_) => 3,
            Self::NotPermitted(_) => 4,
            Self::AnsweredNo(_) => 5,
            // As shells say of a command that SIGINT ended.
            Self::Interrupted => 130,
        }
    }

    /// Tells people what went wrong and the caller the exit code.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        match self {
            Self::Typed(error) => drop(error.print()),
            Self::Usage(_) => super::output::complain(&format!("error: {self}\n\nFor more information, try '--help'.")),
            _ => super::output::complain(&format!("error: {self}")),
        }
        ExitCode::from(self.code())
    }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::Unreachable { .. } => Self::Unreachable(error.into()),
            RegistryError::Denied { .. } => Self::NotPermitted(error.into()),
            RegistryError::BadConfig(_) | RegistryError::NoConfig { .. } | RegistryError::Taken { .. } => {
                Self::AnsweredNo(error.into())
            }
            RegistryError::Unsupported(_) => Self::Usage(error.to_string()),
            _ => Self::Internal(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_errors_keep_their_meaning() {
        let registry = || "etcd".to_owned();
        let cases = [
            (RegistryError::Unreachable { registry: registry(), reason: "refused".into() }, 3),
            (RegistryError::Denied { registry: registry(), reason: "password".into() }, 4),
            (RegistryError::NoConfig { place: "/config".into() }, 5),
            (RegistryError::BadConfig("empty".into()), 5),
            (RegistryError::Taken { subnet: "10.5.1.0-24".into(), holder: "192.0.2.1".into() }, 5),
            (RegistryError::Unsupported("no".into()), 2),
            (RegistryError::Raced { attempts: 3 }, 1),
        ];
        for (error, code) in cases {
            let text = error.to_string();
            let failure = Failure::from(error);
            assert_eq!((failure.code(), failure.to_string()), (code, text));
        }
    }
}
