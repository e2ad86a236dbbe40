//! UDP on the underlay: a bound socket with large buffers, and batches of datagrams in one system call.
//!
//! Path MTU discovery is set to *do*: every outer packet carries the don't-fragment bit, and a datagram wider than the
//! path is refused with EMSGSIZE, so that the inner sender can be told. (flannel leaves the kernel's *want*, which sets the
//! same bit on everything that fits, but splits in silence what does not; peers see no difference.) Datagrams that may be
//! split on the way are sent by [`UdpSocket::send_split`].

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts, sizes and byte values of the kernel's structures, far from the ends of any type that a libc gives them"
)]

mod messages;
mod options;
mod socket;

pub use messages::Messages;
pub use options::BufferBytes;
pub use socket::{UdpError, UdpSocket};
