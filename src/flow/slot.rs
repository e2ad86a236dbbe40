//! One entry of the table: a cache line of eight atomic words, and the protocol by which threads share it without waiting.
//!
//! Word 0 is the mark: whether the slot is used, whether it is being filled, a fingerprint, and a count of changes. Words 1 to 5
//! are the flow's [`Ends`], 6 its [`State`], 7 its [`Stamp`].
//!
//! The mark and the key are a sequence lock whose writers never wait:
//!
//! * **Filling** takes the slot by a compare-and-swap of the mark it looked at to the same with `BUSY`; whoever loses that gives
//!   up. A release fence puts the new key and its words behind `BUSY`; the final mark, one change on, is a release store.
//! * **Reading** loads the mark (acquire), then the words, then, behind an acquire fence, the mark again, and believes the words
//!   only if the mark is the same and not busy. If it has read any word of a later filling, the fences synchronise, and the
//!   second load sees that filling's `BUSY` or what came after: never the same mark, for the count only grows. If it has read a
//!   word of an earlier filling, it has not seen that the later one is done, so its first load cannot have had that mark.
//! * **Emptying** is one compare-and-swap of the mark. As a read-modify-write it continues the release sequence of the filling
//!   before it, so the next filler, which acquires, sees that one's words, and counts their tag on.
//!
//! State and stamp change one at a time by compare-and-swap, beside all that: each names in its tag the filling it belongs to,
//! and no other word depends on it, so these are relaxed.
//!
//! A thread that died while filling would leave its slot busy for ever: lost, never wrong.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::ends::Ends;
use super::state::{Stamp, State};

/// Words of a slot: 64 bytes, the cache line of all the processors we know.
pub(super) const LINE: usize = 8;

const BUSY: u64 = 1;
const USED: u64 = 1 << 1;
const FINGERPRINT_SHIFT: u32 = 2;
const COUNT: u64 = 1 << 18;

/// How often a change of the state is tried again when another thread was faster.
const TRIES: usize = 8;

/// A slot, shared by all threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'a>(pub(super) &'a [AtomicU64; LINE]);

/// Word 0, as it was at a look: names one filling of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u64);

/// What a slot held at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) ends: Ends,
    pub(super) state: State,
    pub(super) stamp: Stamp,
}

impl Slot<'_> {
    /// The mark as it is now. What is read afterwards is at least as new.
    #[inline]
    pub(super) fn mark(self) -> Mark {
        let [mark, ..] = self.0;
        Mark(mark.load(Ordering::Acquire))
    }

    /// The first word, of which nothing follows: it is there afterwards, and so is the whole line.
    #[inline]
    pub(super) fn glance(self) -> u64 {
        let [mark, ..] = self.0;
        mark.load(Ordering::Relaxed)
    }

    /// The entry, if `mark` is still that of the slot.
    #[inline]
    pub(super) fn read(self, mark: Mark) -> Option<Entry> {
        let [word, ends @ .., state, stamp] = self.0;
        let ends = Ends(ends.each_ref().map(|word| word.load(Ordering::Relaxed)));
        let (state, stamp) = (State(state.load(Ordering::Relaxed)), Stamp(stamp.load(Ordering::Relaxed)));
        fence(Ordering::Acquire);
        (word.load(Ordering::Relaxed) == mark.0 && mark.used()).then_some(Entry { ends, state, stamp })
    }

    /// Puts a flow into the slot. `entry` makes the new entry from the state that the slot had before.
    ///
    /// `false`, with nothing changed, if the slot is not any more what it was when `mark` was read.
    pub(super) fn fill(self, mark: Mark, fingerprint: u16, entry: impl FnOnce(State) -> Entry) -> bool {
        let [word, ends @ .., state, stamp] = self.0;
        let take = || word.compare_exchange(mark.0, mark.0 | BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if mark.busy() || !take() {
            return false;
        }
        fence(Ordering::Release);
        let entry = entry(State(state.load(Ordering::Relaxed)));
        for (word, value) in ends.iter().zip(entry.ends.0) {
            word.store(value, Ordering::Relaxed);
        }
        // Swapped, so that a change another thread makes of the old flow's words comes before, or fails.
        state.swap(entry.state.0, Ordering::Relaxed);
        stamp.swap(entry.stamp.0, Ordering::Relaxed);
        word.store(mark.next() | USED | u64::from(fingerprint) << FINGERPRINT_SHIFT, Ordering::Release);
        true
    }

    /// Empties the slot. `false` if it is not any more what it was when `mark` was read.
    pub(super) fn empty(self, mark: Mark) -> bool {
        let [word, ..] = self.0;
        !mark.busy() && word.compare_exchange(mark.0, mark.next(), Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Changes the state of the flow that `seen` is of, unless the change changes nothing. Returns how the flow is doing then,
    /// as far as could be found out; nothing happens to another flow that got the slot.
    #[inline]
    pub(super) fn change(self, seen: State, change: impl Fn(State) -> State) -> State {
        let [.., word, _] = self.0;
        let mut old = seen;
        for _ in 0..TRIES {
            let new = change(old);
            if new == old {
                return old;
            }
            match word.compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return new,
                Err(found) if !State(found).same_flow(seen) => return old,
                Err(found) => old = State(found),
            }
        }
        old
    }

    /// Puts the flow that `seen` is of under another policy version. `false` if somebody did so first, or the flow is gone.
    pub(super) fn renew(self, seen: Stamp, version: u64) -> bool {
        let [.., word] = self.0;
        word.compare_exchange(seen.0, seen.renewed(version).0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Mark {
    /// Whether a flow with that fingerprint may be here to be read.
    #[inline]
    pub(super) fn shows(self, fingerprint: u16) -> bool {
        self.0 & (COUNT - 1) == USED | u64::from(fingerprint) << FINGERPRINT_SHIFT
    }

    #[inline]
    pub(super) fn used(self) -> bool {
        self.0 & (USED | BUSY) == USED
    }

    #[inline]
    pub(super) fn busy(self) -> bool {
        self.0 & BUSY != 0
    }

    /// An empty slot's mark, one change on. 46 bits of count last for two years of a change each microsecond.
    #[inline]
    fn next(self) -> u64 {
        (self.0 & !(COUNT - 1)).wrapping_add(COUNT)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flow::state::Opening;
    use crate::net::Moment;

    fn entry(n: u64) -> impl Fn(State) -> Entry {
        move |before| {
            let state = State::new(before, Moment::ZERO, true, Opening::Opened, None);
            Entry { ends: Ends([n; 5]), state, stamp: Stamp::new(state, n) }
        }
    }

    #[test]
    fn who_looked_too_early_changes_nothing() {
        let line: [AtomicU64; LINE] = Default::default();
        let slot = Slot(&line);
        let empty = slot.mark();
        assert!(!empty.used() && slot.read(empty).is_none());
        assert!(slot.fill(empty, 7, entry(1)));
        let first = slot.mark();
        assert!(first.used() && first.shows(7) && !first.shows(6));
        let found = slot.read(first).unwrap();
        assert_eq!((found.ends, found.stamp.version()), (Ends([1; 5]), 1));
        assert!(slot.read(empty).is_none() && !slot.fill(empty, 7, entry(2)) && !slot.empty(empty));

        assert!(slot.fill(first, 8, entry(2)));
        assert!(slot.read(first).is_none() && !slot.empty(first));
        let second = slot.read(slot.mark()).unwrap();
        // What was meant for the first flow does not reach the second, though their times and flags are the same.
        let later = Moment::from_origin(Duration::from_secs(9));
        assert!(!slot.renew(found.stamp, 9));
        slot.change(found.state, |state| state.after(later, None, false));
        assert_eq!(slot.read(slot.mark()).unwrap().state, second.state);
        assert!(slot.renew(second.stamp, 9) && !slot.renew(second.stamp, 10));
        assert_eq!(slot.read(slot.mark()).unwrap().stamp.version(), 9);

        let mark = slot.mark();
        assert!(slot.empty(mark) && !slot.empty(mark) && !slot.mark().used());
        assert!(slot.fill(slot.mark(), 7, entry(3)));
        assert!(!slot.read(slot.mark()).unwrap().state.same_flow(second.state));
    }

    #[test]
    fn a_busy_slot_is_left_alone() {
        let line: [AtomicU64; LINE] = Default::default();
        line[0].store(BUSY | USED, Ordering::Relaxed);
        let mark = Slot(&line).mark();
        assert!(!mark.used() && !mark.shows(0) && Slot(&line).read(mark).is_none());
        assert!(!Slot(&line).fill(mark, 0, entry(1)) && !Slot(&line).empty(mark));
    }
}
