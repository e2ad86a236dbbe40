//! One slice of the network as one atomic word: the IPv4 endpoint of its node, or nothing.
//!
//! Layout, from the top: 32 bits address, 16 bits port, 16 bits tag. Tag 0 is an empty slot, tag 1 an endpoint held in the
//! word itself; the others are free, for endpoints that would be held elsewhere under an index.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const TAG_INLINE: u64 = 1;
const TAG_MASK: u64 = 0xffff;

/// A slot of the table. The word says everything there is to say, so relaxed ordering suffices.
#[derive(Debug, Default)]
pub(super) struct Slot(AtomicU64);

impl Slot {
    /// The endpoint held.
    #[inline]
    pub(super) fn load(&self) -> Option<SocketAddrV4> {
        unpack(self.0.load(Relaxed))
    }

    /// Puts `endpoint` and returns what was there.
    pub(super) fn swap(&self, endpoint: Option<SocketAddrV4>) -> Option<SocketAddrV4> {
        unpack(self.0.swap(endpoint.map_or(0, pack), Relaxed))
    }
}

fn pack(endpoint: SocketAddrV4) -> u64 {
    u64::from(endpoint.ip().to_bits()) << 32 | u64::from(endpoint.port()) << 16 | TAG_INLINE
}

#[inline]
fn unpack(word: u64) -> Option<SocketAddrV4> {
    #[expect(clippy::cast_possible_truncation, reason = "takes the fields of the word apart")]
    let (address, port) = ((word >> 32) as u32, (word >> 16) as u16);
    (word & TAG_MASK == TAG_INLINE).then(|| SocketAddrV4::new(Ipv4Addr::from_bits(address), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_any_endpoint_or_none() {
        let slot = Slot::default();
        assert_eq!(slot.load(), None);
        let mut before = None;
        for text in ["0.0.0.0:0", "255.255.255.255:65535", "10.1.2.3:8285"] {
            let endpoint = Some(text.parse().unwrap());
            assert_eq!(slot.swap(endpoint), before);
            assert_eq!(slot.load(), endpoint);
            before = endpoint;
        }
        slot.swap(None);
        assert_eq!(slot.load(), None);
    }
}
