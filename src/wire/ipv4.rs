//! IPv4 headers: a view to read and a view to change.
//!
//! Not checked here: the header checksum. A router may leave that to the end hosts, flannel's proxy does, and a wrong one
//! stays wrong on its way through.

use std::net::Ipv4Addr;

use super::checksum;
use crate::net::Ecn;

/// Bytes of a header without options; the shortest packet there is.
pub const HEADER_LEN: usize = 20;

/// Why bytes are no IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Fewer bytes than a header has.
    #[error("expected an IPv4 header of at least 20 bytes, found {0} bytes")]
    TooShort(usize),
    /// Another version of IP, or no IP at all.
    #[error("expected IP version 4, found {0}")]
    Version(u8),
    /// The header says it is shorter than 20 bytes or longer than the packet.
    #[error("header length of {0} bytes is below 20 or beyond the packet")]
    HeaderLength(usize),
    /// The packet says it is shorter than its header or longer than what was received.
    #[error("total length of {0} bytes is below the header's or beyond what was received")]
    TotalLength(usize),
}

/// An IPv4 packet to be read.
///
/// Invariant: 20 <= header length <= total length = `bytes.len()`.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    header: &'a [u8; HEADER_LEN],
    bytes: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Looks at `bytes` as an IPv4 packet. Bytes behind the total length are no part of it.
    ///
    /// # Errors
    /// [`Malformed`] says which length or version is wrong.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = bytes.first_chunk().ok_or(Malformed::TooShort(bytes.len()))?;
        let version = header[0] >> 4;
        if version != 4 {
            return Err(Malformed::Version(version));
        }
        let view = Self { header, bytes };
        let header_len = view.header_len();
        if header_len < HEADER_LEN || header_len > bytes.len() {
            return Err(Malformed::HeaderLength(header_len));
        }
        let total_len = usize::from(view.word(2));
        if total_len < header_len {
            return Err(Malformed::TotalLength(total_len));
        }
        let bytes = bytes.get(..total_len).ok_or(Malformed::TotalLength(total_len))?;
        Ok(Self { header, bytes })
    }

    /// The whole packet, cut to its total length.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of the whole packet.
    #[inline]
    #[must_use]
    pub fn total_len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of the header with its options: 20 to 60.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.header[0] & 0x0f) * 4
    }

    /// What follows the header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.header_len()..).unwrap_or_default()
    }

    /// The congestion mark.
    #[inline]
    #[must_use]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_tos(self.header[1])
    }

    /// Whether routers may not fragment it.
    #[inline]
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        self.header[6] & 0x40 != 0
    }

    /// Whether fragments of the same packet follow.
    #[inline]
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        self.header[6] & 0x20 != 0
    }

    /// Where this fragment lies in the whole packet's payload, in units of 8 bytes.
    #[inline]
    #[must_use]
    pub fn fragment_offset(&self) -> u16 {
        self.word(6) & 0x1fff
    }

    /// Hops left.
    #[inline]
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.header[8]
    }

    /// What the payload is: 1 ICMP, 6 TCP, 17 UDP.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.header[9]
    }

    /// Who sent it.
    #[inline]
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        let [.., a, b, c, d, _, _, _, _] = *self.header;
        Ipv4Addr::new(a, b, c, d)
    }

    /// Who is to get it.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> Ipv4Addr {
        let [.., a, b, c, d] = *self.header;
        Ipv4Addr::new(a, b, c, d)
    }

    #[inline]
    fn word(&self, at: usize) -> u16 {
        match self.header.get(at..) {
            Some(&[high, low, ..]) => u16::from_be_bytes([high, low]),
            _ => 0,
        }
    }
}

/// An IPv4 header to be changed. The header checksum follows every change by the difference.
#[derive(Debug)]
pub struct Ipv4Mut<'a>(&'a mut [u8; HEADER_LEN]);

impl<'a> Ipv4Mut<'a> {
    /// The header in front of `bytes`, which [`Ipv4::parse`] has found to be a packet; `None` if they are too short for one.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        bytes.first_chunk_mut().map(Self)
    }

    /// Takes one hop off the TTL. `false`, with nothing changed, if none would be left: 0 never wraps to 255.
    #[inline]
    pub fn decrement_ttl(&mut self) -> bool {
        if self.0[8] < 2 {
            return false;
        }
        self.0[8] -= 1;
        self.set_checksum(checksum::after_ttl_decrement(self.checksum()));
        true
    }

    /// Sets the congestion mark.
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        let tos = ecn.in_tos(self.0[1]);
        let old = u16::from_be_bytes([self.0[0], self.0[1]]);
        let new = u16::from_be_bytes([self.0[0], tos]);
        if old != new {
            self.0[1] = tos;
            self.set_checksum(checksum::patch(self.checksum(), old, new));
        }
    }

    #[inline]
    fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.0[10], self.0[11]])
    }

    #[inline]
    fn set_checksum(&mut self, checksum: u16) {
        [self.0[10], self.0[11]] = checksum.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const P64: [u8; 28] =
        [0x45, 0, 0, 0x1c, 0, 1, 0, 0, 0x40, 0x11, 0x42, 0xc2, 10, 5, 16, 2, 10, 5, 20, 3, 0x04, 0xd2, 0x16, 0x2e, 0, 8, 0, 0];

    #[test]
    fn reads_every_field() {
        let mut bytes = P64.to_vec();
        bytes[1] = 0b1011_1010;
        bytes[6..8].copy_from_slice(&[0x40 | 0x15, 0x39]);
        bytes.extend([0xee; 4]);
        let packet = Ipv4::parse(&bytes).unwrap();
        assert_eq!((packet.header_len(), packet.total_len(), packet.payload()), (20, 28, &P64[20..]));
        assert_eq!((packet.ecn(), packet.dont_fragment(), packet.fragment_offset()), (Ecn::Ect0, true, 0x1539));
        assert_eq!((packet.ttl(), packet.protocol()), (64, 17));
        assert_eq!((packet.source().octets(), packet.destination().octets()), ([10, 5, 16, 2], [10, 5, 20, 3]));
        assert_eq!(packet.bytes(), &bytes[..28]);
    }

    #[test]
    fn options_belong_to_the_header() {
        let mut bytes = P64.to_vec();
        bytes[0] = 0x47;
        let packet = Ipv4::parse(&bytes).unwrap();
        assert_eq!((packet.header_len(), packet.payload().len()), (28, 0));
    }

    #[test]
    fn lengths_that_disagree_are_malformed() {
        let with = |edits: &[(usize, u8)], len: usize| {
            let mut bytes = P64.to_vec();
            for (at, value) in edits {
                bytes[*at] = *value;
            }
            bytes.truncate(len);
            Ipv4::parse(&bytes).map(|packet| packet.total_len())
        };
        assert_eq!(with(&[], 28), Ok(28));
        for len in [0, 1, 19] {
            assert_eq!(with(&[], len), Err(Malformed::TooShort(len)));
        }
        for version in [0, 6, 15] {
            assert_eq!(with(&[(0, version << 4 | 5)], 28), Err(Malformed::Version(version)));
        }
        assert_eq!(with(&[(0, 0x44)], 28), Err(Malformed::HeaderLength(16)));
        assert_eq!(with(&[(0, 0x4f)], 20), Err(Malformed::HeaderLength(60)));
        assert_eq!(with(&[(3, 29)], 28), Err(Malformed::TotalLength(29)));
        assert_eq!(with(&[(3, 19)], 28), Err(Malformed::TotalLength(19)));
        assert_eq!(with(&[(3, 20)], 28), Ok(20));
    }

    #[test]
    fn ttl_goes_down_by_one_and_stops_before_zero() {
        let ttl = |start| {
            let mut bytes = P64;
            bytes[8] = start;
            let went = Ipv4Mut::new(&mut bytes).unwrap().decrement_ttl();
            (went, bytes[8])
        };
        assert_eq!([0, 1, 2, 255].map(ttl), [(false, 0), (false, 1), (true, 1), (true, 254)]);
        assert!(Ipv4Mut::new(&mut [0; 19]).is_none());
    }

    proptest! {
        #[test]
        fn a_right_checksum_stays_right(ttl in 2u8.., tos: u8, id: u16, mark in 0u8..4) {
            let mut bytes = P64;
            (bytes[1], bytes[8]) = (tos, ttl);
            [bytes[4], bytes[5]] = id.to_be_bytes();
            [bytes[10], bytes[11]] = [0, 0];
            [bytes[10], bytes[11]] = checksum::checksum(&bytes[..20]).to_be_bytes();
            let mut header = Ipv4Mut::new(&mut bytes).unwrap();
            header.decrement_ttl();
            header.set_ecn(Ecn::from_tos(mark));
            prop_assert_eq!(checksum::sum(&bytes[..20]), 0xffff);
            prop_assert_eq!((bytes[8], bytes[1]), (ttl - 1, tos & !3 | mark));
        }

        #[test]
        fn agrees_with_etherparse_on_what_a_packet_is(bytes in prop::collection::vec(any::<u8>(), 0..80), first in 0x40u8..0x50) {
            let mut bytes = bytes;
            if let [start, _, high, ..] = bytes.as_mut_slice() {
                (*start, *high) = (first, 0);
            }
            match (Ipv4::parse(&bytes), etherparse::Ipv4HeaderSlice::from_slice(&bytes)) {
                (Ok(ours), Ok(theirs)) => {
                    prop_assert_eq!(ours.header_len(), theirs.slice().len());
                    prop_assert_eq!(ours.total_len(), usize::from(theirs.total_len()));
                    prop_assert_eq!(ours.source(), theirs.source_addr());
                    prop_assert_eq!(ours.destination(), theirs.destination_addr());
                    prop_assert_eq!(ours.fragment_offset(), theirs.fragments_offset().value());
                    prop_assert_eq!(ours.dont_fragment(), theirs.dont_fragment());
                }
                // The oracle judges the header alone; its total length against what was received is ours to judge.
                (Err(Malformed::TotalLength(found)), Ok(theirs)) => {
                    prop_assert_eq!(found, usize::from(theirs.total_len()));
                    prop_assert!(found < theirs.slice().len() || found > bytes.len());
                }
                (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err(), "{ours:?} {theirs:?}"),
            }
        }
    }
}
