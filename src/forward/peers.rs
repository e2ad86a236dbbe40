//! The question the data plane asks about leases.

use std::net::Ipv4Addr;

use crate::lease::Lookup;
use crate::net::Endpoint;

/// Who leases an overlay address. Asked at least once per packet, so an answer costs nanoseconds and never waits.
pub trait Peers {
    /// Where the node that leases `address` receives datagrams; `None` when no other node does.
    fn peer_of(&mut self, address: Ipv4Addr) -> Option<Endpoint>;
}

impl<F: FnMut(Ipv4Addr) -> Option<Endpoint>> Peers for F {
    #[inline]
    fn peer_of(&mut self, address: Ipv4Addr) -> Option<Endpoint> {
        self(address)
    }
}

impl Peers for Lookup<'_> {
    #[inline]
    fn peer_of(&mut self, address: Ipv4Addr) -> Option<Endpoint> {
        Lookup::peer_of(self, address)
    }
}
