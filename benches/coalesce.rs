//! Coalescing per train: what the whole decision costs beside a checksum pass over the same bytes.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

#[path = "bodies/coalesce.rs"]
mod bodies;

use bodies::{tcp, udp};

fn coalesce(criterion: &mut Criterion) {
    let trains = [
        ("45 of TCP, 64 KiB", tcp(false, 45, 1448, 1), 1),
        ("45 of TCP over IPv6, 64 KiB", tcp(true, 45, 1428, 1), 1),
        ("45 of TCP, 4 flows in turn", tcp(false, 45, 1448, 4), 4),
        ("64 of TCP, 32 flows in turn", tcp(false, 64, 1448, 32), 64),
        ("64 of TCP, 64 flows, small", tcp(false, 64, 64, 64), 64),
        ("64 of UDP, 64 bytes", udp(false, 64, 64), 1),
        ("64 of UDP over IPv6, 64 bytes", udp(true, 64, 64), 1),
    ];
    let mut group = criterion.benchmark_group("coalesce");
    for (name, packets, expected) in trains {
        group.throughput(Throughput::Elements(packets.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(bodies::merge(packets.clone(), expected)));
        group.bench_function(format!("{name}: checksums alone"), |bencher| bencher.iter(bodies::sums(packets.clone())));
    }
    group.finish();
}

criterion_group!(benches, coalesce);
criterion_main!(benches);
