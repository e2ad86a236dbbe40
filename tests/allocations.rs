//! The packet path allocates nothing, whatever becomes of a packet.
#![expect(unsafe_code, reason = "an allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use felt::buf::{Batch, Datagram, Refusal};
use felt::forward::{Counters, Forwarder, SourceCheck, Totals, Tunnel};
use felt::net::{Endpoint, Moment, Offload};

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

const SLOTS: usize = 64;
const ROOM: usize = 2048;

fn endpoint(node: u8) -> Endpoint {
    Endpoint::from(([192, 0, 2, node], 8285))
}

fn peers(address: Ipv4Addr) -> Option<Endpoint> {
    match address.octets() {
        [10, 5, node @ 1..=2, _] => Some(endpoint(node)),
        _ => None,
    }
}

fn node(number: u8) -> (Forwarder, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let mut forwarder = Forwarder::new(Arc::clone(&counters));
    forwarder.adopt(Some(&Tunnel {
        own: format!("10.5.{number}.0/24").parse().unwrap(),
        network: "10.5.0.0/16".parse().unwrap(),
        mtu: 1472,
        endpoint: endpoint(number),
        source_check: SourceCheck::Strict,
    }));
    (forwarder, counters)
}

/// Fills `batch` with packets of 1 kB of which every eighth has no route, every ninth no hop left and every tenth is junk.
fn refill(batch: &mut Batch<Offload>) {
    let mut at = 0usize;
    while let Some((packet, _)) = batch.vacant() {
        let room = packet.room();
        room[..1000].fill(0);
        room[..20].copy_from_slice(&[0x45, 2, 3, 0xe8, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 5, 1, 7, 10, 5, 2, 9]);
        if at.is_multiple_of(8) {
            room[18] = 99;
        } else if at.is_multiple_of(9) {
            room[8] = 1;
        } else if at.is_multiple_of(10) {
            room[0] = 0x60;
        }
        packet.set_len(1000);
        batch.commit(1);
        at += 1;
    }
}

#[test]
fn a_hundred_thousand_packets_allocate_nothing() {
    let ((mut here, near), (mut there, far)) = (node(1), node(2));
    let (mut inner, mut arrived, mut answers) = (Batch::new(SLOTS, ROOM), Batch::new(SLOTS, ROOM), Batch::new(SLOTS, ROOM));
    let mut outer = Batch::<Datagram>::new(SLOTS, ROOM);

    assert!(allocations() > 0, "the counter does not count");
    let before = allocations();
    let mut packets = 0;
    for turn in 0..1600 {
        let now = Moment::from_origin(Duration::from_millis(turn));
        refill(&mut inner);
        packets += inner.len() as u64;
        here.egress(now, &mut peers, &mut inner, &mut outer, &mut answers);
        for (at, (packet, note)) in outer.used_mut().iter_mut().enumerate() {
            // On the wire; one datagram in each batch comes from a stranger, one is refused as too big.
            note.peer = if at == 3 { endpoint(66) } else { endpoint(1) };
            if at == 5 {
                note.refuse(Refusal::TooBig);
            }
            packet.bytes_mut()[1] = 2;
        }
        if turn % 2 == 0 {
            here.sent(now, &mut outer, |_| Some(900), &mut answers);
        } else {
            there.ingress(&mut peers, &mut outer, &mut arrived);
        }
        here.answered(&mut answers, 0);
        there.written(&mut arrived, 0);
    }
    let allocated = allocations() - before;

    assert!(packets > 100_000);
    let (here, there) = (Totals::of([&*near]), Totals::of([&*far]));
    assert!(here.egress_packets > 30_000 && there.ingress_packets > 30_000 && here.icmp_sent > 1000, "{here:?} {there:?}");
    assert_eq!(allocated, 0);
}
