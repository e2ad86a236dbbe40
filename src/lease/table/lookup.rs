//! The table as a worker sees it: one question per packet, asked within a batch.
//!
//! There is no cache of the last answer: the slot asked for last is in the processor's first-level cache already, and an extra
//! comparison costs more in random traffic (1 ns) than it gains in runs (0.15 ns).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::lease_table::LeaseTable;
use super::odd::OddPrefixes;
use super::slot::Slot;
use crate::net::Endpoint;
use crate::sync::Subscription;

/// One worker's access to the table. Never waits for anybody.
#[derive(Debug)]
pub struct TableReader {
    table: Arc<LeaseTable>,
    odd: Subscription<OddPrefixes>,
}

/// The questions of one batch. Slots are always as they are now, odd prefixes as they were when the batch began.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    base: u32,
    shift: u32,
    slots: &'a [Slot],
    odd: &'a OddPrefixes,
}

impl TableReader {
    pub(super) fn new(table: Arc<LeaseTable>, odd: Subscription<OddPrefixes>) -> Self {
        Self { table, odd }
    }

    /// Begins a batch.
    #[inline]
    pub fn batch(&mut self) -> Lookup<'_> {
        let LeaseTable { base, shift, ref slots, .. } = *self.table;
        Lookup { base, shift, slots, odd: self.odd.refresh() }
    }
}

impl Lookup<'_> {
    /// The node that leases `address`: the entry with the longest prefix that holds it.
    #[inline]
    pub fn peer_of(&self, address: Ipv4Addr) -> Option<Endpoint> {
        if !self.odd.longer.is_empty()
            && let Some(endpoint) = self.odd.longer.find(address)
        {
            return Some(endpoint);
        }
        // Below the base this wraps to a slice beyond the last slot.
        let slice = address.to_bits().wrapping_sub(self.base) >> self.shift;
        match self.slots.get(slice as usize).and_then(Slot::load) {
            Some(endpoint) => Some(SocketAddr::V4(endpoint)),
            None if self.odd.others.is_empty() => None,
            None => self.odd.others.find(address),
        }
    }
}
