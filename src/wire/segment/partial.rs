//! Completing a checksum the kernel left partial: its field holds the pseudo-header's sum, and whoever sends the packet adds
//! the rest.
//!
//! This works for whatever protocol the kernel hands over, since the pseudo-header is in the field already.

use super::Uncuttable;
use crate::net::PartialChecksum;
use crate::wire::checksum;

/// Where the checksum field of UDP lies in its header, and of UDP-Lite and DCCP too. There 0 means "no checksum", so a sum of
/// zero is written as its other representation, which verifies the same everywhere.
const UDP_FIELD: u16 = 6;

/// Completes the checksum of `packet` in place.
///
/// # Errors
/// [`Uncuttable::ChecksumField`], with nothing changed.
#[inline]
pub fn complete(packet: &mut [u8], field: PartialChecksum) -> Result<(), Uncuttable> {
    let place = Place::find(packet, field)?;
    let sum = checksum::sum(packet.get_mut(place.start..).unwrap_or_default());
    place.put(packet, sum);
    Ok(())
}

/// A checksum field that lies within its packet, behind the IP header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    start: usize,
    at: usize,
    zero: u16,
}

impl Place {
    #[inline]
    pub(super) fn find(packet: &[u8], field: PartialChecksum) -> Result<Self, Uncuttable> {
        let (start, at) = (usize::from(field.start), usize::from(field.start) + usize::from(field.offset));
        let ip_header = match packet.first() {
            Some(first) if first >> 4 == 4 => usize::from(first & 0x0f) * 4,
            Some(first) if first >> 4 == 6 => 40,
            _ => 0,
        };
        if start < ip_header || at + 2 > packet.len() {
            return Err(Uncuttable::ChecksumField { field, len: packet.len() });
        }
        Ok(Self { start, at, zero: if field.offset == UDP_FIELD { 0xffff } else { 0 } })
    }

    /// Copies `packet`, in which the place was found, to `room` of the same length, and completes the copy.
    #[inline]
    pub(super) fn copy(self, packet: &[u8], room: &mut [u8]) -> Option<()> {
        let ((head, body), (head_room, body_room)) =
            (packet.split_at_checked(self.start)?, room.split_at_mut_checked(self.start)?);
        head_room.copy_from_slice(head);
        let sum = checksum::copy_and_sum(body, body_room);
        self.put(room, sum);
        Some(())
    }

    /// `sum`: of everything from the start on, the field's content included.
    #[inline]
    fn put(self, packet: &mut [u8], sum: u16) {
        if let Some(field) = packet.get_mut(self.at..).and_then(<[u8]>::first_chunk_mut) {
            let checksum = if sum == 0xffff { self.zero } else { !sum };
            *field = checksum.to_be_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};

    use super::*;
    use crate::wire::headers::Headers;

    /// A UDP packet as a device hands it over: the pseudo-header's sum in the field.
    fn partial(payload: &[u8]) -> (Vec<u8>, PartialChecksum) {
        let mut packet = Vec::new();
        PacketBuilder::ipv4([10, 5, 16, 2], [10, 5, 20, 3], 64).udp(1234, 5678).write(&mut packet, payload).unwrap();
        let headers = Headers::find(&packet).unwrap();
        let pseudo = headers.pseudo_sum(&packet, packet.len() - headers.transport_at);
        packet[26..28].copy_from_slice(&pseudo.to_be_bytes());
        (packet, headers.checksum_field())
    }

    #[test]
    fn a_partial_checksum_is_completed_in_place_and_on_the_way() {
        for payload in [&b"odd"[..], b"even", b"", &[7; 1401]] {
            let (packet, field) = partial(payload);
            let mut whole = packet.clone();
            complete(&mut whole, field).unwrap();
            let sliced = SlicedPacket::from_ip(&whole).unwrap();
            let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("{sliced:?}") };
            let expected = udp.to_header().calc_checksum_ipv4_raw([10, 5, 16, 2], [10, 5, 20, 3], payload).unwrap();
            assert_eq!(udp.checksum(), expected, "{payload:?}");

            let mut room = vec![0; packet.len()];
            Place::find(&packet, field).unwrap().copy(&packet, &mut room).unwrap();
            assert_eq!(room, whole);
        }
    }

    #[test]
    fn a_sum_of_zero_means_no_checksum_to_udp_only() {
        // The payload's last word is chosen so that all words add up to 0xffff.
        let (mut packet, field) = partial(&[0, 0]);
        let rest = checksum::sum(&packet[20..]);
        packet[28..30].copy_from_slice(&(!rest).to_be_bytes());
        let mut udp = packet.clone();
        complete(&mut udp, field).unwrap();
        assert_eq!(udp[26..28], [0xff, 0xff]);
        // The same words where the field of TCP would be.
        let mut other = [vec![0x45; 20], vec![0; 18], vec![0xff, 0xff]].concat();
        complete(&mut other, PartialChecksum { start: 20, offset: 16 }).unwrap();
        assert_eq!(other[36..38], [0, 0]);
    }

    #[test]
    fn fields_elsewhere_are_refused() {
        let (packet, _) = partial(b"payload");
        for (start, offset) in [(0, 10), (19, 6), (20, 14), (20, u16::MAX), (u16::MAX, u16::MAX), (35, 0)] {
            let field = PartialChecksum { start, offset };
            let mut bytes = packet.clone();
            assert_eq!(complete(&mut bytes, field), Err(Uncuttable::ChecksumField { field, len: 35 }), "{field:?}");
            assert_eq!(bytes, packet);
        }
        assert!(complete(&mut [], PartialChecksum { start: 0, offset: 0 }).is_err());
        assert!(complete(&mut packet.clone(), PartialChecksum { start: 20, offset: 13 }).is_ok());
        let mut six = [0x60; 44];
        assert!(complete(&mut six, PartialChecksum { start: 39, offset: 2 }).is_err());
        assert!(complete(&mut six, PartialChecksum { start: 40, offset: 2 }).is_ok());
    }
}
