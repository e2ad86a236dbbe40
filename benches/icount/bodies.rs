//! The bodies by name, and the function whose instructions are counted.

use std::hint::black_box;

use felt::net::Offload;

#[path = "../bodies/mod.rs"]
mod shared;

use shared::forward::Path;
use shared::overlay::{datagrams, singles, super_packet};
use shared::ports::Loop;
use shared::{coalesce, flow, lease_table, policy, wire};

/// How often a body is run and counted.
pub const RUNS: u64 = 16;

/// Lookups of one run.
const LOOKUPS: usize = 64;

type Body = Box<dyn FnMut()>;
type Named = (&'static str, fn() -> Body);

/// A body's name, and how it is set up.
pub const BODIES: &[Named] = &[
    ("checksum-20", || Box::new(wire::checksum(20))),
    ("checksum-1432", || Box::new(wire::checksum(1432))),
    ("checksum-65000", || Box::new(wire::checksum(65_000))),
    ("copy-and-sum-1432", || Box::new(wire::copy_and_sum(1432))),
    ("copy-and-sum-65000", || Box::new(wire::copy_and_sum(65_000))),
    ("segment-64k", || Box::new(wire::segment())),
    ("coalesce-45-of-tcp", || Box::new(coalesce::merge(coalesce::tcp(false, 45, 1448, 1), 1))),
    ("coalesce-45-sums-alone", || Box::new(coalesce::sums(coalesce::tcp(false, 45, 1448, 1)))),
    ("coalesce-64-of-udp", || Box::new(coalesce::merge(coalesce::udp(false, 64, 64), 1))),
    ("coalesce-64-flows", || Box::new(coalesce::merge(coalesce::tcp(false, 64, 64, 64), 64))),
    ("header-parse", || Box::new(wire::parse())),
    ("header-ttl", || Box::new(wire::ttl())),
    ("header-ecn", || Box::new(wire::ecn())),
    ("lookups-64-of-1000", || Box::new(lookups(1_000, 1))),
    ("lookups-64-of-100000", || Box::new(lookups(100_000, 1))),
    ("lookups-64-in-one-run", || Box::new(lookups(1_000, 64))),
    ("flow-64-hits", || Box::new(flow_hits(1000))),
    ("flow-64-packets-admitted", || Box::new(admitted())),
    ("verdict-1024-of-1000-policies", || Box::new(verdicts())),
    ("forward-64-of-64-bytes", || Box::new(forward(datagrams(64, 64), 64))),
    ("forward-64-of-1472-bytes", || Box::new(forward(datagrams(64, 1472), 64))),
    ("forward-64-one-in-four-dropped", || Box::new(forward(singles(), 64))),
    ("forward-64-super-packets", || Box::new(forward(vec![super_packet()], 128))),
];

/// Sets the body up, runs it once so that what happens only once has happened, and then [`RUNS`] times to be counted.
/// `false`, if there is none of that name.
pub fn run(name: &str) -> bool {
    let Some((_, set_up)) = BODIES.iter().find(|(known, _)| *known == name) else { return false };
    let mut body = set_up();
    body();
    counted(&mut body);
    true
}

/// callgrind counts from where this is entered to where it is left: see [`COUNTED`].
#[inline(never)]
fn counted(body: &mut Body) {
    for _ in 0..RUNS {
        black_box(&mut *body)();
    }
}

/// The name of the function above as callgrind sees it.
pub const COUNTED: &str = "icount::bodies::counted*";

/// One batch of these packets, out of one node and into another, where the underlay has room for so many trains.
fn forward(packets: Vec<(Vec<u8>, Offload)>, trains: usize) -> impl FnMut() {
    let mut path = Path::new(packets, Loop::new(trains));
    move || path.carry()
}

/// One batch of lookups, the same in each run, in a table nobody writes to.
fn lookups(leases: u32, run: usize) -> impl FnMut() {
    let (table, addresses) = (lease_table::table(leases), lease_table::addresses(leases, run));
    let mut reader = table.reader();
    move || lease_table::look_up(&mut reader, &addresses, LOOKUPS)
}

/// A batch of a worker's hits, in a table of so many flows.
fn flow_hits(flows: u32) -> impl FnMut() {
    let table: &'static felt::flow::FlowTable = Box::leak(Box::new(flow::table(flows)));
    flow::hits_of_a_worker(table, flows)
}

/// Packets of a known flow, inspected and admitted.
fn admitted() -> impl FnMut() {
    let mut body = flow::admitted();
    move || (0..flow::BATCH).for_each(|_| body())
}

/// The first packets of 1,024 flows, where each pod has policies of its own and its namespace has many.
fn verdicts() -> impl FnMut() {
    let policies = policy::cluster(&policy::objects(1_000, 1_000, policy::Shape::Heaped)).compile();
    let mut flows = policy::flows(1_000, Some(100));
    flows.truncate(1024);
    move || _ = black_box(policy::judge(&policies, &flows))
}
