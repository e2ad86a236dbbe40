//! Why a packet from a TUN cannot be made ready for the wire.

use crate::net::{PartialChecksum, SegmentKind};

/// What is wrong with a packet, or with what its device says is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Uncuttable {
    /// Only plain TCP and UDP can be cut.
    #[error("expected a super-packet of TCP or UDP with whole headers, no fragment and without IPv6 extension headers")]
    Headers,
    /// The device speaks of another kind of packet than it handed over.
    #[error("expected a super-packet of {expected:?}, found {found:?}")]
    Kind {
        /// What the device says.
        expected: SegmentKind,
        /// What the headers say.
        found: SegmentKind,
    },
    /// Nothing to cut.
    #[error("expected a super-packet with payload, found headers only")]
    Empty,
    /// The field lies in the IP header or beyond the packet.
    #[error("expected a checksum field behind the IP header of a packet of {len} bytes, found it said to be at {} + {}", field.start, field.offset)]
    ChecksumField {
        /// Where the device says it is.
        field: PartialChecksum,
        /// Bytes of the packet.
        len: usize,
    },
}
