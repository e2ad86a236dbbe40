//! What a packet costs in the flow table, in one of a single flow and in one of a million, and before it.
//!
//! `hit` is a lookup with the note that a packet came by; which flow is looked for depends on the answer before, so it is the
//! time until the answer. `hit in a batch` lets the processor work on several at a time. `insert` includes the flow's removal.

use criterion::{Criterion, criterion_group, criterion_main};

#[path = "bodies/flow.rs"]
mod bodies;

const MANY: u32 = 1_000_000;

fn table(criterion: &mut Criterion) {
    let (one, many) = (bodies::table(1), bodies::table(MANY));
    let mut group = criterion.benchmark_group("flow table");
    group.bench_function("hit, one flow", |bencher| bencher.iter(bodies::hit(&one, 1)));
    group.bench_function("hit, a million flows", |bencher| bencher.iter(bodies::hit(&many, MANY)));
    group.bench_function("hit in a batch, a million flows", |bencher| bencher.iter(bodies::hit_in_batch(&many, MANY)));
    group.bench_function("miss, a million flows", |bencher| bencher.iter(bodies::miss(&many, MANY)));
    group.bench_function("insert, a million flows", |bencher| bencher.iter(bodies::insert(&many, MANY)));
    group.finish();
}

fn packet(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("packet");
    group.bench_function("inspect", |bencher| bencher.iter(bodies::inspected()));
    group.bench_function("inspect and admit", |bencher| bencher.iter(bodies::admitted()));
    group.finish();
}

criterion_group!(benches, table, packet);
criterion_main!(benches);
