//! Checksums and header changes, apart from everything else.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use felt::net::Ecn;
use felt::wire::checksum;
use felt::wire::ipv4::{Ipv4, Ipv4Mut};

fn checksums(criterion: &mut Criterion) {
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(65_536).collect();
    let mut group = criterion.benchmark_group("checksum");
    for len in [20, 64, 576, 1_472, 65_535] {
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(len.to_string(), |bencher| bencher.iter(|| checksum::sum(black_box(&bytes[..len]))));
    }
    group.finish();
}

fn header(criterion: &mut Criterion) {
    let mut bytes = [0u8; 28];
    bytes[..20].copy_from_slice(&[0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0x42, 0xc2, 10, 5, 16, 2, 10, 5, 20, 3]);
    let mut group = criterion.benchmark_group("header");
    group.bench_function("parse", |bencher| {
        bencher.iter(|| Ipv4::parse(black_box(&bytes)).map(|packet| (packet.destination(), packet.ttl(), packet.total_len())));
    });
    group.bench_function("ttl", |bencher| {
        let mut bytes = bytes;
        bencher.iter(|| {
            bytes[8] = 64;
            Ipv4Mut::new(black_box(&mut bytes)).is_some_and(|mut header| header.decrement_ttl())
        });
    });
    group.bench_function("ecn", |bencher| {
        let mut bytes = bytes;
        bencher.iter(|| {
            bytes[1] = 2;
            if let Some(mut header) = Ipv4Mut::new(black_box(&mut bytes)) {
                header.set_ecn(Ecn::Ce);
            }
        });
    });
    group.finish();
}

criterion_group!(benches, checksums, header);
criterion_main!(benches);
