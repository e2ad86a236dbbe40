//! Tables.

mod second_opinion;

use etherparse::{IcmpEchoHeader, Icmpv4Type, Icmpv6Type, IpFragOffset, Ipv4Header, PacketBuilder};

use super::*;
use crate::net::{FlowKey, Protocol, address_bits};

const A: &str = "10.5.16.2";
const B: &str = "10.5.20.3";
const C: &str = "10.5.20.99";
const A6: &str = "fd00::1";
const B6: &str = "fd00::2";

fn key(protocol: Protocol, from: (&str, u16), to: (&str, u16)) -> FlowKey {
    FlowKey::new(protocol, (from.0.parse().unwrap(), from.1), (to.0.parse().unwrap(), to.1))
}

fn flow(key: FlowKey) -> Inspected {
    Inspected::Flow { key, tcp: None, first_fragment: None }
}

/// The flow of a query of that type, as its asker's direction.
fn query(protocol: Protocol, kind: u16, identifier: u16, from: &str, to: &str) -> FlowKey {
    key(protocol, (from, 0x8000 | identifier >> 1), (to, kind << 1 | identifier & 1))
}

fn answer(query: FlowKey) -> Inspected {
    Inspected::Answer { key: query.reversed(), first_fragment: None }
}

fn message(key: FlowKey) -> Inspected {
    Inspected::Message { key, first_fragment: None }
}

/// An IPv4 packet of that protocol, at `offset` bytes of its datagram.
fn v4(from: &str, to: &str, protocol: u8, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let [from, to] = [from, to].map(|text| text.parse::<std::net::Ipv4Addr>().unwrap().octets());
    let mut header = Ipv4Header::new(u16::try_from(payload.len()).unwrap(), 64, protocol.into(), from, to).unwrap();
    (header.identification, header.more_fragments) = (77, more);
    header.fragment_offset = IpFragOffset::try_new(offset / 8).unwrap();
    [&header.to_bytes()[..], payload].concat()
}

/// An IPv6 packet whose first extension, or transport, is `next`.
fn v6(from: &str, to: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    let [from, to] = [from, to].map(|text| text.parse::<std::net::Ipv6Addr>().unwrap().octets());
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend([next, 64]);
    [bytes, from.to_vec(), to.to_vec(), payload.to_vec()].concat()
}

/// A fragment header of datagram 77.
fn fragment(next: u8, offset: u16, more: bool) -> Vec<u8> {
    let [high, low] = (offset | u16::from(more)).to_be_bytes();
    vec![next, 0, high, low, 0, 0, 0, 77]
}

fn tcp(flags: u8) -> Vec<u8> {
    let mut bytes = vec![0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 1, 0];
    bytes.extend([0; 4]);
    bytes
}

fn udp() -> Vec<u8> {
    vec![0x9c, 0x40, 0, 53, 0, 8, 0, 0]
}

#[test]
fn transports_are_told_apart() {
    let (sctp, tcp_flow) = ([&udp()[..], &[0; 4]].concat(), key(Protocol::TCP, (A, 40_000), (B, 80)));
    for flags in [0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0] {
        let expected = Inspected::Flow { key: tcp_flow, tcp: Some(TcpFlags(flags)), first_fragment: None };
        assert_eq!(inspect(&v4(A, B, 6, 0, false, &tcp(flags))), expected);
    }
    let udp_flow = |from, to| flow(key(Protocol::UDP, (from, 40_000), (to, 53)));
    assert_eq!(inspect(&v4(A, B, 17, 0, false, &udp())), udp_flow(A, B));
    assert_eq!(inspect(&v6(A6, B6, 17, &udp())), udp_flow(A6, B6));
    assert_eq!(inspect(&v4(A, B, 132, 0, false, &sctp)), flow(key(Protocol::SCTP, (A, 40_000), (B, 53))));
    assert_eq!(inspect(&v4(A, B, 47, 0, false, &[])), flow(key(Protocol(47), (A, 0), (B, 0))));
    // UDP-Lite and ICMP in the other family have nothing that policies speak of.
    assert_eq!(inspect(&v4(A, B, 136, 0, false, &udp())), flow(key(Protocol(136), (A, 0), (B, 0))));
    assert_eq!(inspect(&v4(A, B, 58, 0, false, &[128; 8])), flow(key(Protocol::ICMPV6, (A, 0), (B, 0))));
    // No next header.
    assert_eq!(inspect(&v6(A6, B6, 59, &[1])), flow(key(Protocol(59), (A6, 0), (B6, 0))));
}

#[test]
fn flags_say_who_opens_and_who_accepts() {
    for (flags, opens, accepts) in
        [(0x02, true, false), (0xc2, true, false), (0x03, true, false), (0x12, false, true), (0x06, false, false)]
    {
        assert_eq!((TcpFlags(flags).opens(), TcpFlags(flags).accepts()), (opens, accepts), "{flags:#x}");
    }
    assert!(!TcpFlags(0x10).opens() && !TcpFlags(0).opens());
}

#[test]
fn echo_and_its_reply_are_one_flow() {
    let echo = IcmpEchoHeader { id: 4711, seq: 1 };
    let v4 = |kind: Icmpv4Type, from: &str, to: &str| {
        let [from, to] = [from, to].map(|text| text.parse::<std::net::Ipv4Addr>().unwrap().octets());
        let mut bytes = Vec::new();
        PacketBuilder::ipv4(from, to, 64).icmpv4(kind).write(&mut bytes, b"ping").unwrap();
        inspect(&bytes)
    };
    let request = query(Protocol::ICMP, 8, 4711, A, B);
    assert_eq!(v4(Icmpv4Type::EchoRequest(echo), A, B), flow(request));
    assert_eq!(v4(Icmpv4Type::EchoReply(echo), B, A), answer(request));
    let v6 = |kind: Icmpv6Type, from: &str, to: &str| {
        let [from, to] = [from, to].map(|text| text.parse::<std::net::Ipv6Addr>().unwrap().octets());
        let mut bytes = Vec::new();
        PacketBuilder::ipv6(from, to, 64).icmpv6(kind).write(&mut bytes, b"ping").unwrap();
        inspect(&bytes)
    };
    let request = query(Protocol::ICMPV6, 128, 4711, A6, B6);
    assert_eq!(v6(Icmpv6Type::EchoRequest(echo), A6, B6), flow(request));
    assert_eq!(v6(Icmpv6Type::EchoReply(echo), B6, A6), answer(request));
}

/// An ICMP message of that type around those bytes.
fn icmp(kind: u8, quote: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0, 0, 0], quote].concat()
}

#[test]
fn errors_name_the_flow_they_are_about() {
    let (sent, outer) = (key(Protocol::UDP, (A, 40_000), (B, 53)), key(Protocol::ICMP, (C, 0), (A, 0)));
    let quote = &v4(A, B, 17, 0, true, &[&udp()[..], &[0; 500]].concat())[..28];
    let of = |kind, quote: &[u8]| inspect(&v4(C, A, 1, 0, false, &icmp(kind, quote)));
    for kind in [3, 11, 12] {
        assert_eq!(of(kind, quote), Inspected::IcmpError { key: outer, quoted: sent }, "{kind}");
    }
    // Source quench and redirect are not let through as related; others belong to nothing.
    for kind in [4, 5, 9, 10, 15, 16] {
        assert_eq!(of(kind, quote), message(outer), "{kind}");
    }
    assert_eq!(
        of(3, &v4(A, B, 6, 0, false, &tcp(2))[..24]),
        Inspected::IcmpError { key: outer, quoted: key(Protocol::TCP, (A, 40_000), (B, 80)) }
    );
    let mut ping = icmp(8, &[]);
    ping[5] = 9;
    let quoted = query(Protocol::ICMP, 8, 9, A, B);
    assert_eq!(of(11, &v4(A, B, 1, 0, false, &ping)), Inspected::IcmpError { key: outer, quoted });
    for (name, quote) in [
        ("about an error", v4(A, B, 1, 0, false, &icmp(3, &[]))),
        ("about somebody else's packet", v4(B, A, 17, 0, false, &udp())),
        ("about a later fragment", v4(A, B, 17, 8, false, &udp())),
        ("without ports", v4(A, B, 17, 0, false, &udp())[..23].to_vec()),
        ("without a header", v4(A, B, 17, 0, false, &udp())[..19].to_vec()),
        ("about nothing", Vec::new()),
        ("about the other family", v6(A6, B6, 17, &udp())),
    ] {
        assert_eq!(of(3, &quote), message(outer), "{name}");
    }
}

#[test]
fn errors_of_ipv6_too_and_neighbours_pass() {
    let of = |kind, quote: &[u8]| inspect(&v6(B6, A6, 58, &icmp(kind, quote)));
    let outer = key(Protocol::ICMPV6, (B6, 0), (A6, 0));
    let options = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &udp()].concat();
    for kind in 1..=4 {
        let expected = Inspected::IcmpError { key: outer, quoted: key(Protocol::UDP, (A6, 40_000), (B6, 53)) };
        assert_eq!(of(kind, &v6(A6, B6, 17, &udp())), expected);
        assert_eq!(of(kind, &v6(A6, B6, 60, &options)), expected);
    }
    for kind in [0, 5, 127, 130, 132, 138, 143] {
        assert_eq!(of(kind, &v6(A6, B6, 17, &udp())), message(outer), "{kind}");
    }
    for kind in 133..=137 {
        assert_eq!(of(kind, &[]), Inspected::Neighbour, "{kind}");
        // In IPv4 it is a number like any other, and in fragments nobody takes it for discovery.
        assert_eq!(inspect(&v4(A, B, 58, 0, false, &icmp(kind, &[]))), flow(key(Protocol::ICMPV6, (A, 0), (B, 0))));
        let split = [fragment(58, 0, true), icmp(kind, &[])].concat();
        assert!(matches!(inspect(&v6(A6, B6, 44, &split)), Inspected::Message { first_fragment: Some(_), .. }));
    }
}

#[test]
fn fragments_are_known_by_their_datagram() {
    let id = FragmentId {
        source: address_bits(A.parse().unwrap()),
        destination: address_bits(B.parse().unwrap()),
        protocol: Protocol::UDP,
        id: 77,
    };
    let first = [&udp()[..], &[0; 16]].concat();
    let expected = Inspected::Flow {
        key: key(Protocol::UDP, (A, 40_000), (B, 53)),
        tcp: None,
        first_fragment: Some(FirstFragment { id, bytes: 24 }),
    };
    assert_eq!(inspect(&v4(A, B, 17, 0, true, &first)), expected);
    assert_eq!(inspect(&v4(A, B, 17, 24, false, &[1; 3])), Inspected::LaterFragment { id, offset: 24 });
    // R01's PFRAG.
    let mut bytes = v4(A, B, 17, 1480, false, &[0; 8]);
    bytes[4..6].copy_from_slice(&[0, 0x77]);
    assert_eq!(inspect(&bytes), Inspected::LaterFragment { id: FragmentId { id: 0x77, ..id }, offset: 1480 });

    let id = FragmentId {
        source: address_bits(A6.parse().unwrap()),
        destination: address_bits(B6.parse().unwrap()),
        protocol: Protocol(44),
        id: 77,
    };
    // What follows the fragment header counts, the transport's own length does not.
    let first = [fragment(60, 0, true), vec![17, 0, 1, 4, 0, 0, 0, 0], udp()].concat();
    let expected = Inspected::Flow {
        key: key(Protocol::UDP, (A6, 40_000), (B6, 53)),
        tcp: None,
        first_fragment: Some(FirstFragment { id, bytes: 16 }),
    };
    assert_eq!(inspect(&v6(A6, B6, 44, &first)), expected);
    for next in [17, 6, 60, 0] {
        let later = [fragment(next, 16, true), vec![0xff; 8]].concat();
        assert_eq!(inspect(&v6(A6, B6, 44, &later)), Inspected::LaterFragment { id, offset: 16 }, "{next}");
    }
    // A datagram in one fragment is whole.
    let atomic = [fragment(17, 0, false), udp()].concat();
    assert_eq!(inspect(&v6(A6, B6, 44, &atomic)), flow(key(Protocol::UDP, (A6, 40_000), (B6, 53))));
}

#[test]
fn what_policy_cannot_speak_about_is_named() {
    let options = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let chain = |headers: usize, last: &[u8]| {
        let mut bytes: Vec<u8> = (1..headers).flat_map(|_| options(60)).collect();
        bytes.extend(options(17));
        v6(A6, B6, 60, &[&bytes, last].concat())
    };
    let routed = |left| v6(A6, B6, 43, &[&[17, 0, 0, left, 0, 0, 0, 0][..], &udp()].concat());
    assert!(matches!(inspect(&chain(8, &udp())), Inspected::Flow { .. }));
    assert!(matches!(inspect(&routed(0)), Inspected::Flow { .. }));
    let good = v4(A, B, 17, 0, false, &udp());
    for (name, bytes, unfit) in [
        ("nothing", Vec::new(), Unfit::Malformed),
        ("version 5", [&[0x55][..], &good[1..]].concat(), Unfit::Malformed),
        ("half a header", good[..19].to_vec(), Unfit::Malformed),
        ("header of 16", [&[0x44][..], &good[1..]].concat(), Unfit::Malformed),
        ("header beyond the packet", [&[0x4f][..], &good[1..]].concat(), Unfit::Malformed),
        ("longer than it is", good[..27].to_vec(), Unfit::Malformed),
        ("IPv6 longer than it is", v6(A6, B6, 17, &udp())[..47].to_vec(), Unfit::Malformed),
        ("half of UDP", v4(A, B, 17, 0, false, &udp()[..7]), Unfit::NoTransport),
        ("19 bytes of TCP", v4(A, B, 6, 0, false, &tcp(2)[..19]), Unfit::NoTransport),
        ("11 bytes of SCTP", v4(A, B, 132, 0, false, &tcp(2)[..11]), Unfit::NoTransport),
        ("7 bytes of ICMP", v4(A, B, 1, 0, false, &[8; 7]), Unfit::NoTransport),
        ("TCP without flags", v4(A, B, 6, 0, true, &tcp(2)[..8]), Unfit::TinyFragment),
        ("IPv6 TCP without flags", v6(A6, B6, 44, &[fragment(6, 0, true), vec![0; 8]].concat()), Unfit::TinyFragment),
        ("UDP without length", v4(A, B, 17, 0, true, &udp()[..4]), Unfit::TinyFragment),
        (
            "options without end",
            v6(A6, B6, 44, &[fragment(60, 0, true), vec![17, 1, 0, 0, 0, 0, 0, 0]].concat()),
            Unfit::TinyFragment,
        ),
        ("nothing behind options", v6(A6, B6, 44, &[fragment(60, 0, true), options(17).to_vec()].concat()), Unfit::TinyFragment),
        ("over the flags", v4(A, B, 6, 8, false, &tcp(2)[8..]), Unfit::OverlappingFragment),
        ("IPv6 over the flags", v6(A6, B6, 44, &[fragment(6, 8, false), vec![0; 8]].concat()), Unfit::OverlappingFragment),
        ("ping of death", v4(A, B, 1, 65_528, false, &[0; 8]), Unfit::Malformed),
        ("nested fragments", v6(A6, B6, 44, &[fragment(44, 0, true), fragment(17, 0, true), udp()].concat()), Unfit::Malformed),
        ("options cut short", v6(A6, B6, 60, &[17, 1, 0, 0, 0, 0, 0, 0]), Unfit::Malformed),
        ("nine options", chain(9, &udp()), Unfit::TooManyExtensions),
        ("stops to come", routed(1), Unfit::SourceRouted),
        ("in IPv4's clothes", v6("::ffff:10.5.16.2", B6, 17, &udp()), Unfit::MappedAddress),
        ("to IPv4's clothes", v6(A6, "::ffff:10.5.16.2", 17, &udp()), Unfit::MappedAddress),
    ] {
        assert_eq!(inspect(&bytes), Inspected::Unfit(unfit), "{name}");
    }
    // From 16 bytes on TCP is not overlapped by this rule, and other transports never are.
    assert!(matches!(inspect(&v4(A, B, 6, 16, false, &[0; 8])), Inspected::LaterFragment { offset: 16, .. }));
    assert!(matches!(inspect(&v4(A, B, 17, 8, false, &[0; 8])), Inspected::LaterFragment { offset: 8, .. }));
}

#[test]
fn trailing_bytes_are_no_part_of_a_packet() {
    let bytes = [v4(A, B, 17, 0, false, &udp()[..7]), vec![0; 20]].concat();
    assert_eq!(inspect(&bytes), Inspected::Unfit(Unfit::NoTransport));
}

#[test]
fn groups_are_groups_of_either_family() {
    for (text, multicast) in [
        ("223.255.255.255", false),
        ("224.0.0.0", true),
        ("239.255.255.255", true),
        ("240.0.0.0", false),
        ("255.255.255.255", false),
        ("ff02::1", true),
        ("fe80::1", false),
        ("::e000:0", false),
    ] {
        assert_eq!(is_multicast(address_bits(text.parse::<std::net::IpAddr>().unwrap())), multicast, "{text}");
    }
}

#[test]
fn ipv4_options_that_name_stops_are_not_let_through() {
    let with = |options: &[u8]| {
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), 0);
        let mut packet = vec![0; 20];
        packet[0] = 0x45 + u8::try_from(options.len() / 4).unwrap();
        packet[3] = u8::try_from(20 + options.len() + 8).unwrap();
        (packet[8], packet[9]) = (64, 17);
        (packet[12], packet[16]) = (10, 10);
        packet.extend(options);
        packet.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        inspect(&packet)
    };
    let routed = Inspected::Unfit(Unfit::SourceRouted);
    for stops in
        [&[131, 7, 4, 1, 2, 3, 4][..], &[137, 7, 4, 1, 2, 3, 4], &[1, 1, 7, 3, 4, 131, 3, 4], &[7, 40, 4, 0], &[1, 1, 1, 7]]
    {
        assert_eq!(with(stops), routed, "{stops:?}");
    }
    for others in [&[1, 1, 1, 1][..], &[0, 131, 3, 4], &[7, 7, 4, 1, 2, 3, 4], &[148, 4, 0, 0]] {
        assert!(matches!(with(others), Inspected::Flow { .. }), "{others:?}");
    }
}
