//! ICMP for IPv4, as far as a router needs it: writing errors, and telling errors from queries.

use std::net::Ipv4Addr;

use super::checksum;
use super::ipv4::{HEADER_LEN, Ipv4};

/// ICMP's number as an IPv4 protocol.
pub const PROTOCOL: u8 = 1;

/// What is quoted of the offender behind its header: enough for ports and sequence numbers. RFC 792; flannel's answers have
/// the same length.
const QUOTED_PAYLOAD: usize = 8;
const ICMP_HEADER_LEN: usize = 8;
/// Answers go to the host itself or to its containers, so few hops are enough; flannel's value.
const ANSWER_TTL: u8 = 8;

/// An error a router reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// Type 3 code 0: there is no way to the destination.
    NetUnreachable,
    /// Type 3 code 4: the packet is too big and may not be fragmented.
    FragmentationNeeded {
        /// The largest packet, in bytes, that would have gone on (RFC 1191).
        next_hop_mtu: u16,
    },
    /// Type 11 code 0: the TTL ran out.
    TimeExceeded,
}

/// Writes a whole IPv4 packet from `from` to the sender of `offender` into `room` and returns its length; `None`, when
/// `room` is too small.
///
/// The offender's header and 8 bytes of its payload are quoted, or as much of that as there is: never a byte that was not
/// received.
#[must_use]
pub fn write_error(room: &mut [u8], from: Ipv4Addr, offender: &Ipv4<'_>, error: IcmpError) -> Option<usize> {
    let quote = offender.bytes();
    let quote = quote.get(..offender.header_len() + QUOTED_PAYLOAD).unwrap_or(quote);
    let total_len = HEADER_LEN + ICMP_HEADER_LEN + quote.len();
    let (header, icmp) = room.get_mut(..total_len)?.split_first_chunk_mut::<HEADER_LEN>()?;

    *header = [0; HEADER_LEN];
    header[0] = 0x45;
    [header[2], header[3]] = u16::try_from(total_len).ok()?.to_be_bytes();
    header[8] = ANSWER_TTL;
    header[9] = PROTOCOL;
    [header[12], header[13], header[14], header[15]] = from.octets();
    [header[16], header[17], header[18], header[19]] = offender.source().octets();
    [header[10], header[11]] = checksum::checksum(header).to_be_bytes();

    let (fixed, quoted) = icmp.split_first_chunk_mut::<ICMP_HEADER_LEN>()?;
    let (kind, code, [mtu_high, mtu_low]) = match error {
        IcmpError::NetUnreachable => (3, 0, [0, 0]),
        IcmpError::FragmentationNeeded { next_hop_mtu } => (3, 4, next_hop_mtu.to_be_bytes()),
        IcmpError::TimeExceeded => (11, 0, [0, 0]),
    };
    *fixed = [kind, code, 0, 0, 0, 0, mtu_high, mtu_low];
    quoted.copy_from_slice(quote);
    let sum = checksum::add(checksum::sum(fixed), checksum::sum(quoted));
    [fixed[2], fixed[3]] = (!sum).to_be_bytes();
    Some(total_len)
}

/// Whether an ICMP message of this type asks or answers a question, rather than reporting an error. Unknown types do not
/// count as questions: they might be errors.
#[must_use]
pub fn is_query(kind: u8) -> bool {
    // Echo, router discovery, timestamp, information, address mask, extended echo (RFC 8335).
    matches!(kind, 0 | 8 | 9 | 10 | 13..=18 | 42 | 43)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offender(len: usize) -> Vec<u8> {
        let mut bytes = vec![0xaa; len];
        bytes[..20].copy_from_slice(&[0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 5, 16, 2, 10, 99, 0, 1]);
        bytes[3] = u8::try_from(len).unwrap();
        bytes
    }

    #[test]
    fn an_error_verifies_and_quotes_no_more_than_there_was() {
        for (len, quoted) in [(20, 20), (21, 21), (28, 28), (29, 28), (200, 28)] {
            for (error, kind, code, mtu) in [
                (IcmpError::NetUnreachable, 3, 0, 0),
                (IcmpError::FragmentationNeeded { next_hop_mtu: 1372 }, 3, 4, 1372),
                (IcmpError::TimeExceeded, 11, 0, 0),
            ] {
                let bytes = offender(len);
                let mut room = [0xee; 96];
                let from = Ipv4Addr::new(10, 5, 16, 0);
                let written = write_error(&mut room, from, &Ipv4::parse(&bytes).unwrap(), error).unwrap();
                assert_eq!(written, 28 + quoted);
                let answer = Ipv4::parse(&room[..written]).unwrap();
                assert_eq!((answer.source(), answer.destination()), (from, Ipv4Addr::new(10, 5, 16, 2)));
                assert_eq!((checksum::sum(&room[..20]), checksum::sum(answer.payload())), (0xffff, 0xffff));
                let icmp = answer.payload();
                assert_eq!((icmp[0], icmp[1], u16::from_be_bytes([icmp[6], icmp[7]])), (kind, code, mtu));
                assert_eq!(&icmp[8..], &bytes[..quoted]);
            }
        }
    }

    #[test]
    fn too_small_a_room_is_left_alone() {
        let bytes = offender(28);
        let mut room = [0xee; 55];
        let packet = Ipv4::parse(&bytes).unwrap();
        assert_eq!(write_error(&mut room, Ipv4Addr::LOCALHOST, &packet, IcmpError::NetUnreachable), None);
        assert_eq!(room, [0xee; 55]);
    }

    #[test]
    fn errors_are_no_queries() {
        for kind in [3, 4, 5, 11, 12, 255] {
            assert!(!is_query(kind), "{kind}");
        }
        assert!(is_query(0) && is_query(8));
    }
}
