//! What policy has to know of a packet: which flow it belongs to, or what else it is.
//!
//! [`inspect`] reads IPv4 and IPv6 with extension headers, fragments, and the transport behind them, and is at ease with any
//! bytes. It judges nothing; but what could be read in two ways by two readers, so that policy would judge another packet than
//! the one that arrives, is found [`Unfit`] here and named.
//!
//! A super-packet has the headers of its segments, so it is inspected once.

mod inspected;
mod network;
mod transport;

pub use inspected::{FirstFragment, FragmentId, Inspected, TcpFlags, Unfit, is_multicast};
pub use transport::inspect;

#[cfg(test)]
mod tests;
