//! Packets put together from pieces that lie elsewhere: how many received packets become one super-packet without a copy.

use std::ops::Range;

use crate::net::Offload;

/// Bytes a new header may have: an IPv6 header and a TCP header with all options.
pub const GATHERED_HEADER: usize = 100;

/// Packets that each consist of a header of their own, possibly empty, and pieces of the slots of one batch.
///
/// Memory is allocated once. Pieces of several packets may be added in turn; each packet's keep their order.
///
/// Where a packet has a header of its own, each of its pieces is the payload of a packet in the batch and lies right behind
/// the header that came with it, as long as its own [`header`](Gathered::header). So if the whole is refused, the originals can
/// still be written one by one.
#[derive(Debug)]
pub struct Gather {
    packets: Vec<Entry>,
    pieces: Vec<Link>,
}

/// A range of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Which slot of the batch.
    pub slot: u16,
    /// First byte.
    pub start: u32,
    /// How many bytes.
    pub len: u32,
}

#[derive(Debug)]
struct Entry {
    offload: Offload,
    header: [u8; GATHERED_HEADER],
    header_bytes: u8,
    first: u16,
    last: u16,
    pieces: u16,
    bytes: u32,
}

#[derive(Debug)]
struct Link {
    piece: Piece,
    next: u16,
}

/// The end of a list of pieces.
const NONE: u16 = u16::MAX;

/// One of the packets.
#[derive(Clone, Copy, Debug)]
pub struct Gathered<'a> {
    entry: &'a Entry,
    links: &'a [Link],
}

impl Gather {
    /// Room for `packets` packets made of `pieces` pieces in all, at most 65,534.
    #[must_use]
    pub fn new(packets: usize, pieces: usize) -> Self {
        Self { packets: Vec::with_capacity(packets), pieces: Vec::with_capacity(pieces.min(usize::from(NONE) - 1)) }
    }

    /// How many packets there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether another packet of one piece might find no room.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.packets.len() == self.packets.capacity() || self.pieces.len() == self.pieces.capacity()
    }

    /// Empties it; memory stays.
    #[inline]
    pub fn clear(&mut self) {
        self.packets.clear();
        self.pieces.clear();
    }

    /// Adds a packet that is `piece` and nothing else, and gives its number; `None`, with nothing changed, when full.
    #[inline]
    pub fn push(&mut self, piece: Piece) -> Option<usize> {
        if self.is_full() {
            return None;
        }
        let at = u16::try_from(self.pieces.len()).ok()?;
        self.pieces.push(Link { piece, next: NONE });
        self.packets.push(Entry {
            offload: Offload::default(),
            header: [0; GATHERED_HEADER],
            header_bytes: 0,
            first: at,
            last: at,
            pieces: 1,
            bytes: piece.len,
        });
        Some(self.packets.len() - 1)
    }

    /// Adds a piece to the end of packet `number`; `false`, with nothing changed, when full or there is none such.
    #[inline]
    pub fn append(&mut self, number: usize, piece: Piece) -> bool {
        if self.pieces.len() == self.pieces.capacity() {
            return false;
        }
        let Some(packet) = self.packets.get_mut(number) else { return false };
        let Ok(at) = u16::try_from(self.pieces.len()) else { return false };
        let Some(last) = self.pieces.get_mut(usize::from(packet.last)) else { return false };
        last.next = at;
        self.pieces.push(Link { piece, next: NONE });
        packet.last = at;
        packet.pieces += 1;
        packet.bytes += piece.len;
        true
    }

    /// Gives packet `number` another header in the place of the one its first piece begins with, of the same length, and says
    /// what is left to do. `false`, with nothing changed, if that is not possible.
    #[inline]
    pub fn crown(&mut self, number: usize, header: &[u8], offload: Offload) -> bool {
        let Some(packet) = self.packets.get_mut(number) else { return false };
        let Some(Link { piece, .. }) = self.pieces.get_mut(usize::from(packet.first)) else { return false };
        let (Ok(len), Some(room)) = (u8::try_from(header.len()), packet.header.get_mut(..header.len())) else { return false };
        if packet.header_bytes != 0 || piece.len < u32::from(len) {
            return false;
        }
        room.copy_from_slice(header);
        packet.header_bytes = len;
        packet.offload = offload;
        piece.start += u32::from(len);
        piece.len -= u32::from(len);
        true
    }

    /// The packets, in the order they were begun.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = Gathered<'_>> {
        self.packets.iter().map(|entry| Gathered { entry, links: &self.pieces })
    }
}

impl<'a> Gathered<'a> {
    /// What is left to do.
    #[inline]
    #[must_use]
    pub fn offload(&self) -> &'a Offload {
        &self.entry.offload
    }

    /// Its own header, in front of the pieces; empty when the first piece begins with it.
    #[inline]
    #[must_use]
    pub fn header(&self) -> &'a [u8] {
        self.entry.header.get(..usize::from(self.entry.header_bytes)).unwrap_or_default()
    }

    /// Its pieces, in order.
    #[inline]
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + use<'a> {
        let links = self.links;
        let mut next = self.entry.first;
        std::iter::from_fn(move || {
            let link = links.get(usize::from(next))?;
            next = link.next;
            Some(link.piece)
        })
    }

    /// The pieces as they came, each with the header in front of it.
    #[inline]
    pub fn originals(&self) -> impl Iterator<Item = Piece> + use<'a> {
        let header = u32::from(self.entry.header_bytes);
        self.pieces().map(move |piece| Piece { start: piece.start.saturating_sub(header), len: piece.len + header, ..piece })
    }

    /// How many packets it was made of.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        usize::from(self.entry.pieces)
    }

    /// Bytes of the whole packet, its own header included.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entry.bytes as usize
    }
}

impl Piece {
    /// Bytes `range` of a slot. Neither a batch nor a slot has room for more than the fields can say.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a batch has hundreds of slots, and a slot some 64 KiB")]
    pub const fn new(slot: usize, range: Range<usize>) -> Self {
        Self { slot: slot as u16, start: range.start as u32, len: (range.end - range.start) as u32 }
    }

    /// The bytes it stands for, in the slots' order given by `slot`; empty where there are none such.
    #[inline]
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.len as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(slot: u16, start: u32, len: u32) -> Piece {
        Piece { slot, start, len }
    }

    #[test]
    fn pieces_of_packets_in_turn_keep_their_order() {
        let mut gather = Gather::new(2, 5);
        assert_eq!(gather.push(piece(0, 0, 50)), Some(0));
        assert_eq!(gather.push(piece(0, 50, 30)), Some(1));
        assert!(gather.append(0, piece(1, 40, 10)) && gather.append(1, piece(1, 90, 5)) && gather.append(0, piece(2, 40, 7)));
        assert!(gather.is_full() && gather.push(piece(3, 0, 1)).is_none() && !gather.append(0, piece(3, 0, 1)));
        assert!(gather.crown(0, &[7; 40], Offload::default()) && !gather.crown(0, &[7; 5], Offload::default()));
        assert!(!gather.crown(1, &[7; 31], Offload::default()) && !gather.crown(2, &[], Offload::default()));

        let packets: Vec<_> = gather.packets().collect();
        assert_eq!(packets[0].pieces().collect::<Vec<_>>(), [piece(0, 40, 10), piece(1, 40, 10), piece(2, 40, 7)]);
        assert_eq!(packets[0].originals().collect::<Vec<_>>(), [piece(0, 0, 50), piece(1, 0, 50), piece(2, 0, 47)]);
        assert_eq!((packets[0].header(), packets[0].count(), packets[0].bytes()), (&[7; 40][..], 3, 67));
        assert_eq!(packets[1].pieces().collect::<Vec<_>>(), [piece(0, 50, 30), piece(1, 90, 5)]);
        assert_eq!((packets[1].header().len(), packets[1].count(), packets[1].bytes()), (0, 2, 35));

        gather.clear();
        assert!(gather.is_empty() && gather.packets().len() == 0 && !gather.is_full());
        assert_eq!(piece(9, 3, 4).range(), 3..7);
    }
}
