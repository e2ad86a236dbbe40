//! The flow table: every flow that policy has let through, shared by all threads, lock-free.
//!
//! An entry lies in one of two buckets of eight neighbouring cache lines; which, a keyed hash says that is the same for both
//! directions. With two buckets to choose from, a table half full has room for practically any flow (one with a single place
//! to look would turn away one in a hundred).
//!
//! Nobody waits: who reads an entry that is being replaced misses it, who loses a race to write gives up. Then policy is asked
//! again, which is always right. Two threads that insert one flow at once may each find a place for it; the first in the order
//! of looking counts, the other is never renewed and expires.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use zerocopy::FromZeros;

use super::ends::Ends;
use super::lifetime::Phase;
use super::seed::{Place, Seed, WAYS};
use super::slot::{LINE, Mark, Slot};
use super::state::{Stamp, State};
use crate::net::{FlowKey, Moment, Protocol};
use crate::wire::inspect::TcpFlags;

mod insert;

pub use insert::Inserted;

/// Most flows a table can be made for: 32 GiB of them.
pub const MAX_FLOWS: usize = 1 << 28;

/// Slots that [`FlowTable::live`] looks at, at most.
const SAMPLE: usize = 4096;

/// A table of flows, in 128 bytes for each it was made for. Memory that was never used is none: the pages come zeroed when
/// they are first written to.
#[derive(Debug)]
pub struct FlowTable {
    /// Slots one after the other, from `first` on, where a cache line begins.
    words: Box<[AtomicU64]>,
    first: usize,
    buckets: usize,
    seed: Seed,
}

/// Why there is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTable {
    /// More flows than [`MAX_FLOWS`].
    #[error("expected at most {MAX_FLOWS} flows, found {0}; make the table smaller")]
    TooLarge(usize),
    /// There is not that much memory.
    #[error("no memory for {0} flows of 128 bytes each; make the table smaller")]
    NoMemory(usize),
}

/// Where a flow is looked for first, whether or not it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot(usize);

/// A flow found in the table, as it was then.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    slot: usize,
    mark: Mark,
    state: State,
    stamp: Stamp,
    protocol: Protocol,
    rising: bool,
}

/// A flow as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RememberedFlow {
    /// The opener's direction, as far as it is known.
    pub key: FlowKey,
    /// Whether it was picked up in mid-stream in a way that does not tell the direction.
    pub picked_up: bool,
    /// How far it has come.
    pub phase: Phase,
    /// Since when no packet was seen, to an eighth of a second.
    pub silent: Duration,
    /// The policy version it was judged under.
    pub version: u64,
}

impl FlowTable {
    /// A table for that many flows; more are held as long as there is room, up to twice as many.
    ///
    /// # Errors
    /// [`NoTable`] says why there is none.
    pub fn new(flows: usize, seed: Seed) -> Result<Self, NoTable> {
        if flows > MAX_FLOWS {
            return Err(NoTable::TooLarge(flows));
        }
        let buckets = (2 * flows).div_ceil(WAYS).max(2);
        // The allocator zeroes what it aligns to a cache line by writing to it, so it is asked for less and given room.
        let words = <[AtomicU64]>::new_box_zeroed_with_elems(buckets * WAYS * LINE + LINE - 1);
        let words = words.map_err(|_| NoTable::NoMemory(flows))?;
        let first = words.as_ptr().align_offset(LINE * size_of::<AtomicU64>()).min(LINE - 1);
        Ok(Self { words, first, buckets, seed })
    }

    /// Where the flow that `key` is either direction of is looked for first.
    #[inline]
    #[must_use]
    pub fn spot(&self, key: &FlowKey) -> Spot {
        let place = self.place(&Ends::of(key).0);
        Spot(ways(place.buckets[0], place.way).next().unwrap_or_default())
    }

    /// Has the processor fetch what lies at these places, all at once, for somebody who is about to [find](Self::find) flows
    /// there. Without that a lookup in a large table waits for memory, and the next one after it.
    #[inline]
    pub fn approach(&self, spots: &[Spot]) {
        // Nothing but loads that do not depend on each other: as many are on their way as the processor can remember.
        let marks = spots.iter().filter_map(|spot| self.slot(spot.0)).map(Slot::glance);
        std::hint::black_box(marks.fold(0, std::ops::BitXor::bitxor));
    }

    /// Finds the flow that `key` is either direction of, unless it has expired.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &FlowKey, now: Moment) -> Option<Hit> {
        let (ends, rising) = Ends::of(key);
        let place = self.place(&ends);
        for bucket in place.buckets {
            for number in ways(bucket, place.way) {
                let slot = self.slot(number)?;
                let mark = slot.mark();
                if !mark.shows(place.fingerprint) {
                    continue;
                }
                let Some(entry) = slot.read(mark).filter(|entry| entry.ends.same(&ends)) else { continue };
                if !entry.state.expired(key.protocol, now) {
                    let (state, stamp, protocol) = (entry.state, entry.stamp, key.protocol);
                    return Some(Hit { slot: number, mark, state, stamp, protocol, rising });
                }
            }
        }
        None
    }

    /// Notes that a packet of the flow came by. Writes nothing if that is known already, to an eighth of a second. Returns how
    /// far the flow has come with it.
    #[inline]
    pub fn touch(&self, hit: &Hit, now: Moment, tcp: Option<TcpFlags>) -> Phase {
        let original = hit.original();
        let state = match self.slot(hit.slot) {
            Some(slot) => slot.change(hit.state, |state| state.after(now, tcp, original)),
            None => hit.state,
        };
        state.phase(hit.protocol)
    }

    /// Notes that the flow was judged under `version`. `false` if the entry was changed meanwhile; then the next packet will be
    /// judged again.
    pub fn renew(&self, hit: &Hit, version: u64) -> bool {
        self.slot(hit.slot).is_some_and(|slot| slot.renew(hit.stamp, version))
    }

    /// Notes that policy has ended a TCP flow, which its ends need not have noticed, or has let one go on after all.
    pub fn cut(&self, hit: &Hit, now: Moment, cut: bool) {
        if let Some(slot) = self.slot(hit.slot) {
            slot.change(hit.state, |state| state.cut(now, cut));
        }
    }

    /// Forgets the flow. `false` if the entry was replaced meanwhile.
    pub fn remove(&self, hit: &Hit) -> bool {
        self.slot(hit.slot).is_some_and(|slot| slot.empty(hit.mark))
    }

    /// About how many flows there are that have not expired: exact in small tables, a projection from 4,096 slots in others.
    #[must_use]
    pub fn live(&self, now: Moment) -> usize {
        let slots = self.slots();
        let step = slots.div_ceil(SAMPLE);
        let sampled = slots.div_ceil(step);
        let live = (0..slots).step_by(step).filter(|number| self.remembered(*number, now).is_some()).count();
        live * slots / sampled
    }

    /// Every flow that has not expired, in no order. Looks at every slot: for people, not for packets.
    pub fn flows(&self, now: Moment) -> impl Iterator<Item = RememberedFlow> + '_ {
        (0..self.slots()).filter_map(move |number| self.remembered(number, now))
    }

    /// Most flows there is room for.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.buckets * WAYS
    }

    /// All memory of the table, for whoever decides how the kernel backs it.
    #[must_use]
    pub fn memory(&self) -> &[AtomicU64] {
        &self.words
    }

    /// The key of the hash, for tables beside this one.
    #[must_use]
    pub fn seed(&self) -> Seed {
        self.seed
    }

    fn remembered(&self, number: usize, now: Moment) -> Option<RememberedFlow> {
        let slot = self.slot(number)?;
        let entry = slot.read(slot.mark())?;
        let (protocol, state) = (entry.ends.protocol(), entry.state);
        (!state.expired(protocol, now)).then(|| RememberedFlow {
            key: entry.ends.key(state.rising()),
            picked_up: state.picked_up(),
            phase: state.phase(protocol),
            silent: state.silent(now),
            version: entry.stamp.version(),
        })
    }

    #[inline]
    fn place(&self, ends: &Ends) -> Place {
        Place::of(self.seed.hash(&ends.0), self.buckets)
    }

    #[inline]
    fn slot(&self, number: usize) -> Option<Slot<'_>> {
        self.words.get(self.first + number * LINE..)?.first_chunk().map(Slot)
    }
}

impl Hit {
    /// Whether the packet goes in the direction in which the flow was opened.
    #[inline]
    #[must_use]
    pub fn original(&self) -> bool {
        self.state.rising() == self.rising
    }

    /// The policy version the flow was judged under: its lower 40 bits.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.stamp.version()
    }

    /// Whether policy has ended the flow.
    #[inline]
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.state.is_cut()
    }

    /// The protocol.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether the flow was picked up in mid-stream by a packet that did not tell in which direction it was opened.
    #[inline]
    #[must_use]
    pub fn picked_up(&self) -> bool {
        self.state.picked_up()
    }

    /// How far the flow had come.
    #[inline]
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.state.phase(self.protocol)
    }
}

/// The slots of a bucket in the order of looking.
#[inline]
fn ways(bucket: usize, way: usize) -> impl Iterator<Item = usize> {
    (0..WAYS).map(move |step| bucket * WAYS + (way + step) % WAYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_cache_lines_and_a_flow_has_128_bytes() {
        for flows in [0, 1, 9, 1000, 1_000_000] {
            let table = FlowTable::new(flows, Seed::new([1, 2])).unwrap();
            assert!(table.slots() >= 2 * flows && table.slots() * 64 <= (128 * flows).next_multiple_of(512).max(1024));
            for number in [0, table.slots() - 1] {
                assert_eq!(std::ptr::from_ref(table.slot(number).unwrap().0).addr() % 64, 0);
            }
        }
        assert!(matches!(FlowTable::new(MAX_FLOWS + 1, Seed::new([1, 2])), Err(NoTable::TooLarge(_))));
    }
}
