//! TUN devices: opening queues and passing packets, plus a diagnosis of why a queue could not be opened.
//!
//! Descriptors are opened here and handed to the `tun` crate, whose [`Device`](::tun::Device) owns and closes them. It is
//! not used to configure: it names devices but cannot open a second queue, knows one address per device, and cannot tell its
//! ways to fail apart; nor to read and write, since it knows neither offloads nor packets in pieces. MTU, addresses and state
//! are set through [`netlink`](super::netlink).

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "flags and sizes of the kernel's structures, far from the ends of any type"
)]

mod attach;
mod error;
mod queue;
mod vnet;

pub use attach::Multiqueue;
pub use error::TunError;
pub use queue::{TunQueue, WRITE_PARTS};
pub use vnet::VNET_BYTES;
