//! The note beside a packet that is, or will be, a datagram on the underlay.

use crate::net::{Ecn, Endpoint};

/// Where a datagram came from or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The other end, on the underlay.
    pub peer: Endpoint,
    /// The outer header's congestion mark.
    pub ecn: Ecn,
    /// To be sent only: the inner packet may be fragmented, so the datagram may be too where the path is narrow.
    pub may_fragment: bool,
    /// Received only: the datagram was longer than its slot.
    pub truncated: bool,
    /// Set by a send: why this datagram did not leave, if it did not.
    pub refused: Option<Refusal>,
}

impl Default for Datagram {
    fn default() -> Self {
        Self { peer: Endpoint::from(([0, 0, 0, 0], 0)), ecn: Ecn::NotEct, may_fragment: false, truncated: false, refused: None }
    }
}

/// Why the kernel did not take a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The path is narrower than the datagram (EMSGSIZE).
    TooBig,
    /// The send buffer is full (EAGAIN, ENOBUFS).
    NoBuffer,
    /// Anything else: no route, interface down, firewall.
    Other,
}
