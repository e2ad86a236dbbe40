//! Coalescing against a slow segmenter: what goes in comes out again, whatever it is.

#[path = "coalesce_support/check.rs"]
mod check;
#[path = "coalesce_support/stream.rs"]
mod stream;

use check::{cut, mend, merge_checked};
use etherparse::{IpSlice, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use felt::buf::{Gather, Piece};
use felt::forward::merge::Merge;
use felt::net::{Offload, Supers};
use proptest::prelude::*;
use stream::{FLOWS, Turn, packets, turns};

/// What is written for `packets`: each with what is left to do on it.
fn written(packets: &[Vec<u8>]) -> Vec<(Vec<u8>, Offload)> {
    let (mut merge, mut gather) = (Merge::default(), Gather::new(1024, 1024));
    for (packet, slot) in packets.iter().zip(0..) {
        assert!(merge.push(
            Supers::ALL,
            &mut gather,
            Piece { slot, start: 0, len: u32::try_from(packet.len()).unwrap() },
            packet
        ));
    }
    merge.finish(&mut gather);
    let whole = |made: felt::buf::Gathered<'_>| {
        let payload = made.pieces().flat_map(|piece| &packets[usize::from(piece.slot)][piece.range()]);
        (made.header().iter().chain(payload).copied().collect(), *made.offload())
    };
    gather.packets().map(whole).collect()
}

/// The packets of one flow, one turn each.
fn flow(number: usize, turns: &[Turn]) -> Vec<Vec<u8>> {
    packets(&turns.iter().map(|turn| (number, *turn)).collect::<Vec<_>>(), [1000; FLOWS])
}

#[test]
fn a_bad_checksum_in_the_middle_goes_alone_and_its_neighbours_are_intact() {
    for number in 0..FLOWS {
        for bad in [Turn::BadChecksum, Turn::BadPayload, Turn::NoChecksum] {
            let three = flow(number, &[Turn::Plain, bad, Turn::Plain]);
            let expected: Vec<_> = three.iter().map(|packet| (packet.clone(), Offload::default())).collect();
            assert_eq!(written(&three), expected, "{number} {bad:?}");
            let five = flow(number, &[Turn::Plain, Turn::Plain, bad, Turn::Plain, Turn::Plain]);
            assert_eq!(merge_checked(&five), [vec![0, 1], vec![2], vec![3, 4]]);
            assert_eq!(written(&five)[1], (five[2].clone(), Offload::default()));
        }
    }
}

#[test]
fn fragments_pass_untouched_and_in_order() {
    // A datagram of 3,000 bytes in three fragments, between packets of a TCP flow of the same ends.
    let mut datagram = Vec::new();
    let builder = PacketBuilder::ipv4([10, 5, 20, 3], [10, 5, 16, 2], 63).udp(1234, 5678);
    builder.write(&mut datagram, &(0..3000).map(|at| u8::try_from(at % 251).unwrap()).collect::<Vec<_>>()).unwrap();
    let fragment = |from: usize, to: usize| {
        let mut bytes = [&datagram[..20], &datagram[20 + from..20 + to]].concat();
        let len = u16::try_from(bytes.len()).unwrap();
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        let more = if to == 3008 { 0 } else { 0x2000 };
        bytes[6..8].copy_from_slice(&(more | u16::try_from(from / 8).unwrap()).to_be_bytes());
        bytes[10..12].fill(0);
        let checksum = !check::sum(&bytes[..20]);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    };
    let tcp = flow(0, &[Turn::Plain; 6]);
    let mut mixed = tcp.clone();
    mixed.insert(2, fragment(0, 1400));
    mixed.insert(3, fragment(1400, 2800));
    mixed.insert(6, fragment(2800, 3008));
    assert_eq!(merge_checked(&mixed), [vec![0, 1], vec![2], vec![3], vec![4, 5], vec![6], vec![7, 8]]);
    let out = written(&mixed);
    for (at, slot) in [(1, 2), (2, 3), (4, 6)] {
        assert_eq!(out[at], (mixed[slot].clone(), Offload::default()));
    }

    // Where the ends are others, the flow is not touched.
    mixed.iter_mut().filter(|packet| packet[9] == 17).for_each(|packet| packet[15] = 9);
    assert_eq!(merge_checked(&mixed), [vec![0, 1, 4, 5, 7, 8], vec![2], vec![3], vec![6]]);
}

#[test]
fn a_train_becomes_one_packet_whatever_goes_beside_it() {
    let train: Vec<_> = (0..40).flat_map(|_| (0..FLOWS).map(|flow| (flow, Turn::Plain))).collect();
    let groups = merge_checked(&packets(&train, [1400; FLOWS]));
    let expected: Vec<Vec<usize>> = (0..FLOWS).map(|flow| (0..40).map(|at| at * FLOWS + flow).collect()).collect();
    assert_eq!(groups, expected);
}

/// Completes a partial checksum as the kernel would, and asks etherparse about the whole.
fn assert_valid(packet: &[u8], offload: &Offload) {
    let mut packet = packet.to_vec();
    let partial = offload.checksum.unwrap();
    let start = usize::from(partial.start);
    let field = start + usize::from(partial.offset);
    let checksum = !check::sum(&packet[start..]);
    packet[field..field + 2].copy_from_slice(&checksum.to_be_bytes());

    let sliced = SlicedPacket::from_ip(&packet).unwrap();
    if let IpSlice::Ipv4(ip) = IpSlice::from_slice(&packet).unwrap() {
        assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
    }
    let (found, expected) = match (sliced.net.unwrap(), sliced.transport.unwrap()) {
        (NetSlice::Ipv4(ip), TransportSlice::Tcp(tcp)) => {
            (tcp.checksum(), tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).unwrap())
        }
        (NetSlice::Ipv6(ip), TransportSlice::Tcp(tcp)) => {
            (tcp.checksum(), tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()).unwrap())
        }
        (NetSlice::Ipv4(ip), TransportSlice::Udp(udp)) => {
            let header = udp.to_header();
            (header.checksum, header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap())
        }
        (NetSlice::Ipv6(ip), TransportSlice::Udp(udp)) => {
            let header = udp.to_header();
            (header.checksum, header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()).unwrap())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(found % 0xffff, expected % 0xffff);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_goes_in_comes_out_when_it_is_cut(turns in turns(), sizes in prop::array::uniform6(2usize..1500), mixed: u64) {
        let turns = interleaved(turns, mixed);
        let packets = packets(&turns, sizes);
        let groups = merge_checked(&packets);
        for group in groups.iter().filter(|group| group.len() > 1) {
            for at in group {
                prop_assert!(!turns[*at].1.spoils() || turns[*at].1 == Turn::BadIpChecksum && turns[*at].0 % 2 == 1);
            }
        }
        for (packet, offload) in written(&packets).iter().filter(|(_, offload)| offload.segmentation.is_some()) {
            assert_valid(packet, offload);
        }
    }

    #[test]
    fn mended_noise_comes_out_as_it_went_in(
        turns in turns(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..64, any::<u8>()), 0..6),
    ) {
        let mut packets = packets(&turns, [40, 50, 60, 70, 80, 90]);
        for (which, at, value) in edits {
            let which = which.index(packets.len());
            let packet = &mut packets[which];
            if let Some(byte) = packet.get_mut(at) {
                *byte = value;
            }
            if let Some(headers) = felt::wire::headers::Headers::find(packet) {
                let field = headers.checksum_field();
                packet.truncate(headers.packet_len);
                mend(packet, field.start.into(), usize::from(field.start + field.offset));
            }
        }
        merge_checked(&packets);
    }
}

/// The turns of each flow in order, the flows mixed: a few neighbours change places.
fn interleaved(mut turns: Vec<(usize, Turn)>, seed: u64) -> Vec<(usize, Turn)> {
    let mut state = seed | 1;
    for at in (1..turns.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if state >> 62 == 0 {
            turns.swap(at, at - 1);
        }
    }
    turns
}

#[test]
fn the_slow_segmenter_cuts_what_etherparse_would_write() {
    let three = flow(0, &[Turn::Plain, Turn::Plain, Turn::Push]);
    let [(whole, offload)] = written(&three).try_into().unwrap();
    assert_eq!(cut(&whole, &offload), three);
    assert_eq!((whole.len(), whole[33]), (52 + 3000, 0x18));
}
