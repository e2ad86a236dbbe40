//! Values that every other room speaks in. Nothing here does I/O, reads a clock or imports another room.

mod ecn;
mod flow_key;
mod moment;
mod offload;
mod prefix;

pub use ecn::Ecn;
pub use flow_key::{FlowKey, Protocol, address_bits, address_of, v4_bits};
pub use moment::Moment;
pub use offload::{Offload, PartialChecksum, SegmentKind, Segmentation, Supers};
pub use prefix::{Address, Prefix, Prefix4, Prefix6, PrefixError};

/// Where a peer receives datagrams: underlay address and UDP port.
pub type Endpoint = std::net::SocketAddr;
