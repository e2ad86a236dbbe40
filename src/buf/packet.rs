//! One packet's memory.

/// Bytes kept free in front of a packet for headers put there later (encapsulation, virtio-net header).
pub const HEADROOM: usize = 64;

/// A packet in a fixed allocation: headroom, then the bytes.
///
/// Invariant: `start + len` never exceeds the allocation, so the views never panic.
#[derive(Debug)]
pub struct Packet {
    storage: Box<[u8]>,
    start: usize,
    len: usize,
}

impl Packet {
    /// Room for `capacity` bytes beside the headroom. The only place that allocates.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { storage: vec![0; HEADROOM + capacity].into_boxed_slice(), start: HEADROOM, len: 0 }
    }

    /// Forgets the contents.
    #[inline]
    pub fn clear(&mut self) {
        self.start = HEADROOM;
        self.len = 0;
    }

    /// How many bytes fit behind the headroom.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.storage.len() - HEADROOM
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.storage.get(self.start..self.start + self.len).unwrap_or_default()
    }

    /// The bytes, to be changed in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.storage.get_mut(self.start..self.start + self.len).unwrap_or_default()
    }

    /// Clears the packet and gives its whole room to be filled; say how much was used with [`set_len`](Self::set_len).
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        self.clear();
        self.storage.get_mut(HEADROOM..).unwrap_or_default()
    }

    /// The same with `front` bytes of headroom in front of it, at most [`HEADROOM`]: for what a device puts before a packet.
    /// [`pull_front`](Self::pull_front) takes these off again.
    #[inline]
    pub fn room_with_front(&mut self, front: usize) -> &mut [u8] {
        self.start = HEADROOM - front.min(HEADROOM);
        self.len = 0;
        self.storage.get_mut(self.start..).unwrap_or_default()
    }

    /// The room behind the bytes, to be filled; say how much was used with [`extend`](Self::extend).
    #[inline]
    pub fn spare(&mut self) -> &mut [u8] {
        self.storage.get_mut(self.start + self.len..).unwrap_or_default()
    }

    /// Takes `count` filled bytes of the spare room into the packet, or as many as there are.
    #[inline]
    pub fn extend(&mut self, count: usize) {
        self.set_len(self.len.saturating_add(count));
    }

    /// The packet now is the first `len` bytes from its start; cut to what there is room for.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(self.storage.len() - self.start);
    }

    /// Replaces the contents, cut to the capacity.
    #[inline]
    pub fn fill(&mut self, bytes: &[u8]) {
        let room = self.room();
        let len = bytes.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..len), bytes.get(..len)) {
            to.copy_from_slice(from);
        }
        self.set_len(len);
    }

    /// Moves the start `count` bytes into the headroom, giving the new leading bytes; `None` when it is used up.
    #[inline]
    pub fn push_front(&mut self, count: usize) -> Option<&mut [u8]> {
        self.start = self.start.checked_sub(count)?;
        self.len += count;
        self.storage.get_mut(self.start..self.start + count)
    }

    /// Takes `count` bytes off the front; `None`, with nothing changed, when there are fewer.
    #[inline]
    pub fn pull_front(&mut self, count: usize) -> Option<()> {
        self.len = self.len.checked_sub(count)?;
        self.start += count;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_is_given_and_taken_back() {
        let mut packet = Packet::with_capacity(8);
        packet.fill(b"payload");
        packet.push_front(2).unwrap().copy_from_slice(b"hd");
        assert_eq!(packet.bytes(), b"hdpayload");
        packet.pull_front(3).unwrap();
        assert_eq!(packet.bytes(), b"ayload");
        assert!(packet.pull_front(7).is_none() && packet.push_front(HEADROOM + 2).is_none());
        assert_eq!(packet.bytes(), b"ayload");
    }

    #[test]
    fn a_packet_grows_into_its_spare_room_and_no_further() {
        let mut packet = Packet::with_capacity(6);
        packet.fill(b"one");
        packet.spare()[..2].copy_from_slice(b"tw");
        packet.extend(2);
        assert_eq!(packet.bytes(), b"onetw");
        assert_eq!(packet.spare().len(), 1);
        packet.extend(usize::MAX);
        assert_eq!(packet.bytes().len(), 6);
        assert!(packet.spare().is_empty());
    }

    #[test]
    fn what_a_device_puts_in_front_comes_off() {
        let mut packet = Packet::with_capacity(4);
        let room = packet.room_with_front(2);
        assert_eq!(room.len(), 6);
        room.copy_from_slice(b"..body");
        packet.set_len(6);
        packet.pull_front(2).unwrap();
        assert_eq!(packet.bytes(), b"body");
        assert_eq!(packet.room_with_front(1000).len(), HEADROOM + 4);
    }

    #[test]
    fn lengths_are_cut_to_the_room() {
        let mut packet = Packet::with_capacity(4);
        packet.fill(b"123456");
        assert_eq!(packet.bytes(), b"1234");
        packet.set_len(100);
        assert_eq!(packet.bytes().len(), 4);
    }
}
