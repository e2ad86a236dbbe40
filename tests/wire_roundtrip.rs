//! Cutting and coalescing undo each other, the real ones both: TCP and UDP, IPv4 and IPv6.
//!
//! One thing is not restored: packets that may not be fragmented and all carry the same IPv4 identification are numbered one
//! by one when they are cut again. It means nothing in them (RFC 6864, section 4.1).

#[path = "coalesce_support/stream.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod stream;

use std::num::NonZeroU16;

use etherparse::{IpHeaders, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, PacketBuilder};
use felt::buf::{Gather, Gathered, Piece};
use felt::forward::merge::Merge;
use felt::net::{Offload, Segmentation, Supers};
use felt::wire::checksum;
use felt::wire::coalesce::{SUPER_BYTES, UDP_SEGMENTS};
use felt::wire::headers::{Headers, Transport};
use felt::wire::segment::Segments;
use proptest::prelude::*;
use stream::{FLOWS, packets, turns};

/// What one batch of `packets` becomes: each packet, what is left to do on it, and the numbers of those it was made of.
fn coalesced(packets: &[Vec<u8>]) -> Vec<(Vec<u8>, Offload, Vec<usize>)> {
    let (mut merge, mut gather) = (Merge::default(), Gather::new(1024, 1024));
    for (packet, slot) in packets.iter().zip(0..) {
        let piece = Piece { slot, start: 0, len: u32::try_from(packet.len()).unwrap() };
        assert!(merge.push(Supers::ALL, &mut gather, piece, packet));
    }
    merge.finish(&mut gather);
    let made = |made: Gathered<'_>| {
        let payload = made.pieces().flat_map(|piece| &packets[usize::from(piece.slot)][piece.range()]);
        let whole = made.header().iter().chain(payload).copied().collect();
        (whole, *made.offload(), made.originals().map(|piece| usize::from(piece.slot)).collect())
    };
    gather.packets().map(made).collect()
}

fn cut(packet: &[u8], offload: &Offload) -> Vec<Vec<u8>> {
    let segments = Segments::new(packet, offload).unwrap();
    let segment = |at| {
        let mut room = vec![0xa5; segments.len_of(at)];
        assert_eq!(segments.write(at, &mut room), Some(room.len()));
        room
    };
    (0..segments.count()).map(segment).collect()
}

/// The packets with the identifications they get when they are cut again.
fn numbered(mut packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let first = packets[0].clone();
    let all_alike = packets.len() > 1 && packets.iter().all(|packet| packet[4..6] == first[4..6]);
    if first[0] >> 4 == 4 && all_alike {
        assert_eq!(first[6] & 0x40, 0x40, "these may be fragmented: their identification counts");
        for (packet, at) in packets.iter_mut().zip(0u16..) {
            let identification = u16::from_be_bytes([first[4], first[5]]).wrapping_add(at);
            packet[4..6].copy_from_slice(&identification.to_be_bytes());
            packet[10..12].fill(0);
            let sum = checksum::checksum(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }
    packets
}

/// A super-packet that could come of coalescing, described.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "header bits are on or off")]
struct Super {
    six: bool,
    udp: bool,
    dont_fragment: bool,
    push: bool,
    options: bool,
    tos: u8,
    identification: u16,
    sequence: u32,
    step: u16,
    payload: Vec<u8>,
}

impl Super {
    /// It, as the kernel hands it over.
    fn packet(&self) -> (Vec<u8>, Offload) {
        let ip = if self.six {
            let (source, destination) = ([0xfd; 16], [0x2a; 16]);
            let header = Ipv6Header { hop_limit: 63, traffic_class: self.tos, source, destination, ..Default::default() };
            IpHeaders::Ipv6(header, Ipv6Extensions::default())
        } else {
            let (source, destination) = ([10, 5, 20, 3], [10, 5, 16, 2]);
            let (identification, dont_fragment) = (self.identification, self.dont_fragment);
            let mut header =
                Ipv4Header { time_to_live: 63, identification, dont_fragment, source, destination, ..Default::default() };
            header.ecn = etherparse::IpEcn::try_new(self.tos & 3).unwrap();
            IpHeaders::Ipv4(header, Ipv4Extensions::default())
        };
        let (builder, mut bytes) = (PacketBuilder::ip(ip), Vec::new());
        if self.udp {
            builder.udp(4_000, 53).write(&mut bytes, &self.payload).unwrap();
        } else {
            let tcp = builder.tcp(4_000, 80, self.sequence, 512).ack(77);
            let tcp = if self.push { tcp.psh() } else { tcp };
            let time = [etherparse::TcpOptionElement::Timestamp(9, 8)];
            let tcp = tcp.options(if self.options { &time[..] } else { &[] }).unwrap();
            tcp.write(&mut bytes, &self.payload).unwrap();
        }
        let headers = Headers::find(&bytes).unwrap();
        let field = headers.checksum_field();
        let pseudo = headers.pseudo_sum(&bytes, bytes.len() - headers.transport_at);
        let at = usize::from(field.start + field.offset);
        bytes[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        let segmentation = Segmentation {
            kind: headers.segment_kind(),
            segment_bytes: NonZeroU16::new(self.step).unwrap(),
            header_bytes: u16::try_from(headers.payload_at).unwrap(),
            ecn: false,
        };
        assert_eq!(headers.transport == Transport::Udp, self.udp);
        (bytes, Offload { checksum: Some(field), segmentation: Some(segmentation) })
    }
}

fn supers() -> impl Strategy<Value = Super> {
    let fields = (any::<u8>(), any::<u16>(), any::<u32>(), 1..=1_460u16, 2..=UDP_SEGMENTS, any::<prop::sample::Index>());
    (any::<[bool; 5]>(), fields, any::<u8>()).prop_map(|(switches, fields, fill)| {
        let [six, udp, dont_fragment, push, options] = switches;
        let (tos, identification, sequence, step, count, short) = fields;
        let most = (SUPER_BYTES - 100) / usize::from(step);
        let len = usize::from(step) * count.min(most) - short.index(usize::from(step));
        let payload = (0..len).map(|at| fill.wrapping_mul(at.to_le_bytes()[0]) ^ at.to_le_bytes()[1]).collect();
        Super { six, udp, dont_fragment, push, options, tos, identification, sequence, step, payload }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever packets a batch consists of, among them those that must not be merged.
    #[test]
    fn what_was_coalesced_is_cut_into_what_it_was_made_of(turns in turns(), sizes in prop::array::uniform6(2usize..1500)) {
        const { assert!(FLOWS == 6) };
        let packets = packets(&turns, sizes);
        for (whole, offload, originals) in coalesced(&packets) {
            let expected = numbered(originals.iter().map(|at| packets[*at].clone()).collect());
            prop_assert_eq!(cut(&whole, &offload), expected, "{:?}", originals);
        }
    }

    #[test]
    fn what_was_cut_is_coalesced_into_what_it_was(described in supers()) {
        let (packet, offload) = described.packet();
        let segments = cut(&packet, &offload);
        let made = coalesced(&segments);
        prop_assert_eq!(made.len(), 1, "of {} segments", segments.len());
        let (whole, left, _) = &made[0];
        prop_assert_eq!(left, &offload);
        prop_assert!(*whole == packet, "{:?}", described);
    }
}
