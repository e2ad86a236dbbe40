//! The packet path allocates nothing, whatever becomes of a packet.
#![expect(unsafe_code, reason = "an allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[path = "../benches/bodies/mod.rs"]
mod bodies;

use bodies::forward::Path;
use bodies::overlay::{singles, super_packet};
use bodies::ports::Loop;

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
    assert!(totals.egress_packets > 500_000 && totals.ingress_packets > 500_000 && totals.icmp_sent > 1000, "{totals:?}");
    assert!(totals.egress_trains > 1000 && totals.ingress_supers > 1000, "{totals:?}");
    assert_eq!(allocated, 0);
}
