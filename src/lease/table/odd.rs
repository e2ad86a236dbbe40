//! The prefixes that are no slice of the network: a small longest-prefix-match table, rebuilt whole at each change.
//!
//! Usually empty. A lookup is one binary search per prefix length present; a change costs time in proportion to the size.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::net::{Endpoint, Prefix4};

/// Odd prefixes as readers see them, split where the slots come in between.
#[derive(Debug, Default)]
pub(super) struct OddPrefixes {
    /// Longer than a slice: asked before the slots.
    pub(super) longer: Levels,
    /// A slice's length or shorter: asked after the slots.
    pub(super) others: Levels,
}

/// Prefixes grouped by length, longest first.
#[derive(Debug, Default)]
pub(super) struct Levels(Vec<Level>);

#[derive(Debug)]
struct Level {
    len: u8,
    // Sorted by base address.
    entries: Vec<(Ipv4Addr, Endpoint)>,
}

impl OddPrefixes {
    /// The snapshot of `entries` for slices of `slice_len` bits.
    pub(super) fn new(entries: &BTreeMap<Prefix4, Endpoint>, slice_len: u8) -> Self {
        Self { longer: Levels::new(entries, |len| len > slice_len), others: Levels::new(entries, |len| len <= slice_len) }
    }
}

impl Levels {
    fn new(entries: &BTreeMap<Prefix4, Endpoint>, admitted: impl Fn(u8) -> bool) -> Self {
        let mut levels: Vec<Level> = Vec::new();
        // A map of prefixes is ordered by base address first, so each level comes out sorted.
        for (prefix, endpoint) in entries.iter().filter(|(prefix, _)| admitted(prefix.len())) {
            let entry = (prefix.base(), *endpoint);
            match levels.iter_mut().find(|level| level.len == prefix.len()) {
                Some(level) => level.entries.push(entry),
                None => levels.push(Level { len: prefix.len(), entries: vec![entry] }),
            }
        }
        levels.sort_unstable_by_key(|level| std::cmp::Reverse(level.len));
        Self(levels)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The endpoint of the longest prefix that holds `address`.
    pub(super) fn find(&self, address: Ipv4Addr) -> Option<Endpoint> {
        self.0.iter().find_map(|level| level.find(address))
    }
}

impl Level {
    fn find(&self, address: Ipv4Addr) -> Option<Endpoint> {
        let mask = u32::MAX.checked_shl(u32::from(32 - self.len)).unwrap_or(0);
        let base = Ipv4Addr::from_bits(address.to_bits() & mask);
        let at = self.entries.binary_search_by_key(&base, |(base, _)| *base).ok()?;
        self.entries.get(at).map(|(_, endpoint)| *endpoint)
    }
}
