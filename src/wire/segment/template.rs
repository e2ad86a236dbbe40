//! The headers all segments of a super-packet share, and what differs from one to the next.
//!
//! Everything that can be added up beforehand is, so a segment costs one copy of its payload and a handful of additions.

use crate::wire::checksum;
use crate::wire::headers::{Family, Headers, Transport};

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// What is known of the headers before the first segment is written.
///
/// The sums are of big-endian words and leave out every field that differs between segments, and the checksums.
#[derive(Clone, Copy, Debug)]
pub(super) struct Template {
    transport: Transport,
    transport_at: usize,
    ip: Ip,
    transport_sum: u32,
    /// TCP: of the first payload byte.
    sequence: u32,
    /// TCP: of the super-packet.
    flags: u8,
}

#[derive(Clone, Copy, Debug)]
enum Ip {
    V4 { identification: u16, sum: u32 },
    V6,
}

/// Which segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Its number, from 0.
    pub at: usize,
    /// Whether it is the last.
    pub last: bool,
    /// Payload bytes in front of its own.
    pub before: usize,
}

impl Template {
    /// `headers` were found in `packet`. `None` only if they were not.
    #[inline]
    pub(super) fn new(packet: &[u8], headers: &Headers) -> Option<Self> {
        let transport_header = packet.get(headers.transport_at..headers.payload_at)?;
        let mut template = Self {
            transport: headers.transport,
            transport_at: headers.transport_at,
            ip: match headers.family {
                Family::V4 => Ip::v4(packet.get(..headers.transport_at)?)?,
                Family::V6 => Ip::V6,
            },
            transport_sum: u32::from(headers.pseudo_sum(packet, 0)) + u32::from(checksum::sum(transport_header)),
            sequence: 0,
            flags: 0,
        };
        let varying = match headers.transport {
            Transport::Tcp => {
                let tcp = transport_header.first_chunk::<20>()?;
                template.sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
                template.flags = tcp[13];
                [word(tcp, 4), word(tcp, 6), u32::from(tcp[13]), word(tcp, 16)]
            }
            Transport::Udp => {
                let udp = transport_header.first_chunk::<8>()?;
                [word(udp, 4), word(udp, 6), 0, 0]
            }
        };
        template.transport_sum += varying.map(without).iter().sum::<u32>();
        Some(template)
    }

    /// Makes `head`, a copy of the super-packet's headers, those of the segment `turn`, whose `payload_len` payload bytes
    /// have the sum `payload_sum`. `None` only if `head` is no such copy.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "lengths in a packet of 16 bits' length; numbers count modulo 2^16 and 2^32"
    )]
    pub(super) fn apply(&self, head: &mut [u8], turn: Turn, payload_len: usize, payload_sum: u16) -> Option<()> {
        let packet_len = (head.len() + payload_len) as u16;
        let (ip, transport) = head.split_at_mut_checked(self.transport_at)?;
        let transport_len = (transport.len() + payload_len) as u16;
        match self.ip {
            Ip::V4 { identification, sum } => {
                let ip = ip.first_chunk_mut::<20>()?;
                let identification = identification.wrapping_add(turn.at as u16);
                [ip[2], ip[3]] = packet_len.to_be_bytes();
                [ip[4], ip[5]] = identification.to_be_bytes();
                [ip[10], ip[11]] = (!folded(sum + u32::from(packet_len) + u32::from(identification))).to_be_bytes();
            }
            Ip::V6 => {
                let ip = ip.first_chunk_mut::<40>()?;
                [ip[4], ip[5]] = transport_len.to_be_bytes();
            }
        }
        let sum = self.transport_sum + u32::from(transport_len) + u32::from(payload_sum);
        match self.transport {
            Transport::Tcp => {
                let tcp = transport.first_chunk_mut::<20>()?;
                let sequence = self.sequence.wrapping_add(turn.before as u32);
                let flags = self.flags & !(if turn.last { 0 } else { FIN | PSH }) & !(if turn.at == 0 { 0 } else { CWR });
                [tcp[4], tcp[5], tcp[6], tcp[7]] = sequence.to_be_bytes();
                tcp[13] = flags;
                let sum = sum + (sequence >> 16) + (sequence & 0xffff) + u32::from(flags);
                [tcp[16], tcp[17]] = (!folded(sum)).to_be_bytes();
            }
            Transport::Udp => {
                let udp = transport.first_chunk_mut::<8>()?;
                [udp[4], udp[5]] = transport_len.to_be_bytes();
                // 0 would mean that there is no checksum: RFC 768.
                let checksum = match !folded(sum + u32::from(transport_len)) {
                    0 => 0xffff,
                    checksum => checksum,
                };
                [udp[6], udp[7]] = checksum.to_be_bytes();
            }
        }
        Some(())
    }
}

impl Ip {
    #[inline]
    fn v4(header: &[u8]) -> Option<Self> {
        let fixed = header.first_chunk::<20>()?;
        let varying = [2, 4, 10].map(|at| without(word(fixed, at)));
        let sum = u32::from(checksum::sum(header)) + varying.iter().sum::<u32>();
        Some(Self::V4 { identification: u16::from_be_bytes([fixed[4], fixed[5]]), sum })
    }
}

/// What takes `word` out of a sum it was added to.
#[inline]
fn without(word: u32) -> u32 {
    0xffff - word
}

/// The big-endian word at `at`, which lies in the header.
#[inline]
fn word(header: &[u8], at: usize) -> u32 {
    match header.get(at..) {
        Some(&[high, low, ..]) => u32::from(u16::from_be_bytes([high, low])),
        _ => 0,
    }
}

/// A sum of a few words, folded to 16 bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "after two folds nothing is above bit 15")]
fn folded(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}
