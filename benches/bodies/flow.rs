//! A flow table of any size, packets of its flows, and what is done with them.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use felt::flow::{Admission, FlowTable, OnChange, Opening, Passed, Seed, Tracker};
use felt::net::{FlowKey, Moment, Protocol, v4_bits};
use felt::wire::inspect::{TcpFlags, inspect};

/// The policy version of all flows.
const VERSION: u64 = 0;
const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;

/// When everything happens: the flows were seen a moment ago.
const NOW: Moment = Moment::from_origin(Duration::from_secs(1000));

/// Flow number `n`: 256 clients, each with many connections to one server.
pub fn key(n: u32) -> FlowKey {
    let (host, port) = (n & 0xff, n >> 8);
    FlowKey {
        source: v4_bits(std::net::Ipv4Addr::from_bits(0x0a05_1000 | host)),
        destination: v4_bits([10, 5, 20, 3].into()),
        source_port: (port & 0xffff) as u16,
        destination_port: 80 + (port >> 16) as u16,
        protocol: Protocol::TCP,
    }
}

/// A table made for `flows` flows that holds them, established.
pub fn table(flows: u32) -> FlowTable {
    let table = FlowTable::new(flows as usize, Seed::new([0x1234, 0x5678])).unwrap();
    // As the daemon does.
    let _ = felt::sys::memory::prefer_huge_pages(table.memory());
    for key in (0..flows).map(key) {
        table.insert(&key, NOW, VERSION, Opening::Opened, Some(SYN));
        for (key, flags) in [(key.reversed(), SYN.and(ACK)), (key, ACK)] {
            let hit = table.find(&key, NOW).unwrap();
            table.touch(&hit, NOW, Some(flags));
        }
    }
    table
}

/// Numbers below `flows` as if at random. `salt` goes into the next one, so that it cannot be known before.
fn next(state: &mut u64, salt: u64, flows: u32) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) ^ salt;
    u32::try_from(((*state >> 32) * u64::from(flows)) >> 32).unwrap_or(0)
}

/// Finds and touches a flow of the table: which one, depends on the answer before, so that nothing of one lookup can be done
/// ahead of time.
pub fn hit(table: &FlowTable, flows: u32) -> impl FnMut() {
    let mut state = 1;
    let mut version = VERSION;
    move || {
        let key = key(next(&mut state, version, flows));
        let hit = table.find(&key, NOW).unwrap();
        version = hit.version();
        black_box(table.touch(&hit, NOW, Some(ACK)));
    }
}

/// The same, where lookups do not depend on each other, as those of the packets of a batch.
pub fn hit_in_batch(table: &FlowTable, flows: u32) -> impl FnMut() {
    let mut state = 1;
    move || {
        let hit = table.find(&key(next(&mut state, VERSION, flows)), NOW).unwrap();
        black_box(table.touch(&hit, NOW, Some(ACK)));
    }
}

/// Flows that a worker's batch is of, at most.
pub const BATCH: usize = 64;

/// A batch as a worker has it: what the table holds of its flows is fetched first, and then they are found and touched.
pub fn hits_of_a_worker(table: &FlowTable, flows: u32) -> impl FnMut() {
    let mut state = 1;
    move || {
        let keys: [FlowKey; BATCH] = std::array::from_fn(|_| key(next(&mut state, VERSION, flows)));
        table.approach(&keys.each_ref().map(|key| table.spot(key)));
        for key in &keys {
            let hit = table.find(key, NOW).unwrap();
            black_box(table.touch(&hit, NOW, Some(ACK)));
        }
    }
}

/// Cache lines in as much memory as `table` has, each with the number of the next, all in one ring, as if at random.
pub fn ring(table: &FlowTable) -> Vec<AtomicU64> {
    let lines = table.slots();
    let mut order: Vec<usize> = (0..lines).collect();
    let mut state = 1;
    // Sattolo's shuffle: a single ring.
    for at in (1..lines).rev() {
        order.swap(at, next(&mut state, 0, u32::try_from(at).unwrap()) as usize);
    }
    let memory: Vec<AtomicU64> = (0..lines * 8).map(|_| AtomicU64::new(0)).collect();
    let _ = felt::sys::memory::prefer_huge_pages(&memory);
    for (at, to) in order.into_iter().enumerate() {
        memory[at * 8].store(to as u64 * 8, Relaxed);
    }
    memory
}

/// Loads one line of a ring: which one, the load before has said. What memory itself costs.
pub fn chase(ring: &[AtomicU64]) -> impl FnMut() {
    let mut at = 0;
    move || at = usize::try_from(black_box(&ring[at]).load(Relaxed)).unwrap()
}

/// Looks for a flow that is not in a table of `flows`.
pub fn miss(table: &FlowTable, flows: u32) -> impl FnMut() {
    let mut state = 1;
    move || assert!(table.find(&key(flows + next(&mut state, VERSION, flows)), NOW).is_none())
}

/// Inserts a flow and removes it again.
pub fn insert(table: &FlowTable, flows: u32) -> impl FnMut() {
    let mut state = 1;
    move || {
        let key = key(flows + next(&mut state, VERSION, flows));
        black_box(table.insert(&key, NOW, VERSION, Opening::Opened, Some(SYN)));
        let hit = table.find(&key, NOW).unwrap();
        table.remove(&hit);
    }
}

/// A TCP segment of flow 0.
pub fn segment() -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = etherparse::PacketBuilder::ipv4([10, 5, 16, 0], [10, 5, 20, 3], 64).tcp(0, 80, 1, 1000).ack(1);
    builder.write(&mut packet, &[7; 32]).unwrap();
    packet
}

/// A segment, inspected.
pub fn inspected() -> impl FnMut() {
    let packet = segment();
    move || _ = black_box(inspect(black_box(&packet)))
}

/// A segment of a known flow, inspected and admitted.
pub fn admitted() -> impl FnMut() {
    let packet = segment();
    let mut tracker = Tracker::new(Arc::new(table(1000)), OnChange::Strict);
    move || {
        let admission = tracker.admit(NOW, &inspect(black_box(&packet)), VERSION, |_| Err("asked"));
        assert_eq!(admission, Admission::Passed(Passed::Known));
    }
}
