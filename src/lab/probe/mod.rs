//! Looking at a lab from inside: echo requests and byte streams between its places, without any program installed.
//!
//! A socket stays in the namespace it was opened in, so probes open theirs there and then work from where they are.
//! Rates and round-trip times are of this machine; that bytes arrive unharmed is checked, not assumed.

mod door;
mod echo;
mod health;
mod pattern;
mod ping;
mod pinger;
mod transfer;

use std::io;

pub use door::Door;
pub(super) use health::{is_listening, is_ready};
pub use ping::ping;
pub use pinger::{PingReport, Pinger};
pub use transfer::{Amount, Transfer, TransferReport};

use super::LabError;
use crate::sys::netns::Netns;

/// Opens something in a namespace.
fn open_in<T: Send>(netns: &Netns, what: &str, open: impl FnOnce() -> io::Result<T> + Send) -> Result<T, LabError> {
    let opened = netns.run_in(open).map_err(super::process::netns_step)?;
    opened.map_err(LabError::step(format!("open {what} in {}", netns.name())))
}
