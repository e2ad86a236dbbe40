//! The table as control sees it: set, remove, list. Workers read it through a [`TableReader`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lookup::TableReader;
use super::odd::OddPrefixes;
use super::slot::Slot;
use crate::net::{Endpoint, Prefix4};
use crate::sync::Publisher;

/// Largest array of slots, as a power of two: 4,194,304 slots of 8 bytes, which is a /8 cut into /30.
///
/// A network of more slices (none that is known of) is served whole by longest-prefix match: right, but with a lookup in
/// logarithmic and a change in linear time of the number of leases.
pub const MAX_SLOT_BITS: u8 = 22;

/// Who holds which address of the overlay, for any number of readers, changed one lease at a time.
///
/// A change of an ordinary lease is one atomic store, seen at once. A change of an odd prefix reaches a reader with its next
/// batch. Writers take a lock among themselves; readers never touch it.
#[derive(Debug)]
pub struct LeaseTable {
    pub(super) base: u32,
    /// How far an offset into the network is shifted to become the index of its slot: 0 to 31.
    pub(super) shift: u32,
    pub(super) slots: Box<[Slot]>,
    network: Prefix4,
    subnet_len: u8,
    published: Publisher<OddPrefixes>,
    writer: Mutex<BTreeMap<Prefix4, Endpoint>>,
}

impl LeaseTable {
    /// An empty table of `network` cut into subnets of `subnet_len` bits.
    #[must_use]
    pub fn new(network: Prefix4, subnet_len: u8) -> Self {
        let slot_bits = subnet_len.checked_sub(network.len()).filter(|bits| subnet_len <= 32 && *bits <= MAX_SLOT_BITS);
        // One slot for the whole address space would need a shift by 32; it is served as an odd prefix.
        let slot_bits = slot_bits.filter(|_| subnet_len > 0);
        let slots = slot_bits.map_or(0, |bits| 1usize << bits);
        Self {
            base: network.base().to_bits(),
            shift: if slots == 0 { 0 } else { u32::from(32 - subnet_len) },
            slots: (0..slots).map(|_| Slot::default()).collect(),
            network,
            subnet_len,
            published: Publisher::new(OddPrefixes::default()),
            writer: Mutex::default(),
        }
    }

    /// Sends what goes to `subnet` to `endpoint` from now on; returns where it went before.
    pub fn set(&self, subnet: Prefix4, endpoint: Endpoint) -> Option<Endpoint> {
        let mut odd = self.write();
        match (self.slot_of(subnet), endpoint) {
            (Some(slot), SocketAddr::V4(endpoint)) => {
                let before = slot.swap(Some(endpoint)).map(SocketAddr::V4);
                before.or_else(|| self.remove_odd(&mut odd, subnet))
            }
            (slot, endpoint) => {
                let before = odd.insert(subnet, endpoint);
                if before != Some(endpoint) {
                    self.publish(&odd);
                }
                // Emptied last: until then readers have the old answer.
                slot.and_then(|slot| slot.swap(None)).map(SocketAddr::V4).or(before)
            }
        }
    }

    /// Sends nothing to `subnet` any more; returns where it went before.
    pub fn remove(&self, subnet: &Prefix4) -> Option<Endpoint> {
        let mut odd = self.write();
        let before = self.slot_of(*subnet).and_then(|slot| slot.swap(None)).map(SocketAddr::V4);
        before.or_else(|| self.remove_odd(&mut odd, *subnet))
    }

    /// Every entry, in the order of base addresses. Looks at every slot: for people, not for packets.
    #[must_use]
    pub fn entries(&self) -> Vec<(Prefix4, Endpoint)> {
        let odd = self.write();
        let mut entries: Vec<_> = odd.iter().map(|(subnet, endpoint)| (*subnet, *endpoint)).collect();
        let step = 1u128 << self.shift;
        entries.extend((0u128..).zip(&self.slots).filter_map(|(index, slot)| {
            let subnet = Prefix4::new(self.network.nth(index * step)?, self.subnet_len).ok()?;
            Some((subnet, SocketAddr::V4(slot.load()?)))
        }));
        entries.sort_unstable_by_key(|(subnet, _)| *subnet);
        entries
    }

    /// The network the table was made for.
    #[must_use]
    pub fn network(&self) -> Prefix4 {
        self.network
    }

    /// A reader, to be owned by one worker.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> TableReader {
        TableReader::new(Arc::clone(self), self.published.subscribe())
    }

    /// The slot of `subnet` if it is a slice of the network.
    fn slot_of(&self, subnet: Prefix4) -> Option<&Slot> {
        if subnet.len() != self.subnet_len || !self.network.covers(&subnet) {
            return None;
        }
        let index = (subnet.base().to_bits() - self.base) >> self.shift;
        self.slots.get(usize::try_from(index).ok()?)
    }

    fn remove_odd(&self, odd: &mut BTreeMap<Prefix4, Endpoint>, subnet: Prefix4) -> Option<Endpoint> {
        let before = odd.remove(&subnet)?;
        self.publish(odd);
        Some(before)
    }

    fn publish(&self, odd: &BTreeMap<Prefix4, Endpoint>) {
        self.published.publish(OddPrefixes::new(odd, self.subnet_len));
    }

    fn write(&self) -> MutexGuard<'_, BTreeMap<Prefix4, Endpoint>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
