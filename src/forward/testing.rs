//! A small overlay for the tests of this room: we are 10.5.16.0/24 at 192.0.2.16, the peer is 10.5.20.0/24 at 192.0.2.20.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use super::{Counters, DropReason, Forwarder, Peers, SourceCheck, Totals, Tunnel};
use crate::net::{Endpoint, Moment};

/// 10.5.16.2 -> 10.5.20.3, UDP 1234 -> 5678, TTL 64, no payload.
pub const P64: &str = "4500001c00010000401142c20a0510020a05140304d2162e00080000";
/// The peer.
pub const PEER: Endpoint = endpoint(20);
/// When nothing depends on it.
pub const NOW: Moment = Moment::ZERO;

/// Port 8285 at 192.0.2.`host`.
pub const fn endpoint(host: u8) -> Endpoint {
    Endpoint::V4(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, host), 8285))
}

/// Our end.
pub fn tunnel() -> Tunnel {
    Tunnel {
        own: "10.5.16.0/24".parse().unwrap(),
        network: "10.5.0.0/16".parse().unwrap(),
        mtu: 1472,
        endpoint: endpoint(16),
        source_check: SourceCheck::Strict,
    }
}

/// The peer, and two that would be loops: 10.5.30.0/24 says it is us, 10.5.31.0/24 that it is inside the overlay.
pub fn peers() -> impl Peers {
    |address: Ipv4Addr| match address.octets() {
        [10, 5, 20, _] => Some(PEER),
        [10, 5, 30, _] => Some(endpoint(16)),
        [10, 5, 31, _] => Some(Endpoint::from(([10, 5, 31, 0], 8285))),
        _ => None,
    }
}

/// An open forwarder at our end.
pub fn forwarder() -> Forwarder {
    let mut forwarder = Forwarder::new(Arc::new(Counters::default()));
    forwarder.adopt(Some(&tunnel()));
    forwarder
}

/// The reasons counted so far.
pub fn drops(forwarder: &Forwarder) -> Vec<(DropReason, u64)> {
    Totals::of([forwarder.counters()]).drops().filter(|(_, count)| *count > 0).collect()
}

/// Bytes from hexadecimal.
pub fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
