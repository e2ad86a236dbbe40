//! Whether what coalescing made of packets is the same packets: cuts every super-packet again, slowly and as the egress path
//! does, and compares.

use std::net::IpAddr;

use felt::buf::{Gather, Piece};
use felt::forward::merge::Merge;
use felt::net::{Offload, SegmentKind, Supers};
use felt::wire::segment::Segments;

/// Merges `packets` as one batch, checks everything that must hold for any bytes, and says which became one, in the order
/// they go.
pub fn merge_checked(packets: &[Vec<u8>]) -> Vec<Vec<usize>> {
    let (mut merge, mut gather) = (Merge::default(), Gather::new(packets.len().max(1), packets.len().max(1)));
    for (packet, slot) in packets.iter().zip(0..) {
        // Something lies in front of the packet.
        assert!(merge.push(
            Supers::ALL,
            &mut gather,
            Piece { slot, start: 3, len: u32::try_from(packet.len()).unwrap() },
            packet
        ));
    }
    merge.finish(&mut gather);
    let mut groups = Vec::new();
    for made in gather.packets() {
        let group: Vec<usize> = made.originals().map(|piece| usize::from(piece.slot)).collect();
        let bytes = |piece: Piece| &packets[usize::from(piece.slot)][piece.range().start - 3..piece.range().end - 3];
        let mut whole = made.header().to_vec();
        made.pieces().for_each(|piece| whole.extend(bytes(piece)));
        assert_eq!(whole.len(), made.bytes());
        assert!(made.originals().all(|piece| bytes(piece) == packets[usize::from(piece.slot)]), "the originals are lost");
        let mut expected: Vec<_> = group.iter().map(|at| packets[*at].clone()).collect();
        if expected.len() > 1 {
            number_anew(&mut expected);
        }
        assert_eq!(cut(&whole, made.offload()), expected, "{group:?}");
        assert_eq!(segmented(&whole, made.offload()), expected, "{group:?}");
        groups.push(group);
    }
    check_order(packets, &groups.concat());
    groups
}

/// Nothing is lost, nothing comes twice, and nothing passes what it may belong to.
fn check_order(packets: &[Vec<u8>], order: &[usize]) {
    let mut place = vec![None; packets.len()];
    order.iter().enumerate().for_each(|(at, slot)| assert_eq!(place[*slot].replace(at), None));
    let keys: Vec<_> = packets.iter().map(|packet| key(packet)).collect();
    for later in 0..packets.len() {
        for earlier in 0..later {
            let related = match (&keys[earlier], &keys[later]) {
                (Some((a, Some(flow_a))), Some((b, Some(flow_b)))) => a == b && flow_a == flow_b,
                (Some((a, _)), Some((b, _))) => a == b,
                _ => true,
            };
            assert!(place[earlier] < place[later] || !related, "{later} passed {earlier}");
        }
    }
}

type Key = ((IpAddr, IpAddr), Option<(u8, Vec<u8>)>);

/// Addresses, and transport with ports where there are some.
fn key(packet: &[u8]) -> Option<Key> {
    let address = |from: usize, to| match packet.get(from..to)? {
        bytes if bytes.len() == 4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).unwrap())),
        bytes => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap())),
    };
    let (ends, at) = match packet.first()? >> 4 {
        4 => ((address(12, 16)?, address(16, 20)?), usize::from(packet[0] & 15) * 4),
        6 => ((address(8, 24)?, address(24, 40)?), 40),
        _ => return None,
    };
    let headers = felt::wire::headers::Headers::find(packet);
    Some((ends, headers.map(|_| (packet[if at == 40 && packet[0] >> 4 == 6 { 6 } else { 9 }], packet[at..at + 4].to_vec()))))
}

/// The packets of a super-packet, cut as the egress path cuts what the TUN hands over: segment after coalesce changes nothing.
fn segmented(packet: &[u8], offload: &Offload) -> Vec<Vec<u8>> {
    let segments = Segments::new(packet, offload).unwrap();
    let segment = |at| {
        let mut room = vec![0; segments.len_of(at)];
        assert_eq!(segments.write(at, &mut room), Some(room.len()));
        room
    };
    (0..segments.count()).map(segment).collect()
}

/// The packets of a super-packet, cut the slow way, with checksums computed anew.
pub fn cut(packet: &[u8], offload: &Offload) -> Vec<Vec<u8>> {
    let (Some(segmentation), Some(partial)) = (offload.segmentation, offload.checksum) else {
        assert_eq!(*offload, Offload::default());
        return vec![packet.to_vec()];
    };
    let (start, tcp) = (usize::from(partial.start), segmentation.kind != SegmentKind::Udp);
    let v4 = packet[0] >> 4 == 4;
    assert_eq!((start, partial.offset), (if v4 { 20 } else { 40 }, if tcp { 16 } else { 6 }));
    assert_eq!(segmentation.kind == SegmentKind::Tcp4, tcp && v4);
    assert_eq!(usize::from(if v4 { word(packet, 2) } else { word(packet, 4) + 40 }), packet.len());
    assert_eq!(word(packet, start + usize::from(partial.offset)), pseudo(packet, start, packet.len() - start));
    let header = if tcp { start + usize::from(packet[start + 12] >> 4) * 4 } else { start + 8 };
    assert_eq!(usize::from(segmentation.header_bytes), header);
    if v4 {
        assert_eq!(sum(&packet[..20]), 0xffff);
    }
    if !tcp {
        assert_eq!(usize::from(word(packet, start + 4)), packet.len() - start);
    }
    let size = usize::from(segmentation.segment_bytes.get());
    let chunks: Vec<_> = packet[header..].chunks(size).collect();
    assert!(chunks.len() > 1 && chunks.len() <= if tcp { 512 } else { 64 }, "{}", chunks.len());
    let segment = |(at, chunk): (usize, &&[u8])| {
        let mut bytes = [&packet[..header], chunk].concat();
        let len = bytes.len();
        if v4 {
            put(&mut bytes, 2, len);
            put(&mut bytes, 4, (usize::from(word(packet, 4)) + at) % 65_536);
        } else {
            put(&mut bytes, 4, len - 40);
        }
        if tcp {
            let sequence = u32::from_be_bytes(packet[start + 4..start + 8].try_into().unwrap());
            let sequence = sequence.wrapping_add(u32::try_from(at * size).unwrap());
            bytes[start + 4..start + 8].copy_from_slice(&sequence.to_be_bytes());
            if at + 1 < chunks.len() {
                bytes[start + 13] &= !9;
            }
        } else {
            put(&mut bytes, start + 4, len - start);
        }
        mend(&mut bytes, start, start + usize::from(partial.offset));
        bytes
    };
    chunks.iter().enumerate().map(segment).collect()
}

/// Packets that all had the same identification, which is allowed where they may not be fragmented and then means nothing
/// (RFC 6864), get the numbers they are cut with.
fn number_anew(packets: &mut [Vec<u8>]) {
    let first = packets[0].clone();
    if first[0] >> 4 == 4 && packets.iter().all(|packet| packet[4..6] == first[4..6]) {
        assert!(first[6] & 0x40 != 0, "these may be fragmented: their identification counts");
        for (packet, at) in packets.iter_mut().zip(usize::from(word(&first, 4))..) {
            put(packet, 4, at % 65_536);
            put(packet, 10, 0);
            let checksum = !sum(&packet[..20]);
            put(packet, 10, checksum.into());
        }
    }
}

/// Makes the checksums right: the IPv4 header's, and that of the transport header at `start`, which lies at `field`.
pub fn mend(packet: &mut [u8], start: usize, field: usize) {
    if packet[0] >> 4 == 4 {
        put(packet, 10, 0);
        let checksum = !sum(&packet[..start]);
        put(packet, 10, checksum.into());
    }
    put(packet, field, 0);
    let whole = u32::from(sum(&packet[start..])) + u32::from(pseudo(packet, start, packet.len() - start));
    let checksum = !u16::try_from(whole % 65_535).unwrap();
    // Of the two zeros: TCP writes 0, UDP 0xffff, because 0 says that there is none.
    let checksum = if checksum == 0xffff && field - start == 16 { 0 } else { checksum };
    put(packet, field, checksum.into());
}

/// A pseudo-header's sum.
fn pseudo(packet: &[u8], start: usize, len: usize) -> u16 {
    let (addresses, protocol) = if packet[0] >> 4 == 4 { (12..20, packet[9]) } else { (8..40, packet[6]) };
    let rest = [0, protocol, u8::try_from(len >> 8).unwrap(), u8::try_from(len & 255).unwrap()];
    debug_assert!(start >= 20);
    sum(&[&packet[addresses], &rest].concat())
}

/// The ones-complement sum, word by word.
pub fn sum(bytes: &[u8]) -> u16 {
    let mut total = 0u32;
    for pair in bytes.chunks(2) {
        total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        total = (total >> 16) + (total & 0xffff);
    }
    u16::try_from(total).unwrap()
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&u16::try_from(value).unwrap().to_be_bytes());
}
