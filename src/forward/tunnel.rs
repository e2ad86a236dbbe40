//! What a worker knows about its own end of the overlay.

use crate::net::{Endpoint, Prefix4};

/// This node's place in the overlay: an immutable snapshot, in force while the lease is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The subnet this node leases.
    pub own: Prefix4,
    /// The whole overlay.
    pub network: Prefix4,
    /// Largest inner packet in bytes: the underlay's MTU without the encapsulation.
    pub mtu: u16,
    /// Where this node receives datagrams; a peer that says it is here would be ourselves.
    pub endpoint: Endpoint,
    /// How closely a datagram's sender is looked at.
    pub source_check: SourceCheck,
}

/// What must be true of a datagram's outer source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceCheck {
    /// Address and port are those of the node that leases the inner source.
    ///
    /// The default. Flannel's and our own nodes always send from the port they listen on, and only the daemon can. Without
    /// the port, any process or masqueraded container on a peer's host could inject packets in the name of all its containers.
    #[default]
    Strict,
    /// The address alone: for peers behind a NAT that changes ports.
    Address,
    /// Nothing: any sender and any inner source, as flannel does it.
    Off,
}
