//! The ten bytes in front of each packet of a queue with offloads: `struct virtio_net_hdr`, as [`Offload`] says it.
//!
//! Little-endian: the queue tells its device so. Source: virtio 1.2, section 5.1.6, and `linux/virtio_net.h`.

use std::num::NonZeroU16;

use crate::net::{Offload, PartialChecksum, SegmentKind, Segmentation};

/// Length of the header. The kernel's default; twelve with a count of merged buffers, which TUN devices do not have.
pub const VNET_BYTES: usize = 10;

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Beside a kind of TCP.
const GSO_ECN: u8 = 0x80;

/// What a header says; `None` where it asks for something unknown, or for segments of no size: such a packet must not be
/// taken for a whole one.
#[inline]
pub(super) fn decode(header: [u8; VNET_BYTES]) -> Option<Offload> {
    let [flags, kind, fields @ ..] = header;
    let [header_bytes, segment_bytes, start, offset] = words(fields);
    let checksum = (flags & NEEDS_CSUM != 0).then_some(PartialChecksum { start, offset });
    let kind = match kind & !GSO_ECN {
        GSO_NONE => return Some(Offload { checksum, segmentation: None }),
        GSO_TCPV4 => SegmentKind::Tcp4,
        GSO_TCPV6 => SegmentKind::Tcp6,
        GSO_UDP_L4 => SegmentKind::Udp,
        _ => return None,
    };
    let segment_bytes = NonZeroU16::new(segment_bytes)?;
    let segmentation = Segmentation { kind, segment_bytes, header_bytes, ecn: header[1] & GSO_ECN != 0 };
    Some(Offload { checksum, segmentation: Some(segmentation) })
}

/// The header that says `offload`, every byte of it.
#[inline]
pub(super) fn encode(offload: &Offload) -> [u8; VNET_BYTES] {
    let flags = if offload.checksum.is_some() { NEEDS_CSUM } else { 0 };
    let PartialChecksum { start, offset } = offload.checksum.unwrap_or(PartialChecksum { start: 0, offset: 0 });
    let (kind, header_bytes, segment_bytes) = match offload.segmentation {
        None => (GSO_NONE, 0, 0),
        Some(Segmentation { kind, segment_bytes, header_bytes, ecn }) => {
            let number = match kind {
                SegmentKind::Tcp4 => GSO_TCPV4,
                SegmentKind::Tcp6 => GSO_TCPV6,
                SegmentKind::Udp => GSO_UDP_L4,
            };
            let ecn = if ecn && kind != SegmentKind::Udp { GSO_ECN } else { 0 };
            (number | ecn, header_bytes, segment_bytes.get())
        }
    };
    let ([h0, h1], [g0, g1]) = (header_bytes.to_le_bytes(), segment_bytes.to_le_bytes());
    let ([s0, s1], [o0, o1]) = (start.to_le_bytes(), offset.to_le_bytes());
    [flags, kind, h0, h1, g0, g1, s0, s1, o0, o1]
}

fn words(bytes: [u8; 8]) -> [u16; 4] {
    let [a0, a1, b0, b1, c0, c1, d0, d1] = bytes;
    [[a0, a1], [b0, b1], [c0, c1], [d0, d1]].map(u16::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offloads() -> impl Strategy<Value = Offload> {
        let kind = prop_oneof![Just(SegmentKind::Tcp4), Just(SegmentKind::Tcp6), Just(SegmentKind::Udp)];
        let segmentation = (kind, 1..=u16::MAX, any::<u16>(), any::<bool>()).prop_map(|(kind, size, header_bytes, ecn)| {
            let segment_bytes = NonZeroU16::new(size).unwrap();
            Segmentation { kind, segment_bytes, header_bytes, ecn: ecn && kind != SegmentKind::Udp }
        });
        let checksum = any::<(u16, u16)>().prop_map(|(start, offset)| PartialChecksum { start, offset });
        (proptest::option::of(checksum), proptest::option::of(segmentation))
            .prop_map(|(checksum, segmentation)| Offload { checksum, segmentation })
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_is_read(offload in offloads()) {
            prop_assert_eq!(decode(encode(&offload)), Some(offload));
        }

        #[test]
        fn any_ten_bytes_are_understood_or_refused(header: [u8; VNET_BYTES]) {
            if let Some(offload) = decode(header) {
                prop_assert_eq!(decode(encode(&offload)), Some(offload).map(|offload| Offload {
                    segmentation: offload.segmentation.map(|cut| Segmentation { ecn: cut.ecn && cut.kind != SegmentKind::Udp, ..cut }),
                    ..offload
                }));
            }
        }
    }

    #[test]
    fn each_field_has_its_place() {
        let offload = Offload {
            checksum: Some(PartialChecksum { start: 0x0102, offset: 0x0304 }),
            segmentation: Some(Segmentation {
                kind: SegmentKind::Tcp6,
                segment_bytes: NonZeroU16::new(0x0506).unwrap(),
                header_bytes: 0x0708,
                ecn: true,
            }),
        };
        assert_eq!(encode(&offload), [1, 0x84, 0x08, 0x07, 0x06, 0x05, 0x02, 0x01, 0x04, 0x03]);
        assert_eq!(encode(&Offload::default()), [0; VNET_BYTES]);
        // "Checksum is valid" is no work to do.
        assert_eq!(decode([2, 0, 9, 9, 9, 9, 9, 9, 9, 9]), Some(Offload::default()));
    }

    #[test]
    fn what_nobody_can_cut_is_refused() {
        // UFO, tunnels, a number nobody has given out; segments of no size.
        for (kind, size) in [(3, 100), (0x25, 100), (0x41, 100), (2, 100), (0x7f, 100), (GSO_TCPV4, 0), (GSO_UDP_L4, 0)] {
            assert_eq!(decode([1, kind, 0, 0, size, 0, 20, 0, 16, 0]), None, "{kind:#x} {size}");
        }
    }
}
