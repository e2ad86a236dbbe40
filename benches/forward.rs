//! The data plane per batch of 64, without ports: packets go round between two nodes through memory that never moves.

use std::net::Ipv4Addr;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use felt::buf::{Batch, Datagram};
use felt::forward::{Counters, Forwarder, SourceCheck, Tunnel};
use felt::net::{Endpoint, Moment, Offload};

const SLOTS: usize = 64;
const ROOM: usize = 2048;

fn endpoint(node: u8) -> Endpoint {
    Endpoint::from(([192, 0, 2, node], 8285))
}

fn node(number: u8) -> Forwarder {
    let own = format!("10.5.{number}.0/24").parse().unwrap();
    let tunnel = Tunnel {
        own,
        network: "10.5.0.0/16".parse().unwrap(),
        mtu: 1472,
        endpoint: endpoint(number),
        source_check: SourceCheck::Strict,
    };
    let mut forwarder = Forwarder::new(Arc::new(Counters::default()));
    forwarder.adopt(Some(&tunnel));
    forwarder
}

fn peers(address: Ipv4Addr) -> Option<Endpoint> {
    match address.octets() {
        [10, 5, node @ 1..=2, _] => Some(endpoint(node)),
        _ => None,
    }
}

fn batch(len: u16, destination: [u8; 4]) -> Batch<Offload> {
    let mut bytes = vec![0; usize::from(len)];
    bytes[..20].copy_from_slice(&[0x45, 2, 0, 0, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 5, 1, 7, 0, 0, 0, 0]);
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes[16..20].copy_from_slice(&destination);
    let mut batch = Batch::new(SLOTS, ROOM);
    while let Some((packet, _)) = batch.vacant() {
        packet.fill(&bytes);
        batch.commit(1);
    }
    batch
}

fn forward(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("forward");
    group.throughput(Throughput::Elements(SLOTS as u64));
    for len in [64, 1472] {
        group.bench_function(format!("there and back/{len}"), |bencher| {
            let (mut here, mut there) = (node(1), node(2));
            let (mut inner, mut arrived) = (batch(len, [10, 5, 2, 9]), Batch::new(SLOTS, ROOM));
            let (mut outer, mut answers) = (Batch::<Datagram>::new(SLOTS, ROOM), Batch::new(SLOTS, ROOM));
            bencher.iter(|| {
                here.egress(Moment::ZERO, &mut peers, &mut inner, &mut outer, &mut answers);
                for (_, note) in outer.used_mut() {
                    note.peer = endpoint(1);
                }
                there.ingress(&mut peers, &mut outer, &mut arrived);
                assert_eq!(arrived.len(), SLOTS);
                for (packet, ()) in arrived.used_mut() {
                    packet.bytes_mut()[8] = 64;
                    inner.swap_in(packet, Offload::default());
                }
                arrived.clear();
            });
        });
    }
    group.bench_function("no route, above the limit", |bencher| {
        let mut here = node(1);
        let mut inner = batch(64, [10, 5, 99, 9]);
        let (mut outer, mut answers) = (Batch::<Datagram>::new(SLOTS, ROOM), Batch::new(SLOTS, ROOM));
        bencher.iter(|| {
            inner.commit(SLOTS);
            here.egress(Moment::ZERO, &mut peers, &mut inner, &mut outer, &mut answers);
            answers.clear();
        });
    });
    group.finish();
}

criterion_group!(benches, forward);
criterion_main!(benches);
