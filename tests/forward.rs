//! The data plane from outside: flannel's golden packets, every drop reason, and random packets against a slow twin.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use felt::buf::{Batch, Datagram, Gather, Packet, Refusal, TrainLimit};
use felt::forward::{Counters, DropReason, Forwarder, Limiter, Outgoing, Peers, SourceCheck, Totals, Tunnel};
use felt::net::{Ecn, Endpoint, Moment, Offload, PartialChecksum, Supers};
use felt::wire::icmp::{IcmpError, write_error};
use felt::wire::ipv4::Ipv4;
use proptest::prelude::*;

const NOW: Moment = Moment::ZERO;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn endpoint(host: u8) -> Endpoint {
    Endpoint::from(([192, 0, 2, host], 8285))
}

/// Node `own` of the overlay 10.`net`.0.0/16.
fn tunnel(net: u8, own: u8) -> Tunnel {
    Tunnel {
        own: format!("10.{net}.{own}.0/24").parse().unwrap(),
        network: format!("10.{net}.0.0/16").parse().unwrap(),
        mtu: 1472,
        endpoint: endpoint(own),
        source_check: SourceCheck::Strict,
    }
}

/// Subnets 15, 16 and 20 are leased, by the hosts of these numbers; 31 by an endpoint inside the overlay.
fn peers() -> impl Peers {
    |address: Ipv4Addr| match address.octets() {
        [10, _, node @ (15 | 16 | 20), _] => Some(endpoint(node)),
        [10, 5, 31, _] => Some(Endpoint::from(([10, 5, 31, 0], 8285))),
        _ => None,
    }
}

/// A forwarder with batches around it.
struct Bench {
    forwarder: Forwarder,
    outgoing: Outgoing,
    from_wire: Batch<Datagram>,
    to_tun: Gather,
}

impl Bench {
    fn new(tunnel: &Tunnel) -> Self {
        let mut forwarder = Forwarder::new(Arc::new(Counters::default())).with_icmp_limit(Limiter::new(1, 1000));
        forwarder.adopt(Some(tunnel));
        Self { forwarder, outgoing: outgoing(64, 2048), from_wire: Batch::new(64, 2048), to_tun: Gather::new(64, 64) }
    }

    fn egress(&mut self, packets: &[Vec<u8>]) {
        let mut batch = batch(packets.iter().map(|bytes| (bytes, Offload::default())));
        assert!(!self.forwarder.egress(NOW, &mut peers(), TrainLimit::ONE, &mut batch, &mut self.outgoing));
    }

    fn ingress(&mut self, datagrams: &[(Vec<u8>, Datagram)]) {
        self.from_wire = batch(datagrams.iter().map(|(bytes, note)| (bytes, *note)));
        assert!(!self.forwarder.ingress(NOW, &mut peers(), Supers::default(), &mut self.from_wire, &mut self.to_tun));
    }

    /// The packets for the TUN.
    fn delivered(&self) -> Vec<Vec<u8>> {
        let pieces = self.to_tun.packets().flat_map(|packet| packet.pieces());
        pieces.map(|piece| self.from_wire.used()[usize::from(piece.slot)].0.bytes()[piece.range()].to_vec()).collect()
    }

    fn totals(&self) -> Totals {
        Totals::of([self.forwarder.counters()])
    }

    fn dropped(&self) -> u64 {
        self.totals().drops().map(|(_, count)| count).sum()
    }
}

fn outgoing(slots: usize, capacity: usize) -> Outgoing {
    Outgoing { to_wire: Batch::new(slots, capacity), back: Batch::new(64, 2048), answers: Batch::new(64, 2048) }
}

fn batch<'a, M: Default>(packets: impl Iterator<Item = (&'a Vec<u8>, M)>) -> Batch<M> {
    let mut batch = Batch::new(64, 2048);
    for (bytes, note) in packets {
        let mut packet = Packet::with_capacity(2048);
        packet.fill(bytes);
        assert!(batch.swap_in(&mut packet, note));
    }
    batch
}

fn contents<M: Copy>(batch: &Batch<M>) -> Vec<(Vec<u8>, M)> {
    batch.used().iter().map(|(packet, note)| (packet.bytes().to_vec(), *note)).collect()
}

fn from(host: u8) -> Datagram {
    Datagram { peer: endpoint(host), ..Datagram::default() }
}

#[test]
fn a_packet_passes_two_nodes_as_through_two_of_flannels() {
    let mut sender = Bench::new(&tunnel(1, 15));
    sender.egress(&[hex("45000020123440004011f1920a010f020a0114030fa01388000c000070696e67")]);
    let on_the_wire = hex("45000020123440003f11f2920a010f020a0114030fa01388000c000070696e67");
    assert_eq!(contents(&sender.outgoing.to_wire), [(on_the_wire.clone(), Datagram { segment_bytes: 32, ..from(20) })]);

    let mut receiver = Bench::new(&tunnel(1, 20));
    receiver.ingress(&[(on_the_wire, from(15))]);
    let delivered = hex("45000020123440003e11f3920a010f020a0114030fa01388000c000070696e67");
    assert_eq!(receiver.delivered(), [delivered]);
}

#[test]
fn no_route_is_answered_byte_for_byte_as_by_flannel_but_in_another_name() {
    let offender = hex("45000020123440004011a28e0a010f020a0163070fa01388000c000070696e67");
    let golden =
        "4500003800000000080180c20a010f000a010f020300d9cb0000000045000020123440004011a28e0a010f020a0163070fa01388000c0000";
    let mut room = [0; 56];
    let (device, packet) = (Ipv4Addr::new(10, 1, 15, 0), Ipv4::parse(&offender).unwrap());
    assert_eq!(write_error(&mut room, device, &packet, IcmpError::NetUnreachable), Some(56));
    assert_eq!(room[..], hex(golden));
    // Linux would not let that one pass: the TUN's address is the host's own.

    let mut node = Bench::new(&tunnel(1, 15));
    node.egress(&[offender]);
    let answer =
        "450000380000000008012cbb0a0163070a010f020300d9cb0000000045000020123440004011a28e0a010f020a0163070fa01388000c0000";
    assert_eq!(contents(&node.outgoing.answers), [(hex(answer), ())]);
    assert_eq!((node.totals().dropped(DropReason::NoRoute), node.outgoing.to_wire.len()), (1, 0));
}

#[test]
fn the_packets_of_the_field_reports_end_as_they_should() {
    let table = [
        ("P64", "4500001c00010000401142c20a0510020a05140304d2162e00080000", Some("3f1143c2"), None),
        ("P2", "4500001c00010000021180c20a0510020a05140304d2162e00080000", Some("011181c2"), None),
        ("P1", "4500001c00010000011181c20a0510020a05140304d2162e00080000", None, Some((11, 0, 56))),
        ("P0", "4500001c00010000001182c20a0510020a05140304d2162e00080000", None, Some((11, 0, 56))),
        ("PECT", "4502001c00010000401142c00a0510020a05140304d2162e00080000", Some("3f1143c0"), None),
        ("PFRAG", "4500001c007700b9401141930a0510020a0514030000000000000000", Some("3f114293"), None),
        ("PHDR", "45000014000100004011566e0a0510020a630001", None, Some((3, 0, 48))),
        ("PFRAG to nobody", "4500001c007700b9401141930a0510020a0663030000000000000000", None, None),
        ("ping to nobody", "4500001c00010000400142d20a0510020a6300010800000000000000", None, Some((3, 0, 56))),
        ("an error to nobody", "4500001c00010000400142d20a0510020a6300010300000000000000", None, None),
        ("from multicast", "4500001c00010000401142c2e00000020a63000104d2162e00080000", None, None),
        ("from 0.0.0.0", "4500001c00010000401142c2000000000a63000104d2162e00080000", None, None),
    ];
    for (name, packet, forwarded, answered) in table {
        let mut node = Bench::new(&tunnel(5, 16));
        node.egress(&[hex(packet)]);
        let ttl_to_checksum = node.outgoing.to_wire.used().first().map(|(packet, _)| packet.bytes()[8..12].to_vec());
        assert_eq!(ttl_to_checksum, forwarded.map(hex), "{name}");
        let icmp = node
            .outgoing
            .answers
            .used()
            .first()
            .map(|(packet, ())| (packet.bytes()[20], packet.bytes()[21], packet.bytes().len()));
        assert_eq!(icmp, answered, "{name}");
    }
}

#[test]
fn every_drop_reason_but_those_of_policy_can_happen() {
    let plain = hex("4500001c00010000401142c20a0510020a05140304d2162e00080000");
    let with = |edits: &[(usize, u8)]| {
        let mut bytes = plain.clone();
        for (at, value) in edits {
            bytes[*at] = *value;
        }
        bytes
    };
    let mut node = Bench::new(&tunnel(5, 16));
    let mut big = with(&[(2, 7), (3, 0xd0), (6, 0x40)]);
    big.resize(2000, 0);
    node.egress(&[with(&[(18, 99)]), with(&[(18, 16)]), with(&[(8, 1)]), big]);

    // From node 20 to us.
    let back = |edits: &[(usize, u8)]| with(&[&[(14, 20), (18, 16)], edits].concat());
    node.ingress(&[
        (vec![0x45; 19], from(20)),
        (back(&[(0, 0x65)]), from(20)),
        (back(&[(0, 0x44)]), from(20)),
        (back(&[(3, 99)]), from(20)),
        (back(&[]), Datagram { truncated: true, ..from(20) }),
        (back(&[(14, 99)]), from(20)),
        (back(&[]), from(15)),
        (back(&[]), Datagram { peer: Endpoint::from(([192, 0, 2, 20], 9)), ..from(20) }),
        (back(&[(18, 17)]), from(20)),
        (back(&[]), Datagram { ecn: Ecn::Ce, ..from(20) }),
    ]);

    node.ingress(&vec![(back(&[]), from(20)); 64]);
    node.forwarder.written(&mut node.to_tun, 1);

    let (mut small, mut unsound) = (outgoing(1, 27), batch([(&plain, Offload::default()), (&plain, nonsense())].into_iter()));
    let more = node.forwarder.egress(NOW, &mut peers(), TrainLimit::ONE, &mut unsound, &mut small);
    assert!(!more);

    node.egress(&[plain.clone(), plain.clone(), plain.clone()]);
    for ((_, note), refusal) in
        node.outgoing.to_wire.used_mut().iter_mut().zip([Refusal::NoBuffer, Refusal::Other, Refusal::TooBig])
    {
        note.refuse(refusal);
    }
    node.forwarder.sent(NOW, &mut node.outgoing.to_wire, |_| None, &mut node.outgoing.answers);

    node.forwarder.adopt(None);
    node.egress(&[plain]);

    let happened: HashSet<_> = node.totals().drops().filter(|(_, count)| *count > 0).map(|(reason, _)| reason).collect();
    let missing: Vec<_> = DropReason::ALL.iter().filter(|reason| !happened.contains(reason)).collect();
    // These take policy; see forward_policy.
    let of_policy = [
        DropReason::PolicyEgress,
        DropReason::PolicyIngress,
        DropReason::PolicyUnsynced,
        DropReason::UnknownPod,
        DropReason::Multicast,
        DropReason::BadTransport,
        DropReason::TinyFragment,
        DropReason::OrphanFragment,
    ];
    assert_eq!(missing, of_policy.iter().collect::<Vec<_>>(), "never happened");
    assert_eq!(node.totals().ingress_packets, 63);
}

/// A checksum to be completed that lies outside the packet.
fn nonsense() -> Offload {
    Offload { checksum: Some(PartialChecksum { start: 20, offset: 60 }), ..Offload::default() }
}

/// Mostly packets that are right but for a few bytes, and some that are no packets at all.
fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let raw = prop::collection::vec(any::<u8>(), 0..70);
    let near = (
        prop::collection::vec(any::<u8>(), 20..120),
        prop::sample::select(vec![15u8, 16, 20, 31, 99]),
        prop::sample::select(vec![15u8, 16, 20, 31, 99]),
        prop::sample::select(vec![0u8, 1, 2, 64, 255]),
        prop::sample::select(vec![0x45u8, 0x45, 0x45, 0x46, 0x4f, 0x44, 0x65]),
        prop::sample::select(vec![0u8, 0, 0x40, 0x20, 1]),
        prop::sample::select(vec![1u8, 6, 17]),
        prop::sample::select(vec![-1i16, 0, 0, 0, 0, 1, 40]),
    )
        .prop_map(|(mut bytes, source, destination, ttl, first, flags, protocol, length_error)| {
            bytes[0] = first;
            let claimed = i16::try_from(bytes.len()).unwrap() + length_error;
            bytes[2..4].copy_from_slice(&claimed.to_be_bytes());
            bytes[6] = flags;
            (bytes[8], bytes[9]) = (ttl, protocol);
            bytes[12..15].copy_from_slice(&[10, 5, source]);
            bytes[16..19].copy_from_slice(&[10, 5, destination]);
            let header_len = usize::from(first & 0x0f) * 4;
            if let Some(header) = bytes.get_mut(..header_len)
                && header_len >= 20
            {
                let checksum = slow_checksum(header, 10);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            bytes
        });
    prop::collection::vec(prop_oneof![1 => raw, 6 => near], 0..40)
}

/// The checksum of `bytes` with the field at `field` taken as zero, word by word.
fn slow_checksum(bytes: &[u8], field: usize) -> u16 {
    let mut sum = 0u32;
    for at in (0..bytes.len()).step_by(2).filter(|at| *at != field) {
        sum += u32::from(bytes[at]) * 256 + bytes.get(at + 1).map_or(0, |low| u32::from(*low));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap()
}

/// What a packet must be to be read at all, after etherparse and the two rules it leaves to its callers.
fn slow_parse(bytes: &[u8]) -> Result<etherparse::Ipv4Header, DropReason> {
    use etherparse::err::ipv4::{HeaderError, HeaderSliceError};
    if bytes.len() < 20 {
        return Err(DropReason::TooShort);
    }
    let header = match etherparse::Ipv4Header::from_slice(bytes) {
        Ok((header, _)) => header,
        Err(HeaderSliceError::Content(HeaderError::UnexpectedVersion { .. })) => return Err(DropReason::NotIpv4),
        Err(_) => return Err(DropReason::BadHeaderLength),
    };
    let total = usize::from(header.total_len);
    if total < header.header_len() || total > bytes.len() { Err(DropReason::BadTotalLength) } else { Ok(header) }
}

/// The packet one hop on, built anew.
fn slow_forward(mut header: etherparse::Ipv4Header, bytes: &[u8], mark: u8) -> Vec<u8> {
    header.time_to_live -= 1;
    header.ecn = etherparse::IpEcn::try_new(mark).unwrap();
    let rest = &bytes[header.header_len()..usize::from(header.total_len)];
    // The reserved flag is none of etherparse's fields.
    let mut built = header.to_bytes().to_vec();
    built[6] |= bytes[6] & 0x80;
    let checksum = slow_checksum(&built, 10);
    built[10..12].copy_from_slice(&checksum.to_be_bytes());
    [built, rest.to_vec()].concat()
}

fn slow_egress(bytes: &[u8]) -> Result<(Vec<u8>, u8), DropReason> {
    let header = slow_parse(bytes)?;
    match header.destination {
        // Of other networks' subnets 16, as random bytes may have them, the peer is ourselves.
        [10, _, 16, _] | [10, 5, 31, _] => Err(DropReason::Loop),
        [10, _, node @ (15 | 20), _] if header.time_to_live > 1 => {
            let mark = header.ecn.value();
            Ok((slow_forward(header, bytes, mark), node))
        }
        [10, _, 15 | 20, _] => Err(DropReason::TtlExpired),
        _ => Err(DropReason::NoRoute),
    }
}

fn slow_ingress(bytes: &[u8], from: u8, outer: u8) -> Result<Vec<u8>, DropReason> {
    let header = slow_parse(bytes)?;
    match header.source {
        [10, 5, 31, _] => return Err(DropReason::SourceNotOfPeer),
        [10, _, node @ (15 | 16 | 20), _] if node != from => return Err(DropReason::SourceNotOfPeer),
        [10, _, 15 | 16 | 20, _] => {}
        _ => return Err(DropReason::SourceUnleased),
    }
    if header.destination[..3] != [10, 5, 16] {
        return Err(DropReason::DestinationNotOurs);
    }
    if header.time_to_live < 2 {
        return Err(DropReason::TtlExpired);
    }
    // The rows and columns of RFC 6040's figure 4, by the bits' values: Not-ECT, ECT(1), ECT(0), CE.
    let table = [[0, 0, 0, 9], [1, 1, 1, 3], [2, 1, 2, 3], [3, 3, 3, 3]];
    match table[usize::from(header.ecn.value())][usize::from(outer)] {
        9 => Err(DropReason::CeOnNotEct),
        mark => Ok(slow_forward(header, bytes, mark)),
    }
}

fn check_answer(bytes: &[u8]) {
    let (header, rest) = etherparse::Ipv4Header::from_slice(bytes).unwrap();
    assert_eq!((header.header_checksum, usize::from(header.total_len)), (header.calc_header_checksum(), bytes.len()));
    let (icmp, quoted) = etherparse::Icmpv4Header::from_slice(rest).unwrap();
    assert_eq!(icmp.checksum, icmp.icmp_type.calc_checksum(quoted));
    assert!(matches!(
        icmp.icmp_type,
        etherparse::Icmpv4Type::DestinationUnreachable(_) | etherparse::Icmpv4Type::TimeExceeded(_)
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn egress_agrees_with_its_slow_twin_and_loses_track_of_nothing(packets in packets()) {
        let mut node = Bench::new(&tunnel(5, 16));
        node.egress(&packets);
        let expected: Vec<_> = packets.iter().map(|bytes| slow_egress(bytes)).collect();
        let sent: Vec<_> = contents(&node.outgoing.to_wire).into_iter().map(|(bytes, note)| (bytes, note.peer)).collect();
        let twin: Vec<_> = expected.iter().flatten().map(|(bytes, node)| (bytes.clone(), endpoint(*node))).collect();
        prop_assert_eq!(sent, twin);
        for reason in DropReason::ALL {
            let count = expected.iter().filter(|outcome| outcome.as_ref().err() == Some(reason)).count();
            prop_assert_eq!(node.totals().dropped(*reason), count as u64, "{:?}", reason);
        }
        prop_assert_eq!(node.outgoing.to_wire.len() as u64 + node.dropped(), packets.len() as u64);
        for (answer, ()) in contents(&node.outgoing.answers) {
            check_answer(&answer);
        }
        prop_assert!(node.outgoing.answers.len() as u64 <= node.dropped());
    }

    #[test]
    fn ingress_agrees_with_its_slow_twin_and_loses_track_of_nothing(
        packets in packets(),
        notes in prop::collection::vec((prop::sample::select(vec![15u8, 20, 66]), 0u8..4), 40),
    ) {
        let mut node = Bench::new(&tunnel(5, 16));
        let datagrams: Vec<_> = packets
            .iter()
            .zip(&notes)
            .map(|(bytes, (host, mark))| (bytes.clone(), Datagram { ecn: Ecn::from_tos(*mark), ..from(*host) }))
            .collect();
        node.ingress(&datagrams);
        let expected: Vec<_> = packets.iter().zip(&notes).map(|(bytes, (host, mark))| slow_ingress(bytes, *host, *mark)).collect();
        prop_assert_eq!(node.delivered(), expected.iter().flatten().cloned().collect::<Vec<_>>());
        for reason in DropReason::ALL {
            let count = expected.iter().filter(|outcome| outcome.as_ref().err() == Some(reason)).count();
            prop_assert_eq!(node.totals().dropped(*reason), count as u64, "{:?}", reason);
        }
        prop_assert_eq!(node.to_tun.len() as u64 + node.dropped(), packets.len() as u64);
    }

    #[test]
    fn what_was_refused_is_answered_or_only_counted(packets in packets(), path_mtu: u16) {
        let mut node = Bench::new(&tunnel(5, 16));
        node.egress(&packets);
        node.outgoing.answers.clear();
        let (before, sent) = (node.dropped(), node.outgoing.to_wire.len() as u64);
        let mut peers_asked = HashSet::new();
        for (at, (_, note)) in node.outgoing.to_wire.used_mut().iter_mut().enumerate() {
            if let Some(refusal) = [None, Some(Refusal::TooBig), Some(Refusal::NoBuffer), Some(Refusal::Other)][at % 4] {
                note.refuse(refusal);
            }
        }
        node.forwarder.sent(NOW, &mut node.outgoing.to_wire, |peer| { peers_asked.insert(peer); Some(path_mtu) }, &mut node.outgoing.answers);
        prop_assert_eq!(node.totals().egress_packets + node.dropped() - before, sent);
        prop_assert!(peers_asked.is_subset(&HashSet::from([endpoint(15), endpoint(20)])));
        for (answer, ()) in contents(&node.outgoing.answers) {
            check_answer(&answer);
            let mtu = u16::from_be_bytes([answer[26], answer[27]]);
            prop_assert!((68..=1472).contains(&mtu));
        }
    }
}
