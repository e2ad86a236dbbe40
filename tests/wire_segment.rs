//! Segments of super-packets beside a plain, slow twin, and under the eyes of another library.

use std::num::NonZeroU16;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use felt::net::{Offload, PartialChecksum, SegmentKind, Segmentation};
use felt::wire::segment::{Segments, Uncuttable, complete};
use proptest::prelude::*;

/// A super-packet, described.
#[derive(Clone, Debug)]
struct Super {
    six: bool,
    udp: bool,
    /// IPv4 options and TCP options, in words of four bytes.
    options: (usize, usize),
    /// Varied header bytes: TOS, identification, sequence, flags, and what lies in the checksum field.
    tos: u8,
    identification: u16,
    sequence: u32,
    flags: u8,
    field: u16,
    payload: Vec<u8>,
    step: u16,
    /// What the device says of the header's length.
    hint: u16,
}

impl Super {
    fn transport_at(&self) -> usize {
        if self.six { 40 } else { 20 + self.options.0 * 4 }
    }

    fn payload_at(&self) -> usize {
        self.transport_at() + if self.udp { 8 } else { 20 + self.options.1 * 4 }
    }

    fn packet(&self) -> Vec<u8> {
        let len = self.payload_at() + self.payload.len();
        let protocol = if self.udp { 17 } else { 6 };
        let mut packet = if self.six {
            let mut ip = vec![0x60 | self.tos >> 4, self.tos << 4, 1, 2];
            ip.extend(u16::try_from(len - 40).unwrap().to_be_bytes());
            ip.extend([protocol, 63]);
            ip.extend([0xfd; 16]);
            ip.extend([0x2a; 16]);
            ip
        } else {
            let mut ip = vec![0x45 + u8::try_from(self.options.0).unwrap(), self.tos];
            ip.extend(u16::try_from(len).unwrap().to_be_bytes());
            ip.extend(self.identification.to_be_bytes());
            ip.extend([0x40, 0, 63, protocol, 0, 0, 10, 5, 16, 2, 10, 5, 20, 3]);
            ip.extend(vec![1; self.options.0 * 4]);
            let checksum = !slow_sum(&ip);
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
            ip
        };
        packet.extend([0x04, 0xd2, 0x16, 0x2e]);
        if self.udp {
            packet.extend(u16::try_from(8 + self.payload.len()).unwrap().to_be_bytes());
            packet.extend(self.field.to_be_bytes());
        } else {
            packet.extend(self.sequence.to_be_bytes());
            packet.extend([0, 0, 0, 7, 0x50 + (u8::try_from(self.options.1).unwrap() << 4), self.flags, 0x20, 0]);
            packet.extend(self.field.to_be_bytes());
            packet.extend([0, 0]);
            packet.extend(vec![1; self.options.1 * 4]);
        }
        packet.extend(&self.payload);
        packet
    }

    fn offload(&self) -> Offload {
        let kind = match (self.udp, self.six) {
            (true, _) => SegmentKind::Udp,
            (false, false) => SegmentKind::Tcp4,
            (false, true) => SegmentKind::Tcp6,
        };
        let segment_bytes = NonZeroU16::new(self.step).unwrap();
        let start = u16::try_from(self.transport_at()).unwrap();
        Offload {
            checksum: Some(PartialChecksum { start, offset: if self.udp { 6 } else { 16 } }),
            segmentation: Some(Segmentation { kind, segment_bytes, header_bytes: self.hint, ecn: self.flags & 0x80 != 0 }),
        }
    }

    /// The twin: each segment made from scratch, its checksums last.
    fn twin(&self) -> Vec<Vec<u8>> {
        let whole = self.packet();
        let chunks: Vec<&[u8]> = self.payload.chunks(usize::from(self.step)).collect();
        let transport_at = self.transport_at();
        let one = |(at, chunk): (usize, &&[u8])| {
            let mut packet = [&whole[..self.payload_at()], chunk].concat();
            let (len, transport_len) = (packet.len(), packet.len() - transport_at);
            if self.six {
                put(&mut packet, 4, transport_len);
            } else {
                put(&mut packet, 2, len);
                put(&mut packet, 4, usize::from(self.identification) + at);
                put(&mut packet, 10, 0);
                let checksum = !slow_sum(&packet[..transport_at]);
                put(&mut packet, 10, usize::from(checksum));
            }
            let field = transport_at + if self.udp { 6 } else { 16 };
            put(&mut packet, field, 0);
            if self.udp {
                put(&mut packet, transport_at + 4, transport_len);
            } else {
                let sequence = u64::from(self.sequence) + (at * usize::from(self.step)) as u64;
                packet[transport_at + 4..transport_at + 8].copy_from_slice(&sequence.to_be_bytes()[4..]);
                if at != 0 {
                    packet[transport_at + 13] &= 0b0111_1111;
                }
                if at + 1 != chunks.len() {
                    packet[transport_at + 13] &= 0b1111_0110;
                }
            }
            let addresses = if self.six { &packet[8..40] } else { &packet[12..20] };
            let mut summed = addresses.to_vec();
            summed.extend([0, if self.udp { 17 } else { 6 }]);
            summed.extend(u16::try_from(transport_len).unwrap().to_be_bytes());
            summed.extend(&packet[transport_at..]);
            let checksum = match !slow_sum(&summed) {
                0 if self.udp => 0xffff,
                checksum => checksum,
            };
            put(&mut packet, field, usize::from(checksum));
            packet
        };
        chunks.iter().enumerate().map(one).collect()
    }
}

/// Writes the lower 16 bits of `value`.
fn put(packet: &mut [u8], at: usize, value: usize) {
    packet[at..at + 2].copy_from_slice(&value.to_be_bytes()[6..]);
}

fn slow_sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low)));
    let sum = words.sum::<u64>();
    u16::try_from(if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 }).unwrap()
}

fn super_packet() -> impl Strategy<Value = Super> {
    let payload = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 1..4000),
        1 => (any::<u8>(), 1usize..65_000).prop_map(|(byte, len)| vec![byte; len]),
    ];
    let step = prop_oneof![4 => 1u16..2000, 2 => Just(1448), 1 => any::<u16>().prop_map(|step| step.max(1))];
    let kinds = (any::<bool>(), any::<bool>(), (0usize..=10, 0usize..=10));
    let bytes = (any::<u8>(), any::<u16>(), any::<u32>(), any::<u8>(), any::<u16>(), any::<u16>());
    (kinds, bytes, payload, step).prop_map(|((six, udp, options), bytes, payload, step)| {
        let (tos, identification, sequence, flags, field, hint) = bytes;
        Super { six, udp, options, tos, identification, sequence, flags, field, payload, step, hint }
    })
}

/// All segments behind each other, as a train is written, and where each ends.
fn train(segments: &Segments<'_>) -> Vec<Vec<u8>> {
    let total: usize = (0..segments.count()).map(|at| segments.len_of(at)).sum();
    let mut room = vec![0xa5; total + 3];
    let mut written = 0;
    let mut found = Vec::new();
    for at in 0..segments.count() {
        let len = segments.write(at, &mut room[written..]).unwrap();
        assert_eq!(len, segments.len_of(at));
        assert!(len == segments.segment_len() || (at + 1 == segments.count() && len <= segments.segment_len()));
        found.push(room[written..written + len].to_vec());
        written += len;
    }
    assert_eq!((written, &room[total..]), (total, &[0xa5; 3][..]));
    assert_eq!((segments.write(segments.count(), &mut room), segments.len_of(segments.count())), (None, 0));
    found
}

/// What another library thinks of a packet: the payload, once every length and checksum is right.
fn payload_of(packet: &[u8]) -> Vec<u8> {
    let sliced = SlicedPacket::from_ip(packet).unwrap();
    let (total, payload) = match sliced.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.calc_header_checksum(), header.header_checksum);
            (usize::from(header.total_len), ip.payload().payload)
        }
        NetSlice::Ipv6(ip) => (40 + usize::from(ip.header().payload_length()), ip.payload().payload),
        NetSlice::Arp(arp) => panic!("{arp:?}"),
    };
    assert_eq!(total, packet.len());
    let checksums = match (sliced.transport.as_ref().unwrap(), sliced.net.as_ref().unwrap()) {
        (TransportSlice::Tcp(tcp), NetSlice::Ipv4(ip)) => {
            (tcp.checksum(), tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).unwrap())
        }
        (TransportSlice::Tcp(tcp), NetSlice::Ipv6(ip)) => {
            (tcp.checksum(), tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()).unwrap())
        }
        (TransportSlice::Udp(udp), NetSlice::Ipv4(ip)) => {
            assert_eq!(usize::from(udp.length()), payload.len());
            let header = ip.header();
            let expected = udp.to_header().calc_checksum_ipv4_raw(header.source(), header.destination(), udp.payload());
            (udp.checksum(), expected.unwrap())
        }
        (TransportSlice::Udp(udp), NetSlice::Ipv6(ip)) => {
            assert_eq!(usize::from(udp.length()), payload.len());
            let header = ip.header();
            let expected = udp.to_header().calc_checksum_ipv6_raw(header.source(), header.destination(), udp.payload());
            (udp.checksum(), expected.unwrap())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(checksums.0, checksums.1);
    match sliced.transport.unwrap() {
        TransportSlice::Tcp(tcp) => tcp.payload().to_vec(),
        TransportSlice::Udp(udp) => udp.payload().to_vec(),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn segments_are_those_of_the_slow_twin(packet in super_packet(), trailing in prop::collection::vec(any::<u8>(), 0..5)) {
        let bytes = [packet.packet(), trailing].concat();
        let segments = Segments::new(&bytes, &packet.offload()).unwrap();
        prop_assert_eq!(segments.count(), packet.payload.len().div_ceil(usize::from(packet.step)));
        prop_assert!(train(&segments) == packet.twin());
    }

    #[test]
    fn segments_are_right_to_another_library_and_carry_the_payload(packet in super_packet()) {
        let bytes = packet.packet();
        let segments = train(&Segments::new(&bytes, &packet.offload()).unwrap());
        let payload: Vec<u8> = segments.iter().flat_map(|segment| payload_of(segment)).collect();
        prop_assert!(payload == packet.payload);
    }

    #[test]
    fn one_segment_is_the_packet_with_its_checksum(packet in super_packet()) {
        let packet = Super { step: u16::try_from(packet.payload.len()).unwrap(), ..packet };
        let bytes = packet.packet();
        let found = train(&Segments::new(&bytes, &packet.offload()).unwrap());
        let field = packet.transport_at() + if packet.udp { 6 } else { 16 };
        prop_assert_eq!(found.len(), 1);
        prop_assert!(found[0][..field] == bytes[..field] && found[0][field + 2..] == bytes[field + 2..]);
    }

    #[test]
    fn a_completed_checksum_is_the_one_segment(packet in super_packet()) {
        let packet = Super { step: u16::MAX, ..packet };
        let mut bytes = packet.packet();
        let expected = train(&Segments::new(&bytes, &packet.offload()).unwrap());
        // The sum of the pseudo-header, as the kernel leaves it.
        let (start, field) = (packet.transport_at(), packet.transport_at() + if packet.udp { 6 } else { 16 });
        let addresses = if packet.six { 8..40 } else { 12..20 };
        let ends = [&bytes[addresses], &[0, if packet.udp { 17 } else { 6 }]].concat();
        let len = u16::try_from(bytes.len() - start).unwrap().to_be_bytes();
        let pseudo = slow_sum(&[&ends[..], &len].concat());
        put(&mut bytes, field, usize::from(pseudo));

        let offload = Offload { segmentation: None, ..packet.offload() };
        prop_assert!(train(&Segments::new(&bytes, &offload).unwrap()) == expected);
        complete(&mut bytes, offload.checksum.unwrap()).unwrap();
        prop_assert!(bytes == expected[0]);
    }

    #[test]
    fn nothing_to_do_is_identity(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        let segments = Segments::new(&bytes, &Offload::default()).unwrap();
        prop_assert_eq!((segments.count(), segments.segment_len()), (1, bytes.len()));
        prop_assert!(train(&segments) == [bytes]);
    }

    #[test]
    fn what_does_not_fit_is_not_written(packet in super_packet(), missing in 1usize..80) {
        let bytes = packet.packet();
        let segments = Segments::new(&bytes, &packet.offload()).unwrap();
        let room = segments.len_of(0).saturating_sub(missing);
        prop_assert_eq!(segments.write(0, &mut vec![0; room]), None);
    }

    #[test]
    fn another_kind_than_the_headers_say_is_refused(packet in super_packet()) {
        let bytes = packet.packet();
        let mut offload = packet.offload();
        let right = offload.segmentation.unwrap().kind;
        for kind in [SegmentKind::Tcp4, SegmentKind::Tcp6, SegmentKind::Udp] {
            offload.segmentation.as_mut().unwrap().kind = kind;
            let expected = if kind == right { Ok(()) } else { Err(Uncuttable::Kind { expected: kind, found: right }) };
            prop_assert_eq!(Segments::new(&bytes, &offload).map(|_| ()), expected);
        }
    }
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_its_other_representation() {
    for six in [false, true] {
        let template = Super {
            six,
            udp: true,
            options: (0, 0),
            tos: 0,
            identification: 0,
            sequence: 0,
            flags: 0,
            field: 0,
            payload: vec![0; 4],
            step: 2,
            hint: 0,
        };
        let mut zeros = 0;
        for word in 0..=u16::MAX {
            let packet = Super { payload: [word.to_be_bytes(), [1, 2]].concat(), ..template.clone() };
            let bytes = packet.packet();
            let first = train(&Segments::new(&bytes, &packet.offload()).unwrap()).swap_remove(0);
            let at = packet.transport_at() + 6;
            zeros += usize::from(first[at..at + 2] == [0xff, 0xff]);
            assert!(first[at..at + 2] != [0, 0], "payload {word:04x}");
        }
        // Only one word makes the whole sum zero.
        assert_eq!(zeros, 1);
    }
}
