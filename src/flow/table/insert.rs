//! Putting a flow into the table, and who has to go for it.

use super::super::slot::{Entry, Mark};
use super::super::state::{Opening, Stamp, State};
use super::{Ends, FlowKey, FlowTable, Moment, Phase, Place, Protocol, TcpFlags, ways};

/// From so many flows in its first bucket on, a flow looks whether there are fewer in its second. Looking there costs another
/// cache miss with every packet, so it is left for crowded buckets.
const CROWDED: usize = 6;

/// How often another slot is looked for when another thread was faster.
const TRIES: usize = 3;

/// What became of a flow that was to be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is remembered, in an empty slot.
    New,
    /// It is remembered, in place of one that had expired.
    Reclaimed,
    /// It was there, and was written anew.
    Refreshed,
    /// It is remembered, in place of one that had not expired: both its buckets were full.
    Displaced,
    /// It is not remembered: other threads were faster, time and again. The next packet may have more luck.
    Raced,
}

/// A slot that would do.
#[derive(Clone, Copy)]
struct Candidate {
    number: usize,
    mark: Mark,
    outcome: Inserted,
}

/// What was found in a bucket.
#[derive(Default)]
struct Bucket {
    taken: usize,
    /// The first slot in the order of looking that is empty or has expired.
    free: Option<Candidate>,
}

impl FlowTable {
    /// Remembers the flow whose opener's direction is `key`, as judged under `version`; `tcp` are the flags of its first packet
    /// seen, in that direction.
    ///
    /// If there is no room, one goes that is closed; else the longest silent of those without an answer or a finished handshake;
    /// else the longest silent. So a flood of half-open flows displaces its like.
    pub fn insert(&self, key: &FlowKey, now: Moment, version: u64, opening: Opening, tcp: Option<TcpFlags>) -> Inserted {
        let (ends, rising) = Ends::of(key);
        let place = self.place(&ends);
        for _ in 0..TRIES {
            let Some(chosen) = self.choose(&ends, &place, now) else { continue };
            let entry = |before| {
                let state = State::new(before, now, rising, opening, tcp);
                Entry { ends, state, stamp: Stamp::new(state, version) }
            };
            if self.slot(chosen.number).is_some_and(|slot| slot.fill(chosen.mark, place.fingerprint, entry)) {
                return chosen.outcome;
            }
        }
        Inserted::Raced
    }

    /// The slot for a flow: its own, a free one, or that of a victim. `None` if others are busy with every one of them.
    fn choose(&self, ends: &Ends, place: &Place, now: Moment) -> Option<Candidate> {
        let mut buckets = [Bucket::default(), Bucket::default()];
        let mut victim: Option<((Rank, u32), Candidate)> = None;
        let mut own = None;
        for (found, bucket) in buckets.iter_mut().zip(place.buckets) {
            for number in ways(bucket, place.way) {
                let Some(slot) = self.slot(number) else { continue };
                let mark = slot.mark();
                let candidate = |outcome| Candidate { number, mark, outcome };
                let Some(entry) = slot.read(mark) else {
                    // Busy, changed under our eyes, or empty.
                    if mark.used() || mark.busy() {
                        found.taken += 1;
                    } else {
                        found.free.get_or_insert(candidate(Inserted::New));
                    }
                    continue;
                };
                let protocol = entry.ends.protocol();
                if entry.ends.same(ends) {
                    own = own.or(Some(candidate(Inserted::Refreshed)));
                } else if entry.state.expired(protocol, now) {
                    found.free.get_or_insert(candidate(Inserted::Reclaimed));
                } else {
                    found.taken += 1;
                    let order = (Rank::of(protocol, entry.state), entry.state.seen());
                    if victim.is_none_or(|(least, _)| order < least) {
                        victim = Some((order, candidate(Inserted::Displaced)));
                    }
                }
            }
        }
        own.or_else(|| freest(&buckets)).or(victim.map(|(_, candidate)| candidate))
    }
}

/// Who goes first where there is no room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Closed,
    Unproven,
    Proven,
}

impl Rank {
    fn of(protocol: Protocol, state: State) -> Self {
        match state.phase(protocol) {
            Phase::Closed => Self::Closed,
            Phase::Opening | Phase::Unanswered => Self::Unproven,
            // One made-up segment can say that it closes.
            Phase::Closing if !state.assured() => Self::Unproven,
            Phase::Closing | Phase::Answered | Phase::Established | Phase::Cut => Self::Proven,
        }
    }
}

fn freest([first, second]: &[Bucket; 2]) -> Option<Candidate> {
    let stay = first.taken < CROWDED || first.taken <= second.taken;
    let (this, that) = if stay { (first, second) } else { (second, first) };
    this.free.or(that.free)
}
