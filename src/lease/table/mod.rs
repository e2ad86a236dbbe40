//! The lease table: which node holds an address, asked once per packet by every worker while control keeps changing it.
//!
//! Leases are equal slices of one network, so the slice of an address is an array index and its node one atomic word: an
//! update is one store, a lookup one load, and nobody waits. Prefixes that are no such slice (other lengths, outside the
//! network, an IPv6 underlay) are few; they live in a small longest-prefix-match snapshot beside the array.

mod lease_table;
mod lookup;
mod odd;
mod slot;

pub use lease_table::{LeaseTable, MAX_SLOT_BITS};
pub use lookup::{Lookup, TableReader};
