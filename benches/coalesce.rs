//! Coalescing per train: what the whole decision costs beside a checksum pass over the same bytes.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use etherparse::{
    IpHeaders, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, PacketBuilder, PacketBuilderStep, TcpOptionElement,
};
use felt::buf::{Gather, Piece};
use felt::forward::merge::Merge;
use felt::net::Supers;
use felt::wire::checksum;

type Packets = Vec<Vec<u8>>;

fn ip(v6: bool, number: u16) -> PacketBuilderStep<IpHeaders> {
    if v6 {
        let ip = Ipv6Header { hop_limit: 63, source: [1; 16], destination: [2; 16], ..Default::default() };
        return PacketBuilder::ip(IpHeaders::Ipv6(ip, Ipv6Extensions::default()));
    }
    let mut ip = Ipv4Header { time_to_live: 63, identification: number, dont_fragment: true, ..Default::default() };
    (ip.source, ip.destination) = ([10, 5, 20, 3], [10, 5, 16, 2]);
    PacketBuilder::ip(IpHeaders::Ipv4(ip, Ipv4Extensions::default()))
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

fn udp(v6: bool, count: u16, payload: usize) -> Packets {
    let packet = |number| {
        let mut packet = Vec::new();
        ip(v6, number).udp(4000, 5201).write(&mut packet, &vec![7; payload]).unwrap();
        packet
    };
    (0..count).map(packet).collect()
}

fn coalesce(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("coalesce");
    let trains = [
        ("45 of TCP, 64 KiB", tcp(false, 45, 1448, 1), 1),
        ("45 of TCP over IPv6, 64 KiB", tcp(true, 45, 1428, 1), 1),
        ("45 of TCP, 4 flows in turn", tcp(false, 45, 1448, 4), 4),
        ("64 of TCP, 32 flows in turn", tcp(false, 64, 1448, 32), 64),
        ("64 of TCP, 64 flows, small", tcp(false, 64, 64, 64), 64),
        ("64 of UDP, 64 bytes", udp(false, 64, 64), 1),
        ("64 of UDP over IPv6, 64 bytes", udp(true, 64, 64), 1),
    ];
    for (name, packets, expected) in trains {
        let (mut merge, mut gather) = (Merge::default(), Gather::new(128, 128));
        group.throughput(Throughput::Elements(packets.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                gather.clear();
                for (packet, slot) in packets.iter().zip(0..) {
                    let piece = Piece { slot, start: 0, len: u32::try_from(packet.len()).unwrap_or_default() };
                    merge.push(Supers::ALL, &mut gather, piece, black_box(packet));
                }
                merge.finish(&mut gather);
            });
            assert_eq!(gather.len(), expected, "{name}");
        });
        group.bench_function(format!("{name}: checksums alone"), |bencher| {
            bencher.iter(|| packets.iter().fold(0, |sum, packet| sum ^ checksum::sum(black_box(packet))));
        });
    }
    group.finish();
}

criterion_group!(benches, coalesce);
criterion_main!(benches);
