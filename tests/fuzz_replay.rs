//! The fuzz targets without a fuzzer: every file of the corpus, and a bounded number of random mutations of each. `tests/fuzz` has the same targets for coverage-guided runs.

use std::fs;
use std::path::Path;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

#[path = "fuzz/targets.rs"]
mod targets;

/// Mutations tried of each corpus file.
const MUTATIONS: usize = 2_000;

fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "the corpus of {name} is gone");
    let mut random = SmallRng::seed_from_u64(rand::random());
    let corpus: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    for bytes in &corpus {
        check(name, target, bytes);
        for _ in 0..MUTATIONS {
            check(name, target, &mutated(bytes, &corpus, &mut random));
        }
    }
}

/// Runs the target; a panic names the bytes, which then belong into the corpus.
fn check(name: &str, target: fn(&[u8]), bytes: &[u8]) {
    if let Err(panic) = std::panic::catch_unwind(|| target(bytes)) {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        panic!("{name} fails on {} ({bytes:02x?}): {text}", bytes.escape_ascii());
    }
}

/// A few changes at random places: bits, bytes, numbers, cuts, and pieces of other files.
fn mutated(bytes: &[u8], corpus: &[Vec<u8>], random: &mut SmallRng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..=4) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'0', b'"', b'-'][random.random_range(0..8)],
            2 if at < bytes.len() => _ = bytes.remove(at),
            3 => bytes.insert(at, random.random()),
            4 => bytes.truncate(at),
            5 => bytes.extend(vec![random.random::<u8>(); random.random_range(1..40)]),
            _ => {
                let other = &corpus[random.random_range(0..corpus.len())];
                let from = random.random_range(0..=other.len());
                let to = random.random_range(from..=other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    bytes
}

#[test]
fn config() {
    replay("config", targets::config);
}

#[test]
fn subnet_key() {
    replay("subnet_key", targets::subnet_key);
}

#[test]
fn lease_value() {
    replay("lease_value", targets::lease_value);
}

#[test]
fn datagram() {
    replay("datagram", targets::datagram);
}

#[test]
fn tun_packet() {
    replay("tun_packet", targets::tun_packet);
}

#[test]
fn segments() {
    replay("segments", targets::segments);
}

#[test]
fn coalesce() {
    replay("coalesce", targets::coalesce);
}

#[test]
fn inspect() {
    replay("inspect", targets::inspect);
}

#[test]
fn manifest() {
    replay("manifest", targets::manifest);
}

#[test]
fn policy_engine() {
    replay("policy_engine", targets::policy_engine);
}
