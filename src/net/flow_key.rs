//! What names a flow: addresses, ports, protocol.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP protocol number, as in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// ICMP for IPv4.
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(58);
    /// SCTP.
    pub const SCTP: Self = Self(132);

    /// Whether its packets have ports that policies speak of.
    #[inline]
    #[must_use]
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::TCP | Self::UDP | Self::SCTP)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ICMP => to.write_str("ICMP"),
            Self::TCP => to.write_str("TCP"),
            Self::UDP => to.write_str("UDP"),
            Self::ICMPV6 => to.write_str("ICMPv6"),
            Self::SCTP => to.write_str("SCTP"),
            Self(number) => write!(to, "protocol {number}"),
        }
    }
}

/// One direction of a flow, as its packets have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Where packets come from; see [`address_bits`].
    pub source: u128,
    /// Where they go.
    pub destination: u128,
    /// Port they come from; 0 where the protocol has none. Of an ICMP echo its identifier.
    pub source_port: u16,
    /// Port they go to; 0 where the protocol has none. Of an ICMP echo its identifier as well.
    pub destination_port: u16,
    /// What is above IP.
    pub protocol: Protocol,
}

impl FlowKey {
    /// A flow from the first to the second, each an address and a port.
    #[must_use]
    pub fn new(protocol: Protocol, from: (IpAddr, u16), to: (IpAddr, u16)) -> Self {
        Self {
            source: address_bits(from.0),
            destination: address_bits(to.0),
            source_port: from.1,
            destination_port: to.1,
            protocol,
        }
    }

    /// The other direction.
    #[inline]
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol: self.protocol,
        }
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |address, port| {
            let address = address_of(address);
            if self.protocol.has_ports() { std::net::SocketAddr::new(address, port).to_string() } else { address.to_string() }
        };
        let (from, into) = (end(self.source, self.source_port), end(self.destination, self.destination_port));
        write!(to, "{} {from} to {into}", self.protocol)
    }
}

/// An address of either family as 128 bits in host order: IPv4 as `::ffff:a.b.c.d` (RFC 4291 section 2.5.5.2).
#[inline]
#[must_use]
pub const fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => v4_bits(address),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The same for an IPv4 address.
#[inline]
#[must_use]
pub const fn v4_bits(address: Ipv4Addr) -> u128 {
    0xffff_0000_0000 | address.to_bits() as u128
}

/// The address that has these bits.
#[must_use]
pub const fn address_of(bits: u128) -> IpAddr {
    Ipv6Addr::from_bits(bits).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_being_bits() {
        for text in ["10.1.2.3", "0.0.0.0", "255.255.255.255", "fd00::1", "::", "::1"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(address_of(address_bits(address)), address);
        }
    }

    #[test]
    fn a_flow_reads_as_it_goes() {
        let ends = (("10.1.2.3".parse().unwrap(), 40_000), ("fd00::1".parse().unwrap(), 80));
        let key = FlowKey::new(Protocol::TCP, ends.0, ends.1);
        assert_eq!(key.to_string(), "TCP 10.1.2.3:40000 to [fd00::1]:80");
        assert_eq!(key.reversed().to_string(), "TCP [fd00::1]:80 to 10.1.2.3:40000");
        assert_eq!(key.reversed().reversed(), key);
        let echo = FlowKey { protocol: Protocol::ICMP, ..key };
        assert_eq!(echo.to_string(), "ICMP 10.1.2.3 to fd00::1");
    }
}
