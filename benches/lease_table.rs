//! What a lookup and an update of the lease table cost, in tables of 10 to 100,000 leases, while a writer keeps changing them.
//!
//! One iteration is one lookup; the batch of 64, the walk through the addresses and the answer's consumption are included.
//! `random` asks for a random lease each time, `runs` 64 times in a row for one. The writer makes about 100,000 updates a
//! second, which is five orders of magnitude above what renewals of 100,000 leases make.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use felt::lease::{LeaseTable, TableReader};
use felt::net::{Endpoint, Prefix, Prefix4};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const BATCH: usize = 64;
const ADDRESSES: usize = 1 << 17;
const LEASES: [u32; 3] = [10, 1_000, 100_000];

/// 10.0.0.0/7 has 131,072 subnets of /24.
fn table(leases: u32) -> Arc<LeaseTable> {
    let table = LeaseTable::new("10.0.0.0/7".parse().expect("a prefix"), 24);
    (0..leases).for_each(|lease| _ = table.set(subnet(lease), endpoint(lease)));
    Arc::new(table)
}

fn subnet(lease: u32) -> Prefix4 {
    Prefix::new(Ipv4Addr::from_bits(0x0a00_0000 + (lease << 8)), 24).expect("a prefix")
}

fn endpoint(lease: u32) -> Endpoint {
    SocketAddr::from((Ipv4Addr::from_bits(0xc0a8_0000 + lease), 8285))
}

fn addresses(leases: u32, run: usize) -> Vec<Ipv4Addr> {
    let mut random = SmallRng::seed_from_u64(7);
    let mut lease = 0;
    let address = |at: usize| {
        if at.is_multiple_of(run) {
            lease = random.random_range(0..leases);
        }
        Ipv4Addr::from_bits(0x0a00_0000 + (lease << 8) + random.random_range(1..255))
    };
    (0..ADDRESSES).map(address).collect()
}

fn look_up(reader: &mut TableReader, addresses: &[Ipv4Addr], lookups: u64) -> Duration {
    let mut left = usize::try_from(lookups).unwrap_or(usize::MAX);
    let begin = Instant::now();
    for batch in addresses.chunks(BATCH).cycle() {
        let lookup = reader.batch();
        for address in batch.iter().take(left) {
            black_box(lookup.peer_of(*address));
        }
        left = left.saturating_sub(batch.len());
        if left == 0 {
            break;
        }
    }
    begin.elapsed()
}

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
                    bencher.iter_custom(|lookups| look_up(&mut reader, &addresses, lookups));
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
