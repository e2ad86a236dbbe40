//! The two words of an entry that change while it lives: how the flow is doing, and the policy version it was judged under.
//!
//! Each carries, in its upper 24 bits, the number of times its slot was filled. So a change meant for one flow, made by
//! compare-and-swap, never hits another that got the slot meanwhile: the slot would have to be filled 16,777,216 times between
//! a look and the swap that follows it.

use std::time::Duration;

use super::lifetime::{Phase, lifetime};
use crate::net::{Moment, Protocol};
use crate::wire::inspect::TcpFlags;

const TAG_SHIFT: u32 = 40;
const VERSION_MASK: u64 = (1 << TAG_SHIFT) - 1;
const SEEN_SHIFT: u32 = 8;

const RISING: u64 = 1;
const PICKED_UP: u64 = 1 << 1;
const ANSWERED: u64 = 1 << 2;
const ASSURED: u64 = 1 << 3;
const OPENER_CLOSED: u64 = 1 << 4;
const ANSWERER_CLOSED: u64 = 1 << 5;
const RESET: u64 = 1 << 6;
const CUT: u64 = 1 << 7;

/// Ticks of a second. A busy flow's entry is written to once a tick: often enough for lifetimes of seconds, and seldom enough
/// that the cores that carry its two directions hardly ever take the cache line from each other.
const TICKS: u64 = 8;

/// How a flow got into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// By its first packet, or by one whose ports or policy tell which end opened it.
    Opened,
    /// In mid-stream, by a packet that may as well have been a reply: who opened it cannot be told.
    PickedUp,
}

/// How a flow is doing, in a word: from the top 24 bits of tag, 32 of the tick it was last seen in, 8 of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(pub(super) u64);

/// A policy version, in a word: from the top 24 bits of tag, 40 of version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(pub(super) u64);

impl State {
    /// The state of a flow whose opener is the lower end, if `rising`, and whose first packet has these flags. `before` is what
    /// the slot had.
    pub(super) fn new(before: Self, now: Moment, rising: bool, opening: Opening, tcp: Option<TcpFlags>) -> Self {
        let tag = ((before.0 >> TAG_SHIFT) + 1) << TAG_SHIFT;
        let flags = if rising { RISING } else { 0 } | if opening == Opening::PickedUp { PICKED_UP } else { 0 };
        Self(tag | u64::from(tick(now)) << SEEN_SHIFT | flags).with(tcp, true)
    }

    /// The state after another packet, in the opener's direction or against it.
    #[inline]
    pub(super) fn after(self, now: Moment, tcp: Option<TcpFlags>, original: bool) -> Self {
        let seen = self.seen().max(tick(now));
        Self(self.0 & !(0xffff_ffff << SEEN_SHIFT) | u64::from(seen) << SEEN_SHIFT).with(tcp, original)
    }

    #[inline]
    fn with(self, tcp: Option<TcpFlags>, original: bool) -> Self {
        let Some(tcp) = tcp else {
            return if original { self } else { Self(self.0 | ANSWERED) };
        };
        let mut word = self.0;
        if !original && !tcp.has(TcpFlags::RST) {
            word |= ANSWERED;
        }
        // Only now is the opener known to be there: a SYN with a made-up source gets an answer too.
        if original && word & ANSWERED != 0 && tcp.has(TcpFlags::ACK) && !tcp.has(TcpFlags::SYN) {
            word |= ASSURED;
        }
        if tcp.has(TcpFlags::FIN) {
            word |= if original { OPENER_CLOSED } else { ANSWERER_CLOSED };
        }
        if tcp.has(TcpFlags::RST) {
            word |= RESET;
        }
        Self(word)
    }

    /// The state once policy has ended the flow with a packet that came now, or has let it go on after all.
    pub(super) fn cut(self, now: Moment, cut: bool) -> Self {
        let seen = self.after(now, None, true);
        Self(if cut { seen.0 | CUT } else { seen.0 & !CUT })
    }

    /// Whether the opener is known to be there.
    #[inline]
    pub(super) fn assured(self) -> bool {
        self.0 & ASSURED != 0
    }

    #[inline]
    pub(super) fn is_cut(self) -> bool {
        self.0 & CUT != 0
    }

    /// Whether the flow's opener is its lower end.
    #[inline]
    pub(super) fn rising(self) -> bool {
        self.0 & RISING != 0
    }

    #[inline]
    pub(super) fn picked_up(self) -> bool {
        self.0 & PICKED_UP != 0
    }

    #[inline]
    pub(super) fn phase(self, protocol: Protocol) -> Phase {
        let has = |flags| self.0 & flags == flags;
        match protocol {
            Protocol::TCP if has(CUT) => Phase::Cut,
            Protocol::TCP if has(RESET) || has(OPENER_CLOSED | ANSWERER_CLOSED) => Phase::Closed,
            Protocol::TCP if has(OPENER_CLOSED) || has(ANSWERER_CLOSED) => Phase::Closing,
            Protocol::TCP if has(ASSURED) => Phase::Established,
            Protocol::TCP => Phase::Opening,
            _ if has(ANSWERED) => Phase::Answered,
            _ => Phase::Unanswered,
        }
    }

    /// Whether the flow has been silent for longer than it is remembered.
    #[inline]
    pub(super) fn expired(self, protocol: Protocol, now: Moment) -> bool {
        let silent = tick(now).saturating_sub(self.seen());
        u64::from(silent) > lifetime(protocol, self.phase(protocol)).as_secs() * TICKS
    }

    /// How long the flow has been silent, to an eighth of a second.
    pub(super) fn silent(self, now: Moment) -> Duration {
        Duration::from_millis(u64::from(tick(now).saturating_sub(self.seen())) * 1000 / TICKS)
    }

    /// The tick of the last packet.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes the word apart")]
    pub(super) fn seen(self) -> u32 {
        (self.0 >> SEEN_SHIFT) as u32
    }

    /// Whether both are of one flow's time in the slot.
    #[inline]
    pub(super) fn same_flow(self, other: Self) -> bool {
        self.0 >> TAG_SHIFT == other.0 >> TAG_SHIFT
    }
}

impl Stamp {
    /// The stamp of a new entry with that state.
    pub(super) fn new(state: State, version: u64) -> Self {
        Self(state.0 >> TAG_SHIFT << TAG_SHIFT | version & VERSION_MASK)
    }

    /// The stamp of the same entry under another version.
    #[inline]
    pub(super) fn renewed(self, version: u64) -> Self {
        Self(self.0 & !VERSION_MASK | version & VERSION_MASK)
    }

    #[inline]
    pub(super) fn version(self) -> u64 {
        self.0 & VERSION_MASK
    }
}

/// Eighths of a second since the origin. They last for 17 years.
#[inline]
pub(super) fn tick(now: Moment) -> u32 {
    let since = now.since_origin();
    let parts = u64::from(since.subsec_nanos()) * TICKS / 1_000_000_000;
    u32::try_from(since.as_secs().saturating_mul(TICKS).saturating_add(parts)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: TcpFlags = TcpFlags::SYN;
    const A: TcpFlags = TcpFlags::ACK;
    const SA: TcpFlags = S.and(A);
    const FA: TcpFlags = TcpFlags::FIN.and(A);
    const R: TcpFlags = TcpFlags::RST;

    fn at(millis: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn tcp_comes_as_far_as_its_segments_say() {
        use Phase::{Closed, Closing, Established, Opening as Handshake};
        // Segments as (in the opener's direction, flags), and the phase after them.
        let stories: &[(&[(bool, TcpFlags)], Phase)] = &[
            (&[(true, S)], Handshake),
            (&[(true, S), (true, S)], Handshake),
            (&[(true, S), (true, A)], Handshake),
            (&[(true, S), (false, SA)], Handshake),
            (&[(true, S), (false, SA), (false, A), (false, SA)], Handshake),
            (&[(true, S), (false, SA), (true, A)], Established),
            (&[(true, A)], Handshake),
            (&[(true, A), (false, A)], Handshake),
            (&[(true, A), (false, A), (true, A)], Established),
            (&[(true, S), (false, R.and(A))], Closed),
            (&[(true, S), (false, SA), (true, A), (true, FA)], Closing),
            (&[(true, S), (false, SA), (true, A), (false, FA), (true, A)], Closing),
            (&[(true, S), (false, SA), (true, A), (false, FA), (true, FA), (false, A)], Closed),
            (&[(true, S), (false, SA), (true, A), (true, R)], Closed),
            (&[(true, FA)], Closing),
        ];
        for (segments, phase) in stories {
            let mut state = State::new(State(0), at(0), true, Opening::Opened, Some(segments[0].1));
            for (original, flags) in &segments[1..] {
                state = state.after(at(0), Some(*flags), *original);
            }
            assert_eq!(state.phase(Protocol::TCP), *phase, "{segments:?}");
        }
    }

    #[test]
    fn lifetimes_begin_with_the_last_packet() {
        let unanswered = State::new(State(0), at(1000), false, Opening::Opened, None);
        assert_eq!(unanswered.phase(Protocol::UDP), Phase::Unanswered);
        assert!(!unanswered.expired(Protocol::UDP, at(31_000)) && unanswered.expired(Protocol::UDP, at(31_125)));
        assert!(!unanswered.after(at(5000), None, true).expired(Protocol::UDP, at(35_000)));
        let answered = unanswered.after(at(5000), None, false);
        assert!(!answered.expired(Protocol::UDP, at(185_000)) && answered.expired(Protocol::UDP, at(185_125)));
        assert!(answered.expired(Protocol::ICMP, at(36_000)) && !answered.expired(Protocol::SCTP, at(605_000)));
        assert_eq!(answered.silent(at(7000)), Duration::from_secs(2));
        // Another thread may be a little ahead.
        assert_eq!((answered.after(at(4000), None, true), answered.silent(at(4000))), (answered, Duration::ZERO));
    }

    #[test]
    fn a_packet_in_the_same_eighth_of_a_second_changes_nothing() {
        let state = State::new(State(0), at(1000), true, Opening::PickedUp, Some(A));
        assert_eq!(state.after(at(1124), Some(A), true), state);
        assert_ne!(state.after(at(1125), Some(A), true), state);
    }

    #[test]
    fn each_filling_has_its_own_tag_and_touches_leave_it() {
        let first = State::new(State(0), at(0), true, Opening::Opened, Some(S));
        let next = State::new(first, at(0), true, Opening::Opened, Some(S));
        assert!(!first.same_flow(next) && first.same_flow(first.after(at(u64::MAX), Some(R), false)));
        let last = State(u64::MAX << TAG_SHIFT);
        assert_eq!(State::new(last, at(0), false, Opening::Opened, None), State(0), "the tag wraps into nothing else");
        let stamp = Stamp::new(next, u64::MAX);
        assert_eq!((stamp.version(), stamp.0 >> TAG_SHIFT), (VERSION_MASK, 2));
        assert_eq!((stamp.renewed(7).version(), stamp.renewed(7).0 >> TAG_SHIFT), (7, 2));
        assert_eq!(tick(at(u64::MAX)), u32::MAX);
    }
}
