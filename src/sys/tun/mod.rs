//! TUN devices: opening queues and passing packets, plus a diagnosis of why a queue could not be opened.
//!
//! Descriptors are opened here and handed to the `tun` crate, whose [`Device`](::tun::Device) reads, writes and closes
//! them. It is not used to configure: it names devices but cannot open a second queue, knows one address per device, and
//! cannot tell its ways to fail apart. MTU, addresses and state are set through [`netlink`](super::netlink).

mod error;
mod queue;

pub use error::TunError;
pub use queue::{Multiqueue, TunQueue};
