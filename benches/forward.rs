//! The whole packet path per batch of 64, out of one node and into another: everything but the system calls.

#[path = "bodies/mod.rs"]
mod bodies;

use bodies::forward::Path;
use bodies::overlay::{datagrams, singles, super_packet};
use bodies::ports::Loop;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Packets in a batch.
const BATCH: u64 = 64;

fn forward(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("forward");
    group.throughput(Throughput::Elements(BATCH));
    for len in [64, 1472] {
        let mut path = Path::new(datagrams(64, len), Loop::new(64));
        group.bench_function(format!("datagrams/{len}"), |bencher| bencher.iter(|| path.carry()));
        assert!(path.totals().drops().all(|(_, count)| count == 0));
    }
    let mut path = Path::new(singles(), Loop::new(64));
    group.bench_function("one in four dropped", |bencher| bencher.iter(|| path.carry()));

    let packets = vec![super_packet()];
    group.throughput(Throughput::Bytes(BATCH * packets[0].0.len() as u64));
    let mut path = Path::new(packets, Loop::new(128));
    group.bench_function("TCP super-packets", |bencher| bencher.iter(|| path.carry()));
    assert!(path.totals().drops().all(|(_, count)| count == 0));
    group.finish();
}

criterion_group!(benches, forward);
criterion_main!(benches);
