//! Checksums, header changes and segments, apart from everything else.

use std::hint::black_box;
use std::num::NonZeroU16;

use felt::net::{Ecn, Offload, PartialChecksum, SegmentKind, Segmentation};
use felt::wire::checksum;
use felt::wire::ipv4::{Ipv4, Ipv4Mut};
use felt::wire::segment::Segments;

const HEADER: [u8; 28] =
    [0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0x42, 0xc2, 10, 5, 16, 2, 10, 5, 20, 3, 0x04, 0xd2, 0x16, 0x2e, 0, 8, 0, 0];

/// Payload bytes of a segment of TCP with timestamps, for an overlay MTU of 1472.
const SEGMENT_BYTES: u16 = 1420;
/// Segments of the super-packet: as many as fit in 64 KiB.
const SEGMENTS: usize = 46;
/// IPv4, and TCP with timestamps.
const HEADERS: usize = 52;

/// Bytes of the super-packet.
pub const SUPER_PACKET: usize = HEADERS + SEGMENTS * SEGMENT_BYTES as usize;

fn bytes(len: usize) -> Vec<u8> {
    (0..=u8::MAX).cycle().take(len).collect()
}

/// The sum of `len` bytes.
pub fn checksum(len: usize) -> impl FnMut() {
    let bytes = bytes(len);
    move || _ = black_box(checksum::sum(black_box(&bytes)))
}

/// A copy of `len` bytes with their sum.
pub fn copy_and_sum(len: usize) -> impl FnMut() {
    let (from, mut to) = (bytes(len), vec![0; len]);
    move || _ = black_box(checksum::copy_and_sum(black_box(&from), black_box(&mut to)))
}

/// A super-packet of TCP over IPv4, as the TUN hands it over, cut into segments that lie behind each other like the datagrams
/// of a train.
pub fn segment() -> impl FnMut() {
    let mut packet = bytes(SUPER_PACKET);
    packet[..20].copy_from_slice(&HEADER[..20]);
    packet[2..4].copy_from_slice(&u16::try_from(SUPER_PACKET).unwrap().to_be_bytes());
    packet[9] = 6;
    packet[32..34].copy_from_slice(&[0x80, 0x18]);
    let segment_bytes = NonZeroU16::new(SEGMENT_BYTES).unwrap();
    let header_bytes = u16::try_from(HEADERS).unwrap();
    let offload = Offload {
        checksum: Some(PartialChecksum { start: 20, offset: 16 }),
        segmentation: Some(Segmentation { kind: SegmentKind::Tcp4, segment_bytes, header_bytes, ecn: false }),
    };
    let mut train = vec![0; SUPER_PACKET + SEGMENTS * HEADERS];
    move || {
        let segments = Segments::new(black_box(&packet), &offload).unwrap();
        let mut used = 0;
        for at in 0..segments.count() {
            used += segments.write(at, &mut train[used..]).unwrap();
        }
        assert_eq!(used, SUPER_PACKET + (SEGMENTS - 1) * HEADERS);
        black_box(&mut train);
    }
}

/// A header, read.
pub fn parse() -> impl FnMut() {
    || _ = black_box(Ipv4::parse(black_box(&HEADER)).map(|packet| (packet.destination(), packet.ttl(), packet.total_len())))
}

/// One hop taken off.
pub fn ttl() -> impl FnMut() {
    let mut bytes = HEADER;
    move || {
        bytes[8] = 64;
        black_box(Ipv4Mut::new(black_box(&mut bytes)).is_some_and(|mut header| header.decrement_ttl()));
    }
}

/// The congestion mark, changed.
pub fn ecn() -> impl FnMut() {
    let mut bytes = HEADER;
    move || {
        bytes[1] = 2;
        if let Some(mut header) = Ipv4Mut::new(black_box(&mut bytes)) {
            header.set_ecn(Ecn::Ce);
        }
    }
}
