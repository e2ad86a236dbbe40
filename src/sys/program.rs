//! Programs of the host, run to their end: what goes in is given, what comes out is taken.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

/// A program that did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum ProgramError {
    /// There is no such program in `PATH`.
    #[error("`{program}` is not installed, or not in PATH")]
    Missing { program: String },
    /// It is there but cannot be run.
    #[error("`{program}` cannot be run: {source}")]
    NotRun { program: String, source: io::Error },
    /// It ran and failed.
    #[error("`{program}` failed: {said}")]
    Failed {
        program: String,
        /// What it said about that, in one line.
        said: String,
    },
}

impl ProgramError {
    /// Whether there is no such program.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }

    /// Whether the kernel did not let it, by what it said.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Missing { .. } => false,
            Self::NotRun { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            Self::Failed { said, .. } => said.contains("ermission denied") || said.contains("not permitted"),
        }
    }
}

/// Runs `program` with `input` on its standard input, waits for its end, and gives what it printed. It speaks English and acts
/// on the network namespace of the calling thread. Meant for input that fits a pipe, 64 KiB.
///
/// # Errors
/// When it is not there, cannot be run, or ends with anything but success.
pub fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, ProgramError> {
    let not_run = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => ProgramError::Missing { program: program.to_owned() },
        _ => ProgramError::NotRun { program: program.to_owned(), source },
    };
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(not_run)?;
    if let Some(mut pipe) = child.stdin.take() {
        // One that ends without reading has its own reasons, and tells them.
        _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(not_run)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = if lines.is_empty() { output.status.to_string() } else { lines.join(" ") };
    Err(ProgramError::Failed { program: program.to_owned(), said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_and_out_is_passed_on() {
        assert_eq!(run("cat", &[], "a\nb\n").unwrap(), "a\nb\n");
        assert_eq!(run("sh", &["-c", "echo $LC_ALL"], "").unwrap(), "C\n");
    }

    #[test]
    fn failures_are_told_apart() {
        let missing = run("felt-no-such-program", &[], "").unwrap_err();
        assert!(missing.is_missing() && !missing.is_permission(), "{missing}");
        let failed = run("sh", &["-c", "echo one >&2; echo two >&2; exit 3"], "unread").unwrap_err();
        assert_eq!(failed.to_string(), "`sh` failed: one two");
        assert!(!failed.is_missing() && !failed.is_permission());
        assert!(run("sh", &["-c", "exit 3"], "").unwrap_err().to_string().contains("exit status: 3"));
        for said in ["Operation not permitted", "Permission denied (you must be root)"] {
            assert!(run("sh", &["-c", &format!("echo '{said}' >&2; exit 1")], "").unwrap_err().is_permission());
        }
    }
}
