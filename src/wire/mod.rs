//! Packet formats as checked views over bytes.
//!
//! A view can only be made of bytes whose lengths agree with each other, so reading a field afterwards cannot fail. Nothing
//! here allocates or panics, and nothing decides what happens to a packet: what cannot be read is said to be malformed, and
//! [`forward`](crate::forward) gives that a drop reason.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

pub mod checksum;
pub mod coalesce;
pub mod headers;
pub mod icmp;
pub mod inspect;
pub mod ipv4;
pub mod segment;
