//! One ping.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::echo::{EchoSocket, is_transient};
use crate::lab::{Interrupt, LabError};
use crate::sys::netns::Netns;

/// How long one look for an answer lasts, and so how late an interrupt is heard.
const LOOK: Duration = Duration::from_millis(50);

/// Sends one echo request from `netns` and waits for the answer: the round-trip time, or `None` when there was none within
/// `patience`.
///
/// # Errors
/// When no socket can be had there.
pub fn ping(netns: &Netns, to: Ipv4Addr, patience: Duration, interrupt: &Interrupt) -> Result<Option<Duration>, LabError> {
    let failed = || LabError::step(format!("ping {to} from {}", netns.name()));
    let socket = EchoSocket::open(netns, to)?;
    let sent = Instant::now();
    match socket.send(0) {
        Ok(()) => {}
        Err(error) if is_transient(&error) => return Ok(None),
        Err(error) => return Err(failed()(error)),
    }
    loop {
        interrupt.check()?;
        let left = patience.saturating_sub(sent.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        if socket.receive(left.min(LOOK)).map_err(failed())?.is_some() {
            return Ok(Some(sent.elapsed()));
        }
    }
}
