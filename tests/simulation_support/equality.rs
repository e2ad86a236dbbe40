//! Offloads change nothing but the work: what they deliver, cut to packets, is what arrives without any of them.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use etherparse::{IpHeaders, Ipv4Extensions, Ipv4Header, PacketBuilder};
use felt::buf::TrainLimit;
use felt::daemon::tuning::Sizes;
use felt::net::{Offload, SegmentKind, Segmentation};
use felt::port::fault::Faults;
use felt::wire::checksum;
use felt::wire::headers::{Headers, Transport};
use felt::wire::segment::Segments;
use proptest::prelude::*;

use super::world::{Ports, World};

const FLOWS: u8 = 4;
const MTU: usize = 1472;
/// Kinds of packets that have no part in any run.
const FRAGMENT: u16 = 0x2000;
const DONT_FRAGMENT: u16 = 0x4000;

/// What a container of either node sends at once.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "header bits are on or off")]
struct Sent {
    from: u8,
    /// TCP or UDP by turns; each with its own ports.
    flow: u8,
    /// Payload bytes of each packet but the last, how many there are, and what the last one has less.
    step: usize,
    packets: usize,
    short: usize,
    push: bool,
    dont_fragment: bool,
    same_id: bool,
    ecn: u8,
    odd: Odd,
    /// Everything sent so far arrives before the next.
    settle: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Odd {
    No,
    /// The transport checksum of a single packet is wrong.
    Damaged,
    /// A single packet is a first fragment.
    Fragment,
    /// A single packet has no ports.
    NoFlow,
}

fn sent() -> impl Strategy<Value = Sent> {
    let step = prop_oneof![Just(1_400usize), 1..=1_400usize, 1..=40usize];
    let odd = prop_oneof![12 => Just(Odd::No), 1 => Just(Odd::Damaged), 1 => Just(Odd::Fragment), 1 => Just(Odd::NoFlow)];
    let sizes = (step, prop_oneof![Just(1usize), 1..=45usize], any::<prop::sample::Index>());
    let marks = (any::<bool>(), any::<bool>(), any::<bool>(), prop_oneof![4 => Just(0u8), 1 => 1..=3u8]);
    (1..=2u8, 0..FLOWS, sizes, marks, odd, prop::bool::weighted(0.2)).prop_map(|(from, flow, sizes, marks, odd, settle)| {
        let ((step, packets, short), (push, dont_fragment, same_id, ecn)) = (sizes, marks);
        let (packets, short) = (if odd == Odd::No { packets } else { 1 }, short.index(step));
        Sent { from, flow, step, packets, short, push, dont_fragment, same_id: same_id && dont_fragment, ecn, odd, settle }
    })
}

fn ports() -> impl Strategy<Value = Ports> {
    (1..=128usize, 2_000..=65_507usize, 1..=32usize, 1..=64usize).prop_map(|(datagrams, bytes, batch, gathered)| Ports {
        trains: Some(TrainLimit { datagrams, bytes }),
        sizes: Sizes { gathered, pieces: gathered, ..Sizes::for_batch(batch) },
    })
}

/// Makes packets; knows how far each flow has come.
#[derive(Default)]
struct Containers {
    sequences: BTreeMap<(u8, u8), u32>,
    identifications: BTreeMap<(u8, u8), u16>,
}

impl Containers {
    /// One packet with all of the payload, and the packets that it is cut into.
    fn packets(&mut self, sent: &Sent) -> (Vec<u8>, Vec<Vec<u8>>) {
        let flow = (sent.from, sent.flow);
        let identification = self.identifications.entry(flow).or_insert(u16::MAX - 40);
        let sequence = self.sequences.entry(flow).or_insert(u32::MAX - 100_000);
        let len = sent.step * sent.packets - sent.short;
        let payload: Vec<u8> = (0..len).map(|at| (*sequence as usize + at * 7).to_le_bytes()[at % 2]).collect();
        let whole = packet(sent, *identification, *sequence, true, &payload);
        let chunk = |(at, chunk): (usize, &[u8])| {
            let number = u16::try_from(at).unwrap();
            let identification = identification.wrapping_add(if sent.same_id { 0 } else { number });
            let sequence = sequence.wrapping_add(u32::try_from(at * sent.step).unwrap());
            packet(sent, identification, sequence, at + 1 == sent.packets, chunk)
        };
        let packets = payload.chunks(sent.step).enumerate().map(chunk).collect();
        *identification = identification.wrapping_add(u16::try_from(sent.packets).unwrap());
        *sequence = sequence.wrapping_add(u32::try_from(len).unwrap());
        (whole, packets)
    }
}

fn is_udp(sent: &Sent) -> bool {
    sent.flow % 2 == 1
}

fn packet(sent: &Sent, identification: u16, sequence: u32, last: bool, payload: &[u8]) -> Vec<u8> {
    let mut ip = Ipv4Header { time_to_live: 64, identification, dont_fragment: sent.dont_fragment, ..Default::default() };
    (ip.source, ip.destination) = ([10, 5, sent.from, 2], [10, 5, 3 - sent.from, 3]);
    ip.ecn = etherparse::IpEcn::try_new(sent.ecn).unwrap();
    ip.more_fragments = sent.odd == Odd::Fragment;
    let builder = PacketBuilder::ip(IpHeaders::Ipv4(ip, Ipv4Extensions::default()));
    let (mut bytes, port) = (Vec::new(), 4_000 + u16::from(sent.flow));
    if is_udp(sent) {
        builder.udp(port, 53).write(&mut bytes, payload).unwrap();
    } else {
        let tcp = builder.tcp(port, 80, sequence, 512).ack(1);
        let tcp = if sent.push && last { tcp.psh() } else { tcp };
        tcp.write(&mut bytes, payload).unwrap();
    }
    match sent.odd {
        Odd::Damaged => *bytes.last_mut().unwrap() ^= 0x40,
        Odd::NoFlow => {
            bytes[9] = 132;
            bytes[10..12].fill(0);
            let sum = checksum::checksum(&bytes[..20]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Odd::No | Odd::Fragment => {}
    }
    bytes
}

/// What the host's kernel would have left to do on `whole`, and the checksum field as it would leave it.
fn left_to_do(mut whole: Vec<u8>, sent: &Sent) -> (Vec<u8>, Offload) {
    let headers = Headers::find(&whole).unwrap();
    let field = headers.checksum_field();
    let at = usize::from(field.start + field.offset);
    let pseudo = headers.pseudo_sum(&whole, whole.len() - headers.transport_at);
    whole[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
    let kind = if headers.transport == Transport::Udp { SegmentKind::Udp } else { SegmentKind::Tcp4 };
    let segment_bytes = NonZeroU16::new(u16::try_from(sent.step).unwrap()).unwrap();
    let cut = Segmentation { kind, segment_bytes, header_bytes: u16::try_from(headers.payload_at).unwrap(), ecn: false };
    (whole, Offload { checksum: Some(field), segmentation: (sent.packets > 1).then_some(cut) })
}

/// What arrived, by flow, each packet as it would be on a wire.
type Arrived = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

fn arrived(world: &World) -> Arrived {
    let mut arrived = Arrived::new();
    for node in &world.nodes {
        while let Some((bytes, offload)) = node.host.recv() {
            let segments = Segments::new(&bytes, &offload).unwrap();
            for at in 0..segments.count() {
                let mut packet = vec![0; segments.len_of(at)];
                segments.write(at, &mut packet).unwrap();
                assert_eq!(checksum::sum(&packet[..20]), 0xffff);
                let fragment_field = u16::from_be_bytes([packet[6], packet[7]]);
                if fragment_field & DONT_FRAGMENT != 0 {
                    // Means nothing then (RFC 6864), so nobody need keep it.
                    packet[4..6].fill(0);
                    packet[10..12].fill(0);
                }
                let ports = if fragment_field & FRAGMENT == 0 { 20..24 } else { 0..0 };
                let key = [&packet[9..10], &packet[12..20], &packet[ports]].concat();
                arrived.entry(key).or_default().push(packet);
            }
        }
    }
    arrived
}

/// Sends all of it through two worlds.
fn both_ways(all: &[Sent], ports: Ports) -> [World; 2] {
    let mut plain = World::new(2, 1500, Ports::plain(), Faults::default(), 0);
    let mut offloaded = World::new(2, 1500, ports, Faults::default(), 0);
    let mut containers = Containers::default();
    for sent in all {
        let (whole, packets) = containers.packets(sent);
        let at = usize::from(sent.from) - 1;
        for packet in &packets {
            assert!(packet.len() <= MTU);
            plain.nodes[at].host.send(packet);
        }
        if sent.odd == Odd::No {
            let (whole, offload) = left_to_do(whole, sent);
            offloaded.nodes[at].host.send_offloaded(&whole, offload);
        } else {
            offloaded.nodes[at].host.send(&whole);
        }
        if sent.settle {
            plain.settle();
            offloaded.settle();
        }
    }
    plain.settle();
    offloaded.settle();
    [plain, offloaded]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn offloads_deliver_what_arrives_without_them(all in prop::collection::vec(sent(), 1..40), ports in ports()) {
        let [plain, offloaded] = both_ways(&all, ports);
        let (expected, found) = (arrived(&plain), arrived(&offloaded));
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (flow, expected) in &expected {
            prop_assert_eq!(found[flow].len(), expected.len());
            for (at, (found, expected)) in found[flow].iter().zip(expected).enumerate() {
                prop_assert_eq!(found, expected, "packet {} of flow {:?}", at, flow);
            }
        }
        let [plain, offloaded] = [plain.totals(), offloaded.totals()];
        let sent: usize = all.iter().map(|sent| sent.packets).sum();
        prop_assert_eq!((plain.egress_packets, plain.ingress_packets), (sent as u64, sent as u64));
        prop_assert_eq!((offloaded.egress_packets, offloaded.ingress_packets), (sent as u64, sent as u64));
        prop_assert_eq!((offloaded.egress_bytes, offloaded.ingress_bytes), (plain.egress_bytes, plain.ingress_bytes));
        prop_assert!(offloaded.drops().all(|(_, count)| count == 0));
    }
}

#[test]
fn a_flow_goes_all_the_way_as_super_packets() {
    let one = Sent {
        from: 1,
        flow: 0,
        step: 1_400,
        packets: 40,
        short: 0,
        push: false,
        dont_fragment: true,
        same_id: false,
        ecn: 0,
        odd: Odd::No,
        settle: true,
    };
    let all: Vec<_> = (0..FLOWS).map(|flow| Sent { flow, ..one.clone() }).collect();
    let [plain, offloaded] = both_ways(&all, Ports::offloaded());
    let totals = offloaded.totals();
    assert_eq!((totals.egress_supers, totals.egress_trains, totals.ingress_trains, totals.ingress_supers), (4, 4, 4, 4));
    assert_eq!((totals.egress_packets, totals.ingress_packets), (160, 160));
    let totals = plain.totals();
    assert_eq!((totals.egress_supers, totals.egress_trains, totals.ingress_trains, totals.ingress_supers), (0, 0, 0, 0));
    assert_eq!(std::iter::from_fn(|| offloaded.nodes[1].host.recv()).count(), 4);
}
