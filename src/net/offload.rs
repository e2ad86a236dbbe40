//! What a packet at a TUN device leaves to whoever handles it next: the virtio-net header, as a value.

use std::num::NonZeroU16;

/// Work on a packet that was put off. The default is none: the packet is one as it would be on a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The transport checksum is not computed yet.
    pub checksum: Option<PartialChecksum>,
    /// The packet is a super-packet, to be cut into segments.
    pub segmentation: Option<Segmentation>,
}

/// A checksum field that holds only the pseudo-header's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Where the transport header begins, in bytes from the packet's first.
    pub start: u16,
    /// Where the checksum field lies, in bytes from `start`.
    pub offset: u16,
}

/// How a super-packet is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// What it is made of.
    pub kind: SegmentKind,
    /// Payload bytes of each segment but the last, which may have fewer.
    pub segment_bytes: NonZeroU16,
    /// Bytes in front of the payload: a hint only, the kernel's is not always right.
    pub header_bytes: u16,
    /// TCP only: the first segment may carry CWR.
    pub ecn: bool,
}

/// Which super-packets a TUN device takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supers {
    /// TCP.
    pub tcp: bool,
    /// UDP.
    pub udp: bool,
}

impl Supers {
    /// Both.
    pub const ALL: Self = Self { tcp: true, udp: true };
}

/// What a super-packet is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams over either.
    Udp,
}
