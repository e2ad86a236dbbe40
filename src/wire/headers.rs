//! The headers of a TCP or UDP packet, as far as segmenting and coalescing need them: where each begins and how long it is.
//!
//! Not for judging packets: whatever is not plain TCP or UDP over IPv4 or IPv6 is simply not found here.

use super::checksum;
use super::ipv4::Ipv4;
use crate::net::{PartialChecksum, SegmentKind};

/// Bytes of an IPv6 header.
const IPV6_LEN: usize = 40;
/// Bytes of a TCP header without options.
const TCP_LEN: usize = 20;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;

/// Which of the two IP versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Which transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Where the headers of a packet lie.
///
/// Invariant: `transport_at < payload_at <= packet_len`, all of them inside the bytes the headers were found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Version of IP.
    pub family: Family,
    /// Transport.
    pub transport: Transport,
    /// Where the transport header begins: bytes of the IP header.
    pub transport_at: usize,
    /// Where the payload begins.
    pub payload_at: usize,
    /// Bytes of the whole packet by its own account; more of them may have come.
    pub packet_len: usize,
}

impl Headers {
    /// Finds the headers of `packet`: IPv4 with or without options but no fragment, or IPv6 without extension headers.
    /// `None` for everything else, and where the lengths do not agree.
    #[inline]
    #[must_use]
    pub fn find(packet: &[u8]) -> Option<Self> {
        let (family, transport_at, packet_len, protocol) = match packet.first()? >> 4 {
            4 => {
                let ip = Ipv4::parse(packet).ok()?;
                if ip.fragment_offset() != 0 || ip.more_fragments() {
                    return None;
                }
                (Family::V4, ip.header_len(), ip.total_len(), ip.protocol())
            }
            6 => {
                let header = packet.first_chunk::<IPV6_LEN>()?;
                let packet_len = IPV6_LEN + usize::from(u16::from_be_bytes([header[4], header[5]]));
                (Family::V6, IPV6_LEN, packet_len, header[6])
            }
            _ => return None,
        };
        let segment = packet.get(transport_at..packet_len)?;
        let (transport, header_len) = match protocol {
            6 => (Transport::Tcp, usize::from(segment.get(12)? >> 4) * 4),
            17 => (Transport::Udp, UDP_LEN),
            _ => return None,
        };
        let least = if transport == Transport::Tcp { TCP_LEN } else { UDP_LEN };
        let fits = (least..=segment.len()).contains(&header_len);
        fits.then_some(Self { family, transport, transport_at, payload_at: transport_at + header_len, packet_len })
    }

    /// Where the transport checksum lies, as a partial one is described.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "an IP header has at most 60 bytes")]
    pub fn checksum_field(&self) -> PartialChecksum {
        let offset = match self.transport {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        };
        PartialChecksum { start: self.transport_at as u16, offset }
    }

    /// What super-packets of such packets are.
    #[inline]
    #[must_use]
    pub fn segment_kind(&self) -> SegmentKind {
        match (self.transport, self.family) {
            (Transport::Tcp, Family::V4) => SegmentKind::Tcp4,
            (Transport::Tcp, Family::V6) => SegmentKind::Tcp6,
            (Transport::Udp, _) => SegmentKind::Udp,
        }
    }

    /// The sum of the pseudo-header for a transport header and payload of `len` bytes behind the IP header of `packet`.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a length in an IP packet without jumbograms has 16 bits")]
    pub fn pseudo_sum(&self, packet: &[u8], len: usize) -> u16 {
        let addresses = match self.family {
            Family::V4 => packet.get(12..20),
            Family::V6 => packet.get(8..40),
        };
        let protocol = match self.transport {
            Transport::Tcp => 6,
            Transport::Udp => 17,
        };
        checksum::add(checksum::sum(addresses.unwrap_or_default()), checksum::add(protocol, len as u16))
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    fn udp4(payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([10, 5, 16, 2], [10, 5, 20, 3], 64).udp(1234, 5678).write(&mut bytes, payload).unwrap();
        bytes
    }

    fn tcp6(payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let options = [etherparse::TcpOptionElement::Timestamp(1, 2)];
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(1234, 80, 7, 512).options(&options).unwrap();
        builder.write(&mut bytes, payload).unwrap();
        bytes
    }

    #[test]
    fn plain_packets_are_measured_and_their_sums_verify() {
        let packet = udp4(b"odd");
        let headers = Headers::find(&packet).unwrap();
        assert_eq!((headers.family, headers.transport), (Family::V4, Transport::Udp));
        assert_eq!((headers.transport_at, headers.payload_at, headers.packet_len), (20, 28, 31));
        assert_eq!(
            (headers.checksum_field(), headers.segment_kind()),
            (PartialChecksum { start: 20, offset: 6 }, SegmentKind::Udp)
        );
        let whole = checksum::add(headers.pseudo_sum(&packet, 11), checksum::sum(&packet[20..]));
        assert_eq!(whole, 0xffff);

        let packet = tcp6(b"four");
        let headers = Headers::find(&packet).unwrap();
        assert_eq!((headers.transport_at, headers.payload_at, headers.packet_len), (40, 72, 76));
        assert_eq!(
            (headers.checksum_field(), headers.segment_kind()),
            (PartialChecksum { start: 40, offset: 16 }, SegmentKind::Tcp6)
        );
        assert_eq!(checksum::add(headers.pseudo_sum(&packet, 36), checksum::sum(&packet[40..])), 0xffff);
    }

    #[test]
    fn trailing_bytes_are_no_part_of_the_packet() {
        let packet = [udp4(b"x"), vec![0; 9]].concat();
        assert_eq!(Headers::find(&packet).unwrap().packet_len, 29);
    }

    #[test]
    fn what_is_not_plain_is_not_found() {
        let good = udp4(b"payload");
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes
        };
        for (name, bytes) in [
            ("nothing", Vec::new()),
            ("half a header", good[..19].to_vec()),
            ("version 5", with(0, 0x55)),
            ("more fragments", with(6, 0x20)),
            ("a later fragment", with(7, 1)),
            ("ICMP", with(9, 1)),
            ("no room for a UDP header", with(3, 27)),
            ("longer than it is", with(3, 36)),
        ] {
            assert_eq!(Headers::find(&bytes), None, "{name}");
        }
        let mut tcp = tcp6(b"four");
        for (at, value) in [(6, 0), (52, 0x40), (52, 0xf0), (5, 200)] {
            let right = std::mem::replace(&mut tcp[at], value);
            assert_eq!(Headers::find(&tcp), None, "byte {at}");
            tcp[at] = right;
        }
        assert!(Headers::find(&tcp).is_some());
    }
}
