//! A batch: the unit of work of a worker.

use super::Packet;

/// A fixed number of packet slots, each with a note `M` beside it (where from, where to), the first `len` of them in use.
///
/// Slots are allocated once; taking and dropping packets only moves the mark.
#[derive(Debug)]
pub struct Batch<M> {
    slots: Vec<(Packet, M)>,
    len: usize,
}

impl<M: Default> Batch<M> {
    /// `slots` empty slots of `capacity` bytes each.
    #[must_use]
    pub fn new(slots: usize, capacity: usize) -> Self {
        Self { slots: (0..slots).map(|_| (Packet::with_capacity(capacity), M::default())).collect(), len: 0 }
    }
}

impl<M> Batch<M> {
    /// Packets in use.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no packet is in use.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether every slot is in use.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len == self.slots.len()
    }

    /// Empties the batch; memory stays.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// The next free slot, to be filled and then taken into use by [`commit`](Self::commit); `None` when full.
    #[inline]
    pub fn vacant(&mut self) -> Option<&mut (Packet, M)> {
        self.slots.get_mut(self.len)
    }

    /// All free slots, for ports that fill several at once.
    #[inline]
    pub fn vacant_mut(&mut self) -> &mut [(Packet, M)] {
        self.slots.get_mut(self.len..).unwrap_or_default()
    }

    /// Takes the next `count` filled slots into use.
    #[inline]
    pub fn commit(&mut self, count: usize) {
        self.len = (self.len + count).min(self.slots.len());
    }

    /// Swaps `packet` with the next free slot's and takes it into use with `note`: a move without copying.
    /// `false`, with nothing changed, when full.
    #[inline]
    pub fn swap_in(&mut self, packet: &mut Packet, note: M) -> bool {
        let Some(slot) = self.slots.get_mut(self.len) else { return false };
        std::mem::swap(&mut slot.0, packet);
        slot.1 = note;
        self.len += 1;
        true
    }

    /// The packets in use.
    #[inline]
    #[must_use]
    pub fn used(&self) -> &[(Packet, M)] {
        self.slots.get(..self.len).unwrap_or_default()
    }

    /// The packets in use, to be changed in place.
    #[inline]
    pub fn used_mut(&mut self) -> &mut [(Packet, M)] {
        self.slots.get_mut(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_move_between_batches_without_copying() {
        let (mut from, mut to) = (Batch::<()>::new(2, 16), Batch::<u8>::new(1, 16));
        from.vacant().unwrap().0.fill(b"one");
        from.commit(1);
        let address = from.used()[0].0.bytes().as_ptr();
        assert!(to.swap_in(&mut from.used_mut()[0].0, 7));
        assert_eq!((to.used()[0].0.bytes(), to.used()[0].1), (&b"one"[..], 7));
        assert_eq!(to.used()[0].0.bytes().as_ptr(), address);
        assert!(to.is_full() && !to.swap_in(&mut from.used_mut()[0].0, 8));
    }
}
