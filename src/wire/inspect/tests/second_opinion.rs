//! Another library's reading of the same bytes.

use std::net::IpAddr;

use etherparse::{Icmpv4Type, Icmpv6Type, SlicedPacket, icmpv4, icmpv6};
use proptest::prelude::*;

use super::*;

/// What etherparse makes of it, if that is a whole TCP or UDP packet or an echo: its flow, and whether it is an answer.
fn second_opinion(bytes: &[u8]) -> Option<(FlowKey, bool)> {
    use etherparse::{NetSlice, TransportSlice};
    let sliced = SlicedPacket::from_ip(bytes).ok()?;
    let ends: [IpAddr; 2] = match sliced.net? {
        NetSlice::Ipv4(ip) => [ip.header().source_addr().into(), ip.header().destination_addr().into()],
        NetSlice::Ipv6(ip) => [ip.header().source_addr().into(), ip.header().destination_addr().into()],
        NetSlice::Arp(_) => return None,
    };
    let asking = |kind: u16, id: u16| [0x8000 | id >> 1, kind << 1 | id & 1];
    let answering = |kind, id| {
        let [asking, answering] = asking(kind, id);
        [answering, asking]
    };
    let (protocol, ports, answers) = match sliced.transport? {
        TransportSlice::Igmp(_) => return None,
        TransportSlice::Tcp(tcp) => (Protocol::TCP, [tcp.source_port(), tcp.destination_port()], false),
        TransportSlice::Udp(udp) => (Protocol::UDP, [udp.source_port(), udp.destination_port()], false),
        TransportSlice::Icmpv4(icmp) => match icmp.icmp_type() {
            Icmpv4Type::EchoRequest(echo) => (Protocol::ICMP, asking(8, echo.id), false),
            Icmpv4Type::EchoReply(echo) => (Protocol::ICMP, answering(8, echo.id), true),
            _ => return None,
        },
        TransportSlice::Icmpv6(icmp) => match icmp.icmp_type() {
            Icmpv6Type::EchoRequest(echo) => (Protocol::ICMPV6, asking(128, echo.id), false),
            Icmpv6Type::EchoReply(echo) => (Protocol::ICMPV6, answering(128, echo.id), true),
            _ => return None,
        },
    };
    Some((FlowKey::new(protocol, (ends[0], ports[0]), (ends[1], ports[1])), answers))
}

proptest! {
    /// Random transports behind random extension headers: whatever etherparse can read, we read alike.
    #[test]
    fn agrees_with_etherparse(
        v6_packet: bool,
        extensions in prop::collection::vec(prop::sample::select(&[0u8, 43, 51, 60][..]), 0..4),
        transport in prop::sample::select(&[6u8, 17, 1, 58][..]),
        bytes in prop::collection::vec(any::<u8>(), 20..60),
        first: u8,
    ) {
        let mut transport_bytes = bytes;
        match transport {
            6 => transport_bytes[12] = 0x50,
            17 => {
                let len = u16::try_from(transport_bytes.len()).unwrap();
                transport_bytes[4..6].copy_from_slice(&len.to_be_bytes());
            }
            _ => transport_bytes[0] = [icmpv4::TYPE_ECHO_REQUEST, icmpv6::TYPE_ECHO_REPLY, first][usize::from(first) % 3],
        }
        let packet = if v6_packet {
            // Hop-by-hop options come first or not at all.
            let kinds = extensions.iter().enumerate().filter(|(at, kind)| *at == 0 || **kind != 0).map(|(_, kind)| *kind);
            let kinds: Vec<u8> = kinds.chain([transport]).collect();
            let mut payload = Vec::new();
            for pair in kinds.windows(2) {
                payload.extend([pair[1], u8::from(pair[0] == 51) * 2, 0, 0]);
                payload.extend(vec![0; if pair[0] == 51 { 12 } else { 4 }]);
            }
            v6(A6, B6, kinds[0], &[payload, transport_bytes].concat())
        } else {
            v4(A, B, transport, 0, false, &transport_bytes)
        };
        match (second_opinion(&packet), inspect(&packet)) {
            (Some(theirs), Inspected::Flow { key, first_fragment: None, .. }) => prop_assert_eq!((key, false), theirs),
            (Some(theirs), Inspected::Answer { key, first_fragment: None }) => prop_assert_eq!((key, true), theirs),
            (Some(theirs), ours) => prop_assert!(false, "{ours:?} {theirs:?}"),
            (None, ours) => prop_assert!(
                !matches!(ours, Inspected::Flow { key, .. } if key.protocol.has_ports()) && !matches!(ours, Inspected::Unfit(_)),
                "{ours:?}"
            ),
        }
    }

    #[test]
    fn any_bytes_are_inspected(bytes in prop::collection::vec(any::<u8>(), 0..120), version in 0u8..2) {
        let mut bytes = bytes;
        if let [first, _, high, ..] = bytes.as_mut_slice() {
            (*first, *high) = (0x45 + 0x20 * version, 0);
        }
        let found = inspect(&bytes);
        prop_assert!(bytes.len() >= 20 || found == Inspected::Unfit(Unfit::Malformed));
    }
}
