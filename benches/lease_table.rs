//! What a lookup and an update of the lease table cost, in tables of 10 to 100,000 leases, while a writer keeps changing them.
//!
//! One iteration is one lookup; the batch of 64, the walk through the addresses and the answer's consumption are included.
//! `random` asks for a random lease each time, `runs` 64 times in a row for one. The writer makes about 100,000 updates a
//! second, which is five orders of magnitude above what renewals of 100,000 leases make.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use felt::lease::LeaseTable;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

#[path = "bodies/lease_table.rs"]
mod bodies;

use bodies::{addresses, endpoint, look_up, subnet, table};

const LEASES: [u32; 3] = [10, 1_000, 100_000];

/// Runs `work` while another thread gives random leases new endpoints.
fn beside_a_writer(table: &LeaseTable, leases: u32, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = SmallRng::seed_from_u64(8);
            while !done.load(Relaxed) {
                for _ in 0..16 {
                    table.set(subnet(random.random_range(0..leases)), endpoint(random.random_range(0..leases)));
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        work();
        done.store(true, Relaxed);
    });
}

fn lookups(c: &mut Criterion) {
    let mut group = c.benchmark_group("lookup");
    for leases in LEASES {
        let table = table(leases);
        for (name, run) in [("random", 1), ("runs", 64)] {
            let addresses = addresses(leases, run);
            let mut reader = table.reader();
            beside_a_writer(&table, leases, || {
                group.bench_function(BenchmarkId::new(name, leases), |bencher| {
                    bencher.iter_custom(|lookups| {
                        let begin = Instant::now();
                        look_up(&mut reader, &addresses, usize::try_from(lookups).unwrap_or(usize::MAX));
                        begin.elapsed()
                    });
                });
            });
        }
    }
    group.finish();
}

fn updates(c: &mut Criterion) {
    let mut group = c.benchmark_group("update");
    for leases in LEASES {
        let table = table(leases);
        let mut random = SmallRng::seed_from_u64(9);
        let order: Vec<u32> = (0..4096).map(|_| random.random_range(0..leases)).collect();
        let mut order = order.iter().cycle();
        group.bench_function(BenchmarkId::new("set", leases), |bencher| {
            bencher.iter(|| order.next().map(|lease| table.set(subnet(*lease), endpoint(lease + 1))));
        });
    }
    group.finish();
}

criterion_group!(benches, lookups, updates);
criterion_main!(benches);
