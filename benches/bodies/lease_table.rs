//! Tables of leases and addresses to look up in them.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use felt::lease::{LeaseTable, TableReader};
use felt::net::{Endpoint, Prefix, Prefix4};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const BATCH: usize = 64;
const ADDRESSES: usize = 1 << 17;

/// A table of that many leases. 10.0.0.0/7 has 131,072 subnets of /24.
pub fn table(leases: u32) -> Arc<LeaseTable> {
    let table = LeaseTable::new("10.0.0.0/7".parse().expect("a prefix"), 24);
    (0..leases).for_each(|lease| _ = table.set(subnet(lease), endpoint(lease)));
    Arc::new(table)
}

/// The subnet of lease number `lease`.
pub fn subnet(lease: u32) -> Prefix4 {
    Prefix::new(Ipv4Addr::from_bits(0x0a00_0000 + (lease << 8)), 24).expect("a prefix")
}

/// The node of lease number `lease`, at first.
pub fn endpoint(lease: u32) -> Endpoint {
    SocketAddr::from((Ipv4Addr::from_bits(0xc0a8_0000 + lease), 8285))
}

/// Addresses in leases drawn at random, `run` times in a row from the same.
pub fn addresses(leases: u32, run: usize) -> Vec<Ipv4Addr> {
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

/// Looks `lookups` addresses up, in batches, beginning again where there are no more.
pub fn look_up(reader: &mut TableReader, addresses: &[Ipv4Addr], lookups: usize) {
    let mut left = lookups;
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
}
