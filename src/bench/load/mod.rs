//! Load generators: TCP in bulk, datagrams at a given rate and the search for the highest, ping-pong, processor time.
//!
//! A socket stays in the namespace it was opened in, so generators open theirs at the ends and work from where they are.
//! Every generator ends by itself, within its time and some hundred milliseconds, whatever the path does.
//!
//! Packets are handed to the kernel as an ordinary program would: TCP as writes of 128 KiB, datagrams one by one (many a
//! system call, but neither `UDP_SEGMENT` nor `UDP_GRO`), so that all paths get the same work.

mod cpu;
mod round_trip;
mod search;
mod tcp;
mod udp;

pub use cpu::{CpuTime, ticks_of};
pub use round_trip::{PAUSE, RoundTrips, round_trips};
pub use search::{Found, LOSS_LIMIT, Limit, Trial, search};
pub use tcp::{Bulk, BulkReport, bulk};
pub use udp::{Blaster, TICK};

use std::io;

use super::{BenchError, End};

/// Opens something at an end.
fn open_at<T: Send>(end: &End, what: &str, open: impl FnOnce() -> io::Result<T> + Send) -> Result<T, BenchError> {
    let attempt = || format!("open {what} on {} in namespace {}", end.address, end.netns.name());
    let opened = end.netns.run_in(open).map_err(|error| BenchError::load(attempt())(io::Error::new(error.kind(), error)))?;
    opened.map_err(BenchError::load(attempt()))
}
