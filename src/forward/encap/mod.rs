//! Encapsulations: what stands between the outer UDP header and the inner packet. One small file each, chosen at compile
//! time, so that the packet path has no call through a pointer.

mod udp;

pub use udp::Udp;

use super::DropReason;
use crate::net::Endpoint;

/// What stands in front of an inner packet in a UDP payload.
pub trait Encapsulation {
    /// Bytes added in front of the inner packet, all of them inside the UDP payload.
    const OVERHEAD: u16;

    /// Writes `header`, which is [`OVERHEAD`](Self::OVERHEAD) bytes long.
    fn encap(header: &mut [u8]);

    /// Where the inner packet begins in a UDP payload. It comes from anybody and may be anything.
    ///
    /// # Errors
    /// The reason to drop it instead.
    fn decap(payload: &[u8]) -> Result<usize, DropReason>;
}

/// Bytes by which an outer packet to `peer` is larger than the inner one: IP header, UDP header and `E`'s own.
#[must_use]
pub const fn overhead<E: Encapsulation>(peer: Endpoint) -> u16 {
    let outer = match peer {
        Endpoint::V4(_) => 20 + 8,
        Endpoint::V6(_) => 40 + 8,
    };
    outer + E::OVERHEAD
}
