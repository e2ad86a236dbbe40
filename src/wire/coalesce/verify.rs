//! Whether checksums are right, and spelled as the kernel would spell them when it cuts a super-packet.
//!
//! Zero has two spellings in ones-complement arithmetic. A field that says 0xffff where every sender writes 0 is right, but
//! would not come back as it was.

use super::super::checksum;
use super::super::headers::{Family, Headers, Transport};
use super::parts::word;

/// Sum of addresses and protocol of `packet`: the part of the pseudo-header that all packets of a flow share.
#[inline]
pub fn shared_pseudo_sum(packet: &[u8], headers: &Headers) -> u16 {
    headers.pseudo_sum(packet, 0)
}

/// Whether the transport checksum of a packet is right. `segment` is its transport header and payload, `pseudo` what
/// [`shared_pseudo_sum`] gave for its flow.
#[inline]
pub fn is_right(segment: &[u8], transport: Transport, pseudo: u16) -> bool {
    let (Ok(len), Some(field)) = (u16::try_from(segment.len()), field(segment, transport)) else { return false };
    let spelled = match transport {
        Transport::Tcp => field != 0xffff,
        // None was computed.
        Transport::Udp => field != 0,
    };
    spelled && checksum::add(checksum::sum(segment), checksum::add(pseudo, len)) == 0xffff
}

/// Whether the header checksum of an IPv4 header without options is right.
#[inline]
pub fn is_ipv4_header_right(header: &[u8; 20]) -> bool {
    word(header, 10) != 0xffff && checksum::sum(header) == 0xffff
}

/// Sum of those words of an IPv4 header in which packets of a run differ. Where the other words are the same, a header's
/// checksum is right exactly if this sum is that of a header whose checksum is.
#[inline]
pub fn varying_sum<const N: usize>(header: &[u8; N]) -> u16 {
    checksum::add(word(header, 10), checksum::add(word(header, 2), word(header, 4)))
}

#[inline]
fn field(segment: &[u8], transport: Transport) -> Option<u16> {
    match transport {
        Transport::Tcp => segment.first_chunk::<20>().map(|header| word(header, 16)),
        Transport::Udp => segment.first_chunk::<8>().map(|header| word(header, 6)),
    }
}

/// Bytes of the IP header that every run has: no options, no extension headers.
#[inline]
pub const fn plain_ip_header(family: Family) -> usize {
    match family {
        Family::V4 => 20,
        Family::V6 => 40,
    }
}
