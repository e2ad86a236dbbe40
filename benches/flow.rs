//! What a packet costs in the flow table, in one of a single flow and in one of a million, and before it.
//!
//! `hit` is a lookup with the note that a packet came by. *Dependent*: which flow is looked for depends on the answer before, so
//! it is the time until the answer, beside which stands that of a load from as much memory. *Independent*: the processor may work
//! on several at a time, as on those of a batch. *Of a worker*: a batch of 64 as the gate has it, each fetched before the first is
//! looked at; the throughput is that of one packet. `insert` includes the flow's removal.

#![expect(clippy::print_stderr, reason = "how much memory is in huge pages belongs to the figures")]

use std::fs;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

#[path = "bodies/flow.rs"]
mod bodies;

const MANY: u32 = 1_000_000;

fn table(criterion: &mut Criterion) {
    let (one, many) = (bodies::table(1), bodies::table(MANY));
    eprintln!("{} KiB of table, {} KiB of this process in huge pages", many.memory().len() / 128, huge_pages_kib());
    let mut group = criterion.benchmark_group("flow table");
    for (name, table, flows) in [("one flow", &one, 1), ("a million flows", &many, MANY)] {
        group.bench_function(format!("hit, dependent, {name}"), |bencher| bencher.iter(bodies::hit(table, flows)));
        group.bench_function(format!("hit, independent, {name}"), |bencher| bencher.iter(bodies::hit_in_batch(table, flows)));
        group.throughput(Throughput::Elements(bodies::BATCH as u64));
        let body = format!("64 hits of a worker, {name}");
        group.bench_function(body, |bencher| bencher.iter(bodies::hits_of_a_worker(table, flows)));
        group.throughput(Throughput::Elements(1));
    }
    let ring = bodies::ring(&many);
    group.bench_function("a load, dependent, as much memory", |bencher| bencher.iter(bodies::chase(&ring)));
    drop(ring);
    group.bench_function("miss, a million flows", |bencher| bencher.iter(bodies::miss(&many, MANY)));
    group.bench_function("insert, a million flows", |bencher| bencher.iter(bodies::insert(&many, MANY)));
    group.finish();
}

/// Memory of this process that is in huge pages: without them the figures are others.
fn huge_pages_kib() -> u64 {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let sizes = smaps.lines().filter_map(|line| line.strip_prefix("AnonHugePages:")?.trim().strip_suffix(" kB"));
    sizes.filter_map(|size| size.parse::<u64>().ok()).sum()
}

fn packet(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("packet");
    group.bench_function("inspect", |bencher| bencher.iter(bodies::inspected()));
    group.bench_function("inspect and admit", |bencher| bencher.iter(bodies::admitted()));
    group.finish();
}

criterion_group!(benches, table, packet);
criterion_main!(benches);
