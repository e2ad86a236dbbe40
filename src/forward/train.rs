//! Trains: datagrams to one peer, behind each other in one slot, so that one system call sends them all.

use super::egress::Passage;
use crate::buf::{Batch, Datagram, TrainLimit};

/// How many slots back the newest train of a peer is looked for. Flows to more peers at once take turns in slots of their
/// own; what they lose is only length.
const LOOK_BACK: usize = 8;

/// The slots of a batch as trains that may still grow.
pub(super) struct Trains<'a> {
    slots: &'a mut Batch<Datagram>,
    limit: TrainLimit,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Boarded {
    /// It is in.
    Yes,
    /// There is no slot left: the batch is to be sent first.
    NoSlot,
    /// It could not be written, not even into an empty slot.
    Never,
}

impl<'a> Trains<'a> {
    /// Trains no longer than `limit`.
    pub fn new(slots: &'a mut Batch<Datagram>, limit: TrainLimit) -> Self {
        Self { slots, limit }
    }

    /// Adds a datagram of `len` bytes, which `write` puts into the room it is given, at the end of the newest train to its
    /// peer if it fits there, else as the first of a new one. So the order of datagrams to one peer is kept.
    #[inline]
    pub fn board(&mut self, passage: &Passage, len: usize, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Boarded {
        let limit = self.limit;
        let newest = self.slots.used_mut().iter_mut().rev().take(LOOK_BACK).find(|(_, note)| note.peer == passage.peer);
        if let Some((packet, note)) = newest
            && packet.bytes().len() + len <= packet.capacity()
            && joins(note, packet.bytes().len(), passage, len, limit)
        {
            let Some(written) = write(packet.spare()) else { return Boarded::Never };
            packet.extend(written);
            return Boarded::Yes;
        }
        let Some((packet, note)) = self.slots.vacant() else { return Boarded::NoSlot };
        let Some(written) = write(packet.room()) else { return Boarded::Never };
        packet.set_len(written);
        let Passage { peer, ecn, may_fragment, .. } = *passage;
        *note = Datagram { peer, ecn, may_fragment, segment_bytes: u16::try_from(written).unwrap_or(0), ..Datagram::default() };
        self.slots.commit(1);
        Boarded::Yes
    }

    /// Whether nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// Whether a datagram of `len` bytes may follow the `bytes` of this train. A shorter one may, and ends it.
#[inline]
fn joins(train: &Datagram, bytes: usize, passage: &Passage, len: usize, limit: TrainLimit) -> bool {
    let segment = usize::from(train.segment_bytes);
    train.ecn == passage.ecn
        && train.may_fragment == passage.may_fragment
        && segment > 0
        && len <= segment
        && bytes.is_multiple_of(segment)
        && bytes + len <= limit.bytes
        && bytes / segment < limit.datagrams
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::testing::{PEER, endpoint};
    use crate::net::{Ecn, Endpoint};

    fn to(peer: Endpoint) -> Passage {
        Passage { peer, ecn: Ecn::NotEct, len: 0, may_fragment: false }
    }

    fn board(trains: &mut Trains<'_>, passage: &Passage, len: usize) -> Boarded {
        trains.board(passage, len, |room| {
            room.get_mut(..len)?.fill(7);
            Some(len)
        })
    }

    /// The trains that these datagrams make, each as its peer's host and its bytes.
    fn trains(datagrams: &[(Passage, usize)], limit: TrainLimit) -> Vec<(Endpoint, usize, u16)> {
        let mut slots = Batch::new(16, 1000);
        let mut trains = Trains::new(&mut slots, limit);
        for (passage, len) in datagrams {
            assert_eq!(board(&mut trains, passage, *len), Boarded::Yes);
        }
        slots.used().iter().map(|(packet, note)| (note.peer, packet.bytes().len(), note.segment_bytes)).collect()
    }

    const LONG: TrainLimit = TrainLimit { datagrams: 64, bytes: 65_507 };

    #[test]
    fn equal_datagrams_to_one_peer_are_a_train_and_a_shorter_one_ends_it() {
        let sent = [100, 100, 40, 40, 100].map(|len| (to(PEER), len));
        assert_eq!(trains(&sent, LONG), [(PEER, 240, 100), (PEER, 40, 40), (PEER, 100, 100)]);
    }

    #[test]
    fn peers_in_turn_have_trains_of_their_own() {
        let other = endpoint(21);
        let sent = [(to(PEER), 100), (to(other), 100), (to(PEER), 100), (to(other), 50), (to(PEER), 100)];
        assert_eq!(trains(&sent, LONG), [(PEER, 300, 100), (other, 150, 100)]);
    }

    #[test]
    fn what_the_outer_header_says_is_one_for_a_train() {
        let marked = Passage { ecn: Ecn::Ect0, ..to(PEER) };
        let loose = Passage { may_fragment: true, ..to(PEER) };
        let sent = [(to(PEER), 100), (marked, 100), (loose, 100), (loose, 100)];
        assert_eq!(trains(&sent, LONG), [(PEER, 100, 100), (PEER, 100, 100), (PEER, 200, 100)]);
    }

    #[test]
    fn a_train_is_no_longer_than_the_kernel_takes() {
        let sent = [(to(PEER), 100); 7];
        assert_eq!(trains(&sent, TrainLimit { datagrams: 3, bytes: 65_507 }).len(), 3);
        assert_eq!(trains(&sent, TrainLimit { datagrams: 64, bytes: 299 }).len(), 4);
        assert_eq!(trains(&sent, TrainLimit::ONE).len(), 7);
    }

    #[test]
    fn no_slot_is_told_from_a_datagram_that_never_fits() {
        let mut slots = Batch::new(1, 150);
        let mut trains = Trains::new(&mut slots, LONG);
        assert!(trains.is_empty());
        assert_eq!(board(&mut trains, &to(PEER), 151), Boarded::Never);
        assert_eq!(board(&mut trains, &to(PEER), 100), Boarded::Yes);
        assert_eq!(board(&mut trains, &to(endpoint(21)), 10), Boarded::NoSlot);
        assert!(!trains.is_empty());
    }
}
