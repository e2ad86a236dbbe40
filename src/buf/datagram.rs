//! The note beside a packet that is, or will be, a datagram on the underlay, or a train of them.

use std::ops::Range;

use crate::net::{Ecn, Endpoint};

/// Where a datagram came from or goes to. One slot may hold a whole train: datagrams of one size behind each other, of which
/// only the last may be shorter, all from or to the same peer with the same mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The other end, on the underlay.
    pub peer: Endpoint,
    /// The outer header's congestion mark.
    pub ecn: Ecn,
    /// Bytes of each datagram in the slot but the last; 0: the slot is one datagram.
    pub segment_bytes: u16,
    /// To be sent only: the inner packets may be fragmented, so the datagrams may be too where the path is narrow.
    pub may_fragment: bool,
    /// Received only: the datagram was longer than its slot.
    pub truncated: bool,
    /// Set by a send: what did not leave, if something did not.
    pub refused: Option<Refused>,
}

/// The datagrams of a slot that did not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why; of several reasons, the last.
    pub reason: Refusal,
    /// Which: bit N is the Nth datagram of the slot, from 0. A train is never longer than that.
    pub which: u128,
}

/// Why the kernel did not take a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The path is narrower than the datagram (EMSGSIZE).
    TooBig,
    /// The send buffer is full (EAGAIN, ENOBUFS).
    NoBuffer,
    /// Anything else: no route, interface down, firewall.
    Other,
}

/// Most datagrams of a slot: as many as the kernel takes in one `UDP_SEGMENT` send since 6.9; 64 before.
pub const TRAIN_DATAGRAMS: usize = 128;

/// How much one slot to be sent may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainLimit {
    /// Datagrams, 1 to [`TRAIN_DATAGRAMS`].
    pub datagrams: usize,
    /// Bytes in all.
    pub bytes: usize,
}

impl TrainLimit {
    /// One datagram, of any size UDP over IPv4 can have.
    pub const ONE: Self = Self { datagrams: 1, bytes: 65_507 };
}

impl Datagram {
    /// How many datagrams a slot of `len` bytes holds. An empty one is one empty datagram.
    #[inline]
    #[must_use]
    pub fn count(&self, len: usize) -> usize {
        match usize::from(self.segment_bytes) {
            0 => 1,
            segment => len.div_ceil(segment).max(1),
        }
    }

    /// Where the datagram `at`, from 0, of a slot of `len` bytes lies.
    #[inline]
    #[must_use]
    pub fn range(&self, at: usize, len: usize) -> Range<usize> {
        match usize::from(self.segment_bytes) {
            0 => 0..len,
            segment => (at * segment).min(len)..((at + 1) * segment).min(len),
        }
    }

    /// Marks every datagram of the slot as refused.
    #[inline]
    pub fn refuse(&mut self, reason: Refusal) {
        self.refused = Some(Refused { reason, which: u128::MAX });
    }

    /// Marks the datagram `at`, from 0, as refused, beside those that are already.
    #[inline]
    pub fn refuse_one(&mut self, at: usize, reason: Refusal) {
        let which = self.refused.map_or(0, |refused| refused.which);
        self.refused =
            Some(Refused { reason, which: which | 1u128.checked_shl(u32::try_from(at).unwrap_or(u32::MAX)).unwrap_or(0) });
    }
}

impl Refused {
    /// Whether the datagram `at`, from 0, is among them.
    #[inline]
    #[must_use]
    pub fn contains(&self, at: usize) -> bool {
        at < TRAIN_DATAGRAMS && self.which >> at & 1 == 1
    }
}

impl Default for Datagram {
    fn default() -> Self {
        Self {
            peer: Endpoint::from(([0, 0, 0, 0], 0)),
            ecn: Ecn::NotEct,
            segment_bytes: 0,
            may_fragment: false,
            truncated: false,
            refused: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_one_datagram_or_a_train_with_a_short_end() {
        let one = Datagram::default();
        assert_eq!((one.count(0), one.count(1472), one.range(0, 1472)), (1, 1, 0..1472));
        let train = Datagram { segment_bytes: 100, ..one };
        assert_eq!([0, 1, 100, 101, 250].map(|len| train.count(len)), [1, 1, 1, 2, 3]);
        assert_eq!([0, 1, 2, 3].map(|at| train.range(at, 250)), [0..100, 100..200, 200..250, 250..250]);
    }

    #[test]
    fn datagrams_are_refused_one_by_one_or_all() {
        let mut note = Datagram { segment_bytes: 10, ..Datagram::default() };
        for at in [0, 127] {
            note.refuse_one(at, Refusal::TooBig);
        }
        note.refuse_one(128, Refusal::Other);
        let refused = note.refused.unwrap();
        assert_eq!((0..200).filter(|at| refused.contains(*at)).collect::<Vec<_>>(), [0, 127]);
        note.refuse(Refusal::NoBuffer);
        assert_eq!((0..200).filter(|at| note.refused.unwrap().contains(*at)).count(), TRAIN_DATAGRAMS);
    }
}
