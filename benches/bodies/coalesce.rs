//! Coalescing per train: packets as they come from the wire, put together for the TUN.

use std::hint::black_box;

use etherparse::{
    IpHeaders, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, PacketBuilder, PacketBuilderStep, TcpOptionElement,
};
use felt::buf::{Gather, Piece};
use felt::forward::merge::Merge;
use felt::net::Supers;
use felt::wire::checksum;

/// Packets of a train.
pub type Packets = Vec<Vec<u8>>;

/// Merges the train, which becomes `expected` packets.
pub fn merge(packets: Packets, expected: usize) -> impl FnMut() {
    let (mut merge, mut gather) = (Merge::default(), Gather::new(128, 128));
    move || {
        gather.clear();
        for (packet, slot) in packets.iter().zip(0..) {
            let piece = Piece { slot, start: 0, len: u32::try_from(packet.len()).unwrap_or_default() };
            merge.push(Supers::ALL, &mut gather, piece, black_box(packet));
        }
        merge.finish(&mut gather);
        assert_eq!(black_box(&gather).len(), expected);
    }
}

/// What cannot be saved of that: a checksum pass over each packet.
pub fn sums(packets: Packets) -> impl FnMut() {
    move || _ = black_box(packets.iter().fold(0, |sum, packet| sum ^ checksum::sum(black_box(packet))))
}

/// `count` packets of `payload` bytes, of `flows` flows in turn, as Linux sends them.
pub fn tcp(v6: bool, count: u16, payload: u16, flows: u16) -> Packets {
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(usize::from(payload)).collect();
    let options = [TcpOptionElement::Noop, TcpOptionElement::Noop, TcpOptionElement::Timestamp(1, 2)];
    let packet = |number| {
        let sequence = u32::from(number / flows) * u32::from(payload);
        let tcp = ip(v6, number / flows).tcp(4000 + number % flows, 5201, sequence, 512).ack(1).options(&options).unwrap();
        let mut packet = Vec::new();
        tcp.write(&mut packet, &bytes).unwrap();
        packet
    };
    (0..count).map(packet).collect()
}

/// `count` datagrams of `payload` bytes of one flow.
pub fn udp(v6: bool, count: u16, payload: usize) -> Packets {
    let packet = |number| {
        let mut packet = Vec::new();
        ip(v6, number).udp(4000, 5201).write(&mut packet, &vec![7; payload]).unwrap();
        packet
    };
    (0..count).map(packet).collect()
}

fn ip(v6: bool, number: u16) -> PacketBuilderStep<IpHeaders> {
    if v6 {
        let ip = Ipv6Header { hop_limit: 63, source: [1; 16], destination: [2; 16], ..Default::default() };
        return PacketBuilder::ip(IpHeaders::Ipv6(ip, Ipv6Extensions::default()));
    }
    let mut ip = Ipv4Header { time_to_live: 63, identification: number, dont_fragment: true, ..Default::default() };
    (ip.source, ip.destination) = ([10, 5, 20, 3], [10, 5, 16, 2]);
    PacketBuilder::ip(IpHeaders::Ipv4(ip, Ipv4Extensions::default()))
}
