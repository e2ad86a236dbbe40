//! A packet from a TUN, and how it is cut.

use super::Uncuttable;
use super::partial::Place;
use super::template::{Template, Turn};
use crate::net::{Offload, Segmentation};
use crate::wire::checksum;
use crate::wire::headers::Headers;

/// The packets of a wire that a packet from a TUN stands for: one, or the segments of a super-packet.
///
/// Nothing is copied or summed before [`write`](Self::write). Invariant: there is at least one segment.
#[derive(Clone, Copy, Debug)]
pub struct Segments<'a> {
    packet: &'a [u8],
    cut: Cut,
}

#[derive(Clone, Copy, Debug)]
enum Cut {
    /// It is what it is.
    Whole,
    /// One packet whose checksum is to be completed.
    Complete(Place),
    /// A super-packet; `count` segments of `step` payload bytes behind the headers.
    Super { template: Template, headers_len: usize, step: usize, count: usize },
}

impl<'a> Segments<'a> {
    /// `packet` is what was read from the TUN, cut to its length, with the IP header already as it shall leave; `offload` is
    /// what the device left to do. Without anything left to do it is one segment, the packet byte for byte.
    ///
    /// The headers are measured here, as the kernel's own measure is not always right, and what the checksum field of a
    /// super-packet holds does not matter.
    ///
    /// # Errors
    /// [`Uncuttable`] says where the packet and `offload` disagree.
    #[inline]
    pub fn new(packet: &'a [u8], offload: &Offload) -> Result<Self, Uncuttable> {
        match (offload.segmentation, offload.checksum) {
            (Some(segmentation), _) => Self::of_super_packet(packet, segmentation),
            (None, Some(field)) => Ok(Self { packet, cut: Cut::Complete(Place::find(packet, field)?) }),
            (None, None) => Ok(Self { packet, cut: Cut::Whole }),
        }
    }

    fn of_super_packet(packet: &'a [u8], segmentation: Segmentation) -> Result<Self, Uncuttable> {
        let headers = Headers::find(packet).ok_or(Uncuttable::Headers)?;
        let (expected, found) = (segmentation.kind, headers.segment_kind());
        if expected != found {
            return Err(Uncuttable::Kind { expected, found });
        }
        let packet = packet.get(..headers.packet_len).ok_or(Uncuttable::Headers)?;
        let payload = packet.len().saturating_sub(headers.payload_at);
        if payload == 0 {
            return Err(Uncuttable::Empty);
        }
        let template = Template::new(packet, &headers).ok_or(Uncuttable::Headers)?;
        let step = usize::from(segmentation.segment_bytes.get());
        let count = payload.div_ceil(step);
        Ok(Self { packet, cut: Cut::Super { template, headers_len: headers.payload_at, step, count } })
    }

    /// How many segments there are, one at least.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        match self.cut {
            Cut::Super { count, .. } => count,
            Cut::Whole | Cut::Complete(_) => 1,
        }
    }

    /// Bytes of each segment but the last, headers included. Of the only one, if there is only one.
    #[inline]
    #[must_use]
    pub fn segment_len(&self) -> usize {
        self.len_of(0)
    }

    /// Bytes of the segment `at`, from 0, headers included; 0 where there is none.
    #[inline]
    #[must_use]
    pub fn len_of(&self, at: usize) -> usize {
        match self.cut {
            _ if at >= self.count() => 0,
            Cut::Super { headers_len, step, .. } => self.packet.len().min(headers_len + (at + 1) * step) - at * step,
            Cut::Whole | Cut::Complete(_) => self.packet.len(),
        }
    }

    /// Writes the segment `at`, from 0, into the front of `room` and gives its length; `None` when `room` is too small, or
    /// where there is no such segment. What `room` holds behind the segment stays.
    #[inline]
    pub fn write(&self, at: usize, room: &mut [u8]) -> Option<usize> {
        if at >= self.count() {
            return None;
        }
        let len = self.len_of(at);
        let room = room.get_mut(..len)?;
        match &self.cut {
            Cut::Whole => room.copy_from_slice(self.packet),
            Cut::Complete(place) => place.copy(self.packet, room)?,
            Cut::Super { template, headers_len, step, count } => {
                let before = at * step;
                let (headers, payload) = self.packet.split_at_checked(*headers_len)?;
                let (head, body) = room.split_at_mut_checked(*headers_len)?;
                head.copy_from_slice(headers);
                let sum = checksum::copy_and_sum(payload.get(before..)?, body);
                template.apply(head, Turn { at, last: at + 1 == *count, before }, body.len(), sum)?;
            }
        }
        Some(len)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;
    use crate::net::SegmentKind;

    /// A super-packet of TCP over IPv4 with eleven payload bytes; its flags are CWR, ECE, ACK, PSH and FIN. The identification
    /// and the sequence number are about to wrap.
    const PACKET: [u8; 51] = [
        0x45, 0, 0, 51, 0xff, 0xff, 0x40, 0, 64, 6, 0x02, 0xb7, 10, 5, 16, 2, 10, 5, 20, 3, // IPv4
        0x04, 0xd2, 0, 80, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 9, 0x50, 0xd9, 0x20, 0, 0xee, 0xee, 0, 0, // TCP
        b'h', b'e', b'l', b'l', b'o', b' ', b'w', b'o', b'r', b'l', b'd',
    ];

    fn cutting(kind: SegmentKind, segment_bytes: u16) -> Offload {
        let segment_bytes = NonZeroU16::new(segment_bytes).unwrap();
        Offload { checksum: None, segmentation: Some(Segmentation { kind, segment_bytes, header_bytes: 0, ecn: false }) }
    }

    #[test]
    fn every_field_of_every_segment_is_known() {
        let segments = Segments::new(&PACKET, &cutting(SegmentKind::Tcp4, 4)).unwrap();
        assert_eq!((segments.count(), segments.segment_len()), (3, 44));
        assert_eq!([0, 1, 2, 3].map(|at| segments.len_of(at)), [44, 44, 43, 0]);
        let expected = [
            (&b"hell"[..], [0xff, 0xff], [0x02, 0xbe], [0xff, 0xff, 0xff, 0xfe], 0xd0, [0x7d, 0x06]),
            (b"o wo", [0, 0], [0x02, 0xbe], [0, 0, 0, 2], 0x50, [0x6b, 0xc5]),
            (b"rld", [0, 1], [0x02, 0xbe], [0, 0, 0, 6], 0x59, [0x7b, 0xdc]),
        ];
        for (at, (payload, identification, ip_checksum, sequence, flags, checksum)) in expected.into_iter().enumerate() {
            let mut room = [0xa5; 64];
            let len = segments.write(at, &mut room).unwrap();
            let mut whole = PACKET;
            whole[3] = u8::try_from(len).unwrap();
            whole[4..6].copy_from_slice(&identification);
            whole[10..12].copy_from_slice(&ip_checksum);
            whole[24..28].copy_from_slice(&sequence);
            whole[33] = flags;
            whole[36..38].copy_from_slice(&checksum);
            assert_eq!(&room[..40], &whole[..40], "segment {at}");
            assert_eq!((&room[40..len], &room[len..]), (payload, &[0xa5; 24][..64 - len]), "segment {at}");
        }
        assert_eq!((segments.write(3, &mut [0; 64]), segments.write(2, &mut [0; 42])), (None, None));
    }

    #[test]
    fn a_payload_of_one_segment_stays_one_packet_with_all_its_flags() {
        for step in [11, 12, u16::MAX] {
            let segments = Segments::new(&PACKET, &cutting(SegmentKind::Tcp4, step)).unwrap();
            assert_eq!((segments.count(), segments.segment_len()), (1, 51));
            let mut room = [0; 51];
            assert_eq!(segments.write(0, &mut room), Some(51));
            assert_eq!((&room[..36], &room[38..]), (&PACKET[..36], &PACKET[38..]));
        }
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        let with = |edits: &[(usize, u8)]| {
            let mut bytes = PACKET;
            for (at, value) in edits {
                bytes[*at] = *value;
            }
            Segments::new(&bytes, &cutting(SegmentKind::Tcp4, 4)).map(|_| ()).unwrap_err()
        };
        assert_eq!(with(&[(6, 0x20)]), Uncuttable::Headers, "a first fragment");
        assert_eq!(with(&[(7, 9)]), Uncuttable::Headers, "a later fragment");
        assert_eq!(with(&[(9, 1)]), Uncuttable::Headers, "ICMP");
        assert_eq!(with(&[(0, 0x75)]), Uncuttable::Headers, "no IP");
        assert_eq!(with(&[(32, 0x40)]), Uncuttable::Headers, "a short TCP header");
        assert_eq!(with(&[(3, 52)]), Uncuttable::Headers, "longer than it is");
        assert_eq!(with(&[(3, 40)]), Uncuttable::Empty);
        assert_eq!(with(&[(9, 17)]), Uncuttable::Kind { expected: SegmentKind::Tcp4, found: SegmentKind::Udp });
        assert_eq!(Segments::new(&[], &cutting(SegmentKind::Udp, 4)).map(|_| ()), Err(Uncuttable::Headers));
        assert!(Segments::new(&[], &Offload::default()).is_ok());
    }

    #[test]
    fn refusals_say_what_was_expected_and_what_was_found() {
        let kind = Uncuttable::Kind { expected: SegmentKind::Tcp4, found: SegmentKind::Udp };
        assert_eq!(kind.to_string(), "expected a super-packet of Tcp4, found Udp");
        let field = crate::net::PartialChecksum { start: 20, offset: 6 };
        let text = Uncuttable::ChecksumField { field, len: 21 }.to_string();
        assert!(text.ends_with("of 21 bytes, found it said to be at 20 + 6"), "{text}");
    }
}
