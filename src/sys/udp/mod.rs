//! UDP on the underlay: a bound socket with large buffers, and batches of datagrams in one system call.
//!
//! Path MTU discovery is set to *do*: every outer packet carries the don't-fragment bit, and a datagram wider than the
//! path is refused with EMSGSIZE, so that the inner sender can be told. (flannel leaves the kernel's *want*, which sets the
//! same bit on everything that fits, but splits in silence what does not; peers see no difference.) For datagrams that may be
//! split on the way there is [`UdpSocket::set_splitting`].
//!
//! Trains: a message with a segment size leaves as many datagrams (`UDP_SEGMENT`, Linux 4.18), and where that is asked for,
//! datagrams of one peer come in one message with the size they had (`UDP_GRO`, Linux 5.0).
//!
//! [`CopySender`] and [`TagCounter`] are no part of a node: they make and count load for `felt bench`.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts, sizes and byte values of the kernel's structures, far from the ends of any type that a libc gives them"
)]

mod control;
mod copies;
mod name;
mod options;
mod receiver;
mod sender;
mod socket;

pub use copies::{CopySender, TAG_BYTES, TagCounter};
pub use options::BufferBytes;
pub use receiver::Receiver;
pub use sender::{Outgoing, Sender};
pub use socket::{UdpError, UdpSocket};
