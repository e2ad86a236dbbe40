//! The findings, as values.

use crate::net::{FlowKey, Protocol};

/// What a packet is to policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inspected {
    /// A packet of a flow; a reply has the reversed key. An ICMP query has numbers of its own in place of ports.
    Flow {
        /// The direction it goes in.
        key: FlowKey,
        /// Its flags, if it is TCP.
        tcp: Option<TcpFlags>,
        /// What later fragments of the same datagram are known by, if there will be any.
        first_fragment: Option<FirstFragment>,
    },
    /// The answer to an ICMP query, such as an echo reply: of the flow that its query opened, if there is one. It opens none
    /// itself, or the other end could ask within it what policy lets it answer only.
    Answer {
        /// The direction it goes in: the reverse of its query's.
        key: FlowKey,
        /// What later fragments of the same datagram are known by, if there will be any.
        first_fragment: Option<FirstFragment>,
    },
    /// An ICMP message that is neither query nor answer nor an error about a packet: it has no answer that could be told from any
    /// other message, so it belongs to no flow and is judged for itself. A redirect is one.
    Message {
        /// From whom to whom; the ports are 0.
        key: FlowKey,
        /// What later fragments of the same datagram are known by, if there will be any.
        first_fragment: Option<FirstFragment>,
    },
    /// A fragment without ports: only the first fragment of its datagram can speak for it.
    LaterFragment {
        /// The datagram it belongs to.
        id: FragmentId,
        /// Where in the datagram's payload it lies, in bytes; never 0.
        offset: u16,
    },
    /// An ICMP error about a packet that the error's destination sent (or so it says): unreachable, packet too big, time
    /// exceeded, parameter problem.
    IcmpError {
        /// From whom to whom the error goes; the ports are 0.
        key: FlowKey,
        /// The packet the error is about, as it went.
        quoted: FlowKey,
    },
    /// IPv6 neighbour discovery, types 133 to 137 of its ICMP: without it there is no IPv6, so policy never has a say.
    Neighbour,
    /// Not to be let through, whatever policy says.
    Unfit(Unfit),
}

/// Why policy cannot speak about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unfit {
    /// No IP packet: too short, another version, or lengths that disagree.
    Malformed,
    /// The packet ends within its transport header.
    NoTransport,
    /// A first fragment ends before what policy has to see: the ports, for TCP the flags too (RFC 1858, RFC 7112).
    TinyFragment,
    /// A later fragment of TCP begins within the header, where it would replace the flags (RFC 1858 section 3).
    OverlappingFragment,
    /// More IPv6 extension headers than anybody has a use for.
    TooManyExtensions,
    /// An IPv6 routing header with stops to come: the destination is not where the packet is going (RFC 5095).
    SourceRouted,
    /// An IPv6 header with an IPv4-mapped address, which would pass for IPv4.
    MappedAddress,
}

/// What all fragments of one datagram share (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentId {
    /// Where it comes from.
    pub source: u128,
    /// Where it goes.
    pub destination: u128,
    /// For IPv4 the transport; for IPv6, where fragments may differ in it, the fragment header itself: 44.
    pub protocol: Protocol,
    /// The number its sender gave the datagram: 16 bits in IPv4.
    pub id: u32,
}

/// A first fragment with others to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstFragment {
    /// The datagram.
    pub id: FragmentId,
    /// How much of the datagram's payload it brings, in bytes; none of the later ones may begin within it.
    pub bytes: u16,
}

/// The flags of a TCP header, its byte 13.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise: the first segment of either side.
    pub const SYN: Self = Self(0x02);
    /// Reset.
    pub const RST: Self = Self(0x04);
    /// Acknowledges something: all but the first segment and some resets.
    pub const ACK: Self = Self(0x10);

    /// Both sets of flags.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether one of these is set.
    #[inline]
    #[must_use]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Whether a segment with these flags asks for a new connection, and is no reply to anything: SYN without ACK.
    #[inline]
    #[must_use]
    pub const fn opens(self) -> bool {
        self.has(Self::SYN) && !self.has(Self::ACK.and(Self::RST))
    }

    /// Whether a segment with these flags accepts a connection: SYN and ACK.
    #[inline]
    #[must_use]
    pub const fn accepts(self) -> bool {
        self.has(Self::SYN) && self.has(Self::ACK)
    }
}

impl Inspected {
    /// Where the packet goes, if that could be read and matters; see [`is_multicast`].
    #[inline]
    #[must_use]
    pub const fn destination(&self) -> Option<u128> {
        match self {
            Self::Flow { key, .. } | Self::Answer { key, .. } | Self::Message { key, .. } | Self::IcmpError { key, .. } => {
                Some(key.destination)
            }
            Self::LaterFragment { id, .. } => Some(id.destination),
            Self::Neighbour | Self::Unfit(_) => None,
        }
    }
}

/// Whether these [bits](crate::net::address_bits) are a group's address: `224.0.0.0/4` or `ff00::/8`.
#[inline]
#[must_use]
pub const fn is_multicast(address: u128) -> bool {
    address >> 28 == 0xffff_0000_0000 >> 28 | 0xe || address >> 120 == 0xff
}
