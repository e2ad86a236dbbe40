//! Datagrams whose first fragment was let through: the others have no ports and follow it, or nobody.
//!
//! One table per thread: all fragments of a datagram take the same way, for they are told apart by addresses alone. A later
//! fragment that comes before its first is unknown and to be dropped; holding it back would need memory that a stranger
//! decides about, and senders send the first one first. What the kernel does about overlaps (RFC 5722, and Linux for IPv4 too)
//! is not relied on: a later fragment that would replace bytes of the first one is not let through.

use std::time::Duration;

use super::seed::{Place, Seed, WAYS};
use super::state::tick;
use crate::net::Moment;
use crate::wire::inspect::{FirstFragment, FragmentId};

/// Datagrams remembered, 96 bytes each. Receivers reassemble far fewer at a time (Linux: 4 MiB, about 1,000 of 3,000 bytes).
pub const DATAGRAMS: usize = 4096;

/// How long the fragments of a datagram may take: as long as Linux waits for them (`ipfrag_time`).
pub const FRAGMENT_LIFETIME: Duration = Duration::from_secs(30);

/// The table: of bounded size, where the oldest of a bucket goes for a new one.
#[derive(Debug)]
pub struct FragmentTable {
    datagrams: Box<[Option<Datagram>]>,
    seed: Seed,
}

/// What is to be done with a later fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// It follows a first fragment that was let through.
    Passed {
        /// The policy version the first one was judged under.
        version: u64,
    },
    /// No first fragment of that datagram was let through lately.
    Unknown,
    /// It begins within what the first fragment brought, which no honest sender's does. The datagram is forgotten (RFC 5722).
    Overlapping,
}

#[derive(Clone, Copy, Debug)]
struct Datagram {
    id: FragmentId,
    /// How far the first fragment reaches.
    bytes: u16,
    since: u32,
    version: u64,
}

impl FragmentTable {
    /// An empty table.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self { datagrams: vec![None; DATAGRAMS].into(), seed }
    }

    /// Notes that a first fragment is let through, as judged under `version`.
    pub fn first(&mut self, first: &FirstFragment, now: Moment, version: u64) {
        let &FirstFragment { id, bytes } = first;
        let fresh = Datagram { id, bytes, since: tick(now), version };
        let Some(bucket) = self.bucket(&id) else { return };
        // Of a first fragment that came twice, both count: what neither of them brought is new.
        if let Some(known) = bucket.iter_mut().flatten().find(|known| known.id == id) {
            let bytes = if known.is_old(now) { bytes } else { known.bytes.max(bytes) };
            *known = Datagram { bytes, ..fresh };
            return;
        }
        let oldest = bucket.iter_mut().min_by_key(|datagram| datagram.map(|datagram| datagram.since));
        if let Some(oldest) = oldest {
            *oldest = Some(fresh);
        }
    }

    /// Notes that a first fragment is not let through: neither are others that were to follow an earlier one of the same number.
    pub fn refuse(&mut self, id: &FragmentId) {
        for datagram in self.bucket(id).into_iter().flatten() {
            if datagram.is_some_and(|datagram| datagram.id == *id) {
                *datagram = None;
            }
        }
    }

    /// Looks for the first fragment that a later one at `offset` follows.
    pub fn later(&mut self, id: &FragmentId, offset: u16, now: Moment) -> Later {
        let known = self.bucket(id).into_iter().flatten().flatten().find(|known| known.id == *id && !known.is_old(now));
        match known {
            None => Later::Unknown,
            Some(known) if offset < known.bytes => {
                self.refuse(id);
                Later::Overlapping
            }
            Some(known) => Later::Passed { version: known.version },
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes addresses apart")]
    fn bucket(&mut self, id: &FragmentId) -> Option<&mut [Option<Datagram>]> {
        let FragmentId { source, destination, protocol, id } = *id;
        let last = u64::from(protocol.0) << 32 | u64::from(id);
        let words = [(source >> 64) as u64, source as u64, (destination >> 64) as u64, destination as u64, last];
        let [bucket, _] = Place::of(self.seed.hash(&words), DATAGRAMS / WAYS).buckets;
        self.datagrams.get_mut(bucket * WAYS..(bucket + 1) * WAYS)
    }
}

impl Datagram {
    fn is_old(&self, now: Moment) -> bool {
        Duration::from_millis(u64::from(tick(now).saturating_sub(self.since)) * 125) > FRAGMENT_LIFETIME
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Protocol;

    fn id(id: u32) -> FragmentId {
        FragmentId { source: 1, destination: 2, protocol: Protocol::UDP, id }
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(seconds))
    }

    fn table() -> FragmentTable {
        FragmentTable::new(Seed::new([1, 2]))
    }

    #[test]
    fn later_fragments_follow_their_first() {
        let mut table = table();
        assert_eq!(table.later(&id(1), 1480, at(0)), Later::Unknown);
        table.first(&FirstFragment { id: id(1), bytes: 1480 }, at(0), 7);
        assert_eq!(table.later(&id(1), 1480, at(30)), Later::Passed { version: 7 });
        assert_eq!(table.later(&id(1), 1480, at(31)), Later::Unknown);
        for other in [
            id(2),
            FragmentId { source: 3, ..id(1) },
            FragmentId { destination: 3, ..id(1) },
            FragmentId { protocol: Protocol::TCP, ..id(1) },
        ] {
            assert_eq!(table.later(&other, 1480, at(1)), Later::Unknown, "{other:?}");
        }
        // The number is used again.
        table.first(&FirstFragment { id: id(1), bytes: 80 }, at(31), 8);
        assert_eq!(table.later(&id(1), 80, at(31)), Later::Passed { version: 8 });
        table.refuse(&id(1));
        assert_eq!(table.later(&id(1), 80, at(31)), Later::Unknown);
    }

    #[test]
    fn who_reaches_into_the_first_ends_it() {
        let mut table = table();
        table.first(&FirstFragment { id: id(1), bytes: 1480 }, at(0), 7);
        table.first(&FirstFragment { id: id(1), bytes: 16 }, at(1), 7);
        assert_eq!(table.later(&id(1), 1472, at(1)), Later::Overlapping);
        assert_eq!(table.later(&id(1), 1480, at(1)), Later::Unknown);
    }

    #[test]
    fn a_million_datagrams_leave_the_latest() {
        let mut table = table();
        for n in 0..1_000_000 {
            table.first(&FirstFragment { id: id(n), bytes: 8 }, at(u64::from(n) / 1000), 7);
            assert_eq!(table.later(&id(n), 8, at(u64::from(n) / 1000)), Later::Passed { version: 7 });
        }
        let left = |from: u32, to: u32, table: &mut FragmentTable| {
            (from..to).filter(|n| table.later(&id(*n), 8, at(1000)) != Later::Unknown).count()
        };
        assert_eq!(left(0, 960_000, &mut table), 0, "the oldest go");
        // A bucket keeps its latest eight, so nearly all of the latest fifth of the table is there.
        assert!(left(999_200, 1_000_000, &mut table) > 790);
        assert_eq!(table.datagrams.len(), DATAGRAMS);
    }
}
