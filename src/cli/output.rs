//! The one door to standard output, and to standard error for what is no log.

use std::io::{self, Write};

/// Prints `text` and a line end for people or programs.
///
/// A reader that has gone away (`felt … | head`) is no failure of ours; other troubles of standard output are.
pub fn say(text: &str) -> Result<(), super::Failure> {
    tell(text).map(drop)
}

/// As [`say`], and whether somebody still reads: for what never ends by itself.
pub fn tell(text: &str) -> Result<bool, super::Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(super::Failure::Internal(anyhow::Error::new(error).context("cannot write to standard output"))),
    }
}

/// Prints `text` and a line end on standard error. Where nobody can read it, nothing can be done.
pub fn complain(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}
