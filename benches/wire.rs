//! Checksums, header changes and segments, apart from everything else.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

#[path = "bodies/wire.rs"]
mod bodies;

fn checksums(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checksum");
    for len in [20, 64, 576, 1_432, 65_000] {
        group.throughput(Throughput::BytesDecimal(len as u64));
        group.bench_function(len.to_string(), |bencher| bencher.iter(bodies::checksum(len)));
    }
    group.finish();
    let mut group = criterion.benchmark_group("copy and sum");
    for len in [64, 1_432, 65_000] {
        group.throughput(Throughput::BytesDecimal(len as u64));
        group.bench_function(len.to_string(), |bencher| bencher.iter(bodies::copy_and_sum(len)));
    }
    group.finish();
}

fn segments(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("segment");
    group.throughput(Throughput::BytesDecimal(bodies::SUPER_PACKET as u64));
    group.bench_function("64 KiB of TCP", |bencher| bencher.iter(bodies::segment()));
    group.finish();
}

fn header(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("header");
    group.bench_function("parse", |bencher| bencher.iter(bodies::parse()));
    group.bench_function("ttl", |bencher| bencher.iter(bodies::ttl()));
    group.bench_function("ecn", |bencher| bencher.iter(bodies::ecn()));
    group.finish();
}

criterion_group!(benches, checksums, segments, header);
criterion_main!(benches);
