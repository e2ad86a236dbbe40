//! Which packets may not pass each other: keys to find the runs a packet has to do with.

use std::num::NonZeroU64;

use super::super::headers::{Family, Headers, Transport};

/// Stands for a pair of source and destination address. Two packets of one pair have equal keys; two of different pairs
/// seldom do, and taking them for one pair costs nothing but a chance to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends(NonZeroU64);

/// Stands for a pair of addresses, a transport and a pair of ports, in the same sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow(NonZeroU64);

/// Odd, and without a pattern in its bits: the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Ends {
    /// The key of `packet`, which may be of any kind; `None` if it is too short to have two addresses.
    #[inline]
    #[must_use]
    pub fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => packet.get(12..20)?.first_chunk().copied().map(Self::of_ipv4),
            6 => packet.get(8..40)?.first_chunk().map(Self::of_ipv6),
            _ => None,
        }
    }

    #[inline]
    fn of_ipv4(addresses: [u8; 8]) -> Self {
        Self(NonZeroU64::MIN | mixed(u64::from_ne_bytes(addresses)))
    }

    #[inline]
    fn of_ipv6(addresses: &[u8; 32]) -> Self {
        let (words, _) = addresses.as_chunks::<8>();
        Self(NonZeroU64::MIN | words.iter().fold(0, |sum, word| mixed(sum ^ u64::from_ne_bytes(*word))))
    }
}

impl Flow {
    /// The key of `packet`, whose headers are these; `None` if they are not.
    #[inline]
    #[must_use]
    pub fn of(packet: &[u8], headers: &Headers) -> Option<Self> {
        let Ends(ends) = match headers.family {
            Family::V4 => packet.get(12..20)?.first_chunk().copied().map(Ends::of_ipv4),
            Family::V6 => packet.get(8..40)?.first_chunk().map(Ends::of_ipv6),
        }?;
        let ports = u32::from_ne_bytes(*packet.get(headers.transport_at..)?.first_chunk()?);
        let transport = match headers.transport {
            Transport::Tcp => 0,
            Transport::Udp => 1 << 32,
        };
        Some(Self(NonZeroU64::MIN | mixed(ends.get() ^ u64::from(ports) ^ transport)))
    }
}

/// Every bit of `word` changes half of the bits that matter.
#[inline]
const fn mixed(word: u64) -> u64 {
    let word = word.wrapping_mul(SPREAD);
    word ^ word >> 32
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use etherparse::PacketBuilder;

    use super::*;

    #[test]
    fn ends_are_addresses_and_flows_are_ends_with_ports() {
        let (mut ends, mut flows) = (HashSet::new(), HashSet::new());
        let mut add = |packet: &[u8]| {
            let headers = Headers::find(packet).unwrap();
            assert_eq!(Flow::of(packet, &headers), Flow::of(packet, &headers));
            ends.insert(Ends::of(packet).unwrap());
            flows.insert(Flow::of(packet, &headers).unwrap());
        };
        for host in 0..20 {
            for port in 0..20 {
                let mut packet = Vec::new();
                let v4 = || PacketBuilder::ipv4([10, 5, 16, host], [10, 5, 20, 3], 64);
                v4().udp(1000 + port, 80).write(&mut packet, b"x").unwrap();
                add(&packet);
                packet.clear();
                v4().tcp(80, 1000 + port, 0, 0).write(&mut packet, b"x").unwrap();
                add(&packet);
                packet.clear();
                PacketBuilder::ipv6([host; 16], [2; 16], 64).udp(80, 1000 + port).write(&mut packet, b"x").unwrap();
                add(&packet);
            }
        }
        assert_eq!((ends.len(), flows.len()), (40, 1200));
    }

    #[test]
    fn what_has_no_addresses_has_no_key() {
        for bytes in [&[][..], &[0x45; 19], &[0x60; 39], &[0x50; 60]] {
            assert_eq!(Ends::of(bytes), None);
        }
        assert!(Ends::of(&[0x45; 20]).is_some() && Ends::of(&[0x60; 40]).is_some());
    }
}
