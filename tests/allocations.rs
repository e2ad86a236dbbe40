//! The packet path allocates nothing, whatever becomes of a packet.
#![expect(unsafe_code, reason = "an allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

#[path = "../benches/bodies/mod.rs"]
mod bodies;

use bodies::forward::Path;
use bodies::overlay::{singles, super_packet};
use bodies::ports::Loop;
use felt::buf::{Gather, Piece};
use felt::flow::{Admission, FlowTable, Inserted, OnChange, Passed, Seed, Tracker};
use felt::forward::merge::Merge;
use felt::net::{Moment, Supers};
use felt::wire::inspect::{Inspected, inspect};

struct Counting;

thread_local! {
    // Per thread, so that what the test harness does meanwhile does not count.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory came from `System` by the calls here.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

#[test]
fn half_a_million_packets_allocate_nothing() {
    let mut packets = singles();
    for at in 0..20 {
        packets.insert(at * 30, super_packet());
    }
    let mut path = Path::new(packets, Loop::new(64).with_faults());

    assert!(allocations() > 0, "the counter does not count");
    let before = allocations();
    for _ in 0..5_000 {
        path.carry();
    }
    let allocated = allocations() - before;

    let totals = path.totals();
    assert!(totals.egress_packets > 500_000 && totals.ingress_packets > 400_000 && totals.icmp_sent > 1000, "{totals:?}");
    assert!(totals.egress_trains > 1000 && totals.ingress_supers > 1000, "{totals:?}");
    assert_eq!(allocated, 0);
}

const SLOTS: usize = 64;

#[test]
fn merging_allocates_nothing() {
    let mut packets = Vec::new();
    for (number, flow) in (0..SLOTS).zip([1, 2, 3, 1, 1].into_iter().cycle()) {
        let builder = etherparse::PacketBuilder::ipv4([10, 5, 1, 7], [10, 5, 2, flow], 64).udp(1000, 2000);
        let mut packet = Vec::new();
        // Every seventh is longer than the one before, every ninth is no UDP.
        builder.write(&mut packet, &[7; 100][..if number % 7 == 6 { 100 } else { 90 }]).unwrap();
        (packet[6], packet[9]) = (0x40, if number % 9 == 8 { 1 } else { 17 });
        packets.push(packet);
    }
    let (mut merge, mut gather) = (Merge::default(), Gather::new(SLOTS / 2, SLOTS / 2));

    let before = allocations();
    let (mut made, mut full) = (0, 0);
    for _ in 0..1000 {
        for (packet, slot) in packets.iter().zip(0..) {
            let piece = Piece { slot, start: 0, len: u32::try_from(packet.len()).unwrap() };
            if !merge.push(Supers::ALL, &mut gather, piece, packet) {
                full += 1;
                merge.finish(&mut gather);
                made += gather.len();
                gather.clear();
                assert!(merge.push(Supers::ALL, &mut gather, piece, packet));
            }
        }
        merge.finish(&mut gather);
        made += gather.len();
        gather.clear();
    }
    let allocated = allocations() - before;

    assert!(full >= 1000 && made > 10_000 && made < 1000 * SLOTS, "{full} {made}");
    assert_eq!(allocated, 0);
}

#[test]
fn inspecting_and_tracking_flows_allocates_nothing() {
    let packet = |build: fn(etherparse::PacketBuilderStep<etherparse::IpHeaders>, &mut Vec<u8>)| {
        let mut packet = Vec::new();
        build(etherparse::PacketBuilder::ipv4([10, 5, 1, 7], [10, 5, 2, 1], 64), &mut packet);
        packet
    };
    let mut packets = vec![
        packet(|ip, to| ip.tcp(1000, 80, 1, 1).syn().write(to, &[]).unwrap()),
        packet(|ip, to| ip.tcp(1000, 80, 1, 1).ack(1).write(to, &[7; 40]).unwrap()),
        packet(|ip, to| ip.tcp(1001, 80, 1, 1).ack(1).write(to, &[7; 40]).unwrap()),
        packet(|ip, to| ip.udp(1000, 53).write(to, &[7; 40]).unwrap()),
        packet(|ip, to| ip.udp(1001, 53).write(to, &[7; 40]).unwrap()),
        packet(|ip, to| ip.icmpv4_echo_request(7, 1).write(to, &[7; 40]).unwrap()),
        Vec::new(),
    ];
    // A first fragment, a later one, and an error about it.
    let mut first = packets[3].clone();
    first[6] = 0x20;
    let mut later = packets[3].clone();
    later[7] = 185;
    let mut error = packet(|ip, to| ip.icmpv4_raw(11, 0, [0; 4]).write(to, &[0; 28]).unwrap());
    error[28..56].copy_from_slice(&packets[3][..28]);
    error[40..44].copy_from_slice(&[10, 5, 2, 1]);
    packets.extend([first, later, error]);
    let mut tracker = Tracker::new(Arc::new(FlowTable::new(1000, Seed::new([1, 2])).unwrap()), OnChange::Strict);

    let before = allocations();
    let (mut new, mut refused, mut others) = (0, 0, 0);
    for round in 0..10_000 {
        let now = Moment::from_origin(Duration::from_millis(round));
        for packet in &packets {
            let mut found = inspect(packet);
            if let Inspected::Flow { key, .. } = &mut found {
                key.source ^= u128::from(round & 0xfff);
            }
            // Policy changes once in a hundred rounds, and refuses odd ports.
            let judge = |key: &felt::net::FlowKey| key.source_port.is_multiple_of(2).then_some(()).ok_or(());
            match tracker.admit(now, &found, round / 100, judge) {
                Admission::Passed(Passed::New(Inserted::New | Inserted::Displaced)) => new += 1,
                Admission::Refused { .. } => refused += 1,
                _ => others += 1,
            }
        }
    }
    let allocated = allocations() - before;

    assert!(new > 10_000 && refused > 10_000 && others > 10_000, "{new} {refused} {others}");
    assert_eq!(allocated, 0);
}

#[test]
fn judging_allocates_nothing() {
    use bodies::policy::{Shape, cluster, flows, judge, objects};
    for shape in [Shape::Spread, Shape::Heaped, Shape::Ordered] {
        let policies = cluster(&objects(400, 200, shape)).compile();
        let flows = flows(400, None);
        let before = allocations();
        let refused = judge(&policies, &flows);
        assert_eq!(allocations() - before, 0, "{shape:?}");
        assert!(refused > 0 && refused < flows.len(), "{refused} of {}", flows.len());
    }
}
