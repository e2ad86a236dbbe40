//! From what a TUN device hands over to packets as they are on a wire: super-packets are cut into segments, and checksums the
//! kernel left partial are completed.
//!
//! Not here: whether a packet may go, and the IP header's changes on the way. Those are made to the super-packet before it is
//! cut, once for all its segments. [`forward`](crate::forward) calls this and gives what cannot be cut a drop reason.
//!
//! The rules are those of Linux (`tcp_gso_segment`, `__udp_gso_segment`, `inet_gso_segment`): the IPv4 identification counts
//! up, the TCP sequence number advances, FIN and PSH stay on the last segment and CWR on the first, every other bit is in all
//! of them.

mod partial;
mod segments;
mod template;
mod uncuttable;

pub use partial::complete;
pub use segments::Segments;
pub use uncuttable::Uncuttable;
