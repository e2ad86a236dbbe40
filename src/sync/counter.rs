//! Counts with one writer and any number of readers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A count that exactly one thread adds to and others may read at any time.
///
/// Adding is a plain load and store, not a locked read-modify-write: with two writers counts would be lost, never corrupted.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. To be called by the owning worker only.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The count as last seen.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
