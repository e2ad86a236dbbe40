//! How a batch is sent: slots in order, trains whole as long as that works, and what becomes of each refusal.
//!
//! A train that is refused is sent again datagram by datagram, in the same place, before anything behind it. Whether that was
//! the path (it has become narrower: kernels answer EMSGSIZE, before 6.14 EINVAL) or the offload (EIO, EINVAL) shows then: a
//! path refuses the datagrams, too. Only an offload is switched off.

use std::io;

use super::standing::UdpStanding;
use crate::buf::{Datagram, Packet, Refusal};
use crate::sys::udp::Outgoing;

type Slot = (Packet, Datagram);

/// How often a batch goes past errors that earlier datagrams left on the socket.
const STALE_ERRORS: usize = 16;
/// Datagrams of a train before Linux 6.9.
const SHORT_TRAIN: usize = 64;

/// What messages leave through.
pub(super) trait Outlet {
    /// Sends messages in order, up to as many as go in one call or until one is refused; how many left.
    ///
    /// # Errors
    /// What there is against the first of them.
    fn send<'a>(&mut self, messages: impl Iterator<Item = Outgoing<'a>>) -> io::Result<usize>;

    /// Datagrams wider than the path may be split from now on, or not any more.
    fn set_splitting(&mut self, may_split: bool) -> io::Result<()>;

    /// Waits a moment for room in the send buffer.
    fn wait_for_room(&mut self) -> io::Result<()>;
}

/// Sends every one of `slots` in order; those of which something did not leave carry their note afterwards. How many these are.
///
/// # Errors
/// Only when the outlet itself is unusable.
pub(super) fn send(outlet: &mut impl Outlet, standing: &UdpStanding, slots: &mut [Slot]) -> io::Result<usize> {
    for (_, note) in slots.iter_mut() {
        note.refused = None;
    }
    let mut run = Run {
        at: Place::default(),
        standing,
        singly: None,
        suspect: None,
        splitting: None,
        stale: 0,
        waited: false,
        clean: true,
    };
    while run.at.slot < slots.len() {
        let messages = run.messages(slots);
        match outlet.send(messages) {
            Ok(0) => break,
            Ok(sent) => run.advance(slots, sent),
            Err(error) => run.refused(outlet, slots, error)?,
        }
        run.stop_splitting(outlet)?;
    }
    Ok(if run.clean { 0 } else { slots.iter().filter(|(_, note)| note.refused.is_some()).count() })
}

/// A datagram of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    slot: usize,
    /// Which of the slot's datagrams.
    datagram: usize,
}

/// One batch on its way.
struct Run<'a> {
    standing: &'a UdpStanding,
    /// The next that has not left.
    at: Place,
    /// The slot whose datagrams are sent one by one although it could be a train.
    singly: Option<usize>,
    /// The slot that was refused as a train in a way that may be the offload's fault, and how.
    suspect: Option<(usize, i32)>,
    /// The slot whose datagrams may be split.
    splitting: Option<usize>,
    stale: usize,
    waited: bool,
    clean: bool,
}

/// The messages of a batch from some place on.
struct Messages<'a> {
    slots: &'a [Slot],
    at: Place,
    /// Not beyond this slot.
    end: usize,
    /// Most datagrams of a train.
    segments: usize,
    singly: Option<usize>,
}

impl Run<'_> {
    fn messages<'a>(&self, slots: &'a [Slot]) -> Messages<'a> {
        let end = self.splitting.map_or(slots.len(), |slot| slot + 1);
        Messages { slots, at: self.at, end, segments: self.standing.segments(), singly: self.singly }
    }

    /// Goes past `sent` messages.
    fn advance(&mut self, slots: &[Slot], sent: usize) {
        let mut messages = self.messages(slots);
        messages.by_ref().take(sent).for_each(drop);
        if let Some((slot, errno)) = self.suspect.take_if(|(slot, _)| *slot == self.at.slot) {
            // Its first datagram has left by itself: so it was not the path.
            self.convict(slots, slot, errno);
        }
        self.at = messages.at;
    }

    /// The train in `slot` was refused for being one.
    #[cold]
    fn convict(&self, slots: &[Slot], slot: usize, errno: i32) {
        let count = slots.get(slot).map_or(0, |(packet, note)| note.count(packet.bytes().len()));
        if errno == libc::EINVAL && count > SHORT_TRAIN && self.standing.segments() > SHORT_TRAIN {
            self.standing.shorten(SHORT_TRAIN);
        } else {
            self.standing.gso.refuse(errno);
        }
    }

    /// Deals with the refusal of the next message.
    #[cold]
    fn refused(&mut self, outlet: &mut impl Outlet, slots: &mut [Slot], error: io::Error) -> io::Result<()> {
        let is_train = self.messages(slots).next().is_some_and(|message| message.segment_bytes != 0);
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // Left by an earlier datagram, and taken by being told: this one has not been tried.
            Some(libc::ECONNREFUSED) if self.stale < STALE_ERRORS => self.stale += 1,
            Some(libc::EAGAIN) if !self.waited => {
                self.waited = true;
                outlet.wait_for_room()?;
            }
            Some(libc::EAGAIN) => {
                while self.at.slot < slots.len() {
                    self.give_up(slots, Refusal::NoBuffer);
                }
            }
            Some(errno @ (libc::EIO | libc::EINVAL | libc::EMSGSIZE)) if is_train => {
                self.singly = Some(self.at.slot);
                match errno {
                    libc::EIO => self.convict(slots, self.at.slot, errno),
                    libc::EINVAL => self.suspect = Some((self.at.slot, errno)),
                    _ => {}
                }
            }
            Some(libc::EMSGSIZE) => self.too_big(outlet, slots)?,
            Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT) | None => return Err(error),
            Some(libc::ENOBUFS | libc::ENOMEM) if is_train => self.give_up(slots, Refusal::NoBuffer),
            Some(libc::ENOBUFS | libc::ENOMEM) => self.skip(slots, Refusal::NoBuffer),
            Some(_) if is_train => self.give_up(slots, Refusal::Other),
            Some(_) => self.skip(slots, Refusal::Other),
        }
        Ok(())
    }

    /// A single datagram is too big: it is split, or so are all others of its size in the slot.
    fn too_big(&mut self, outlet: &mut impl Outlet, slots: &mut [Slot]) -> io::Result<()> {
        self.suspect = None;
        let Some((packet, note)) = slots.get(self.at.slot) else { return Ok(()) };
        if note.may_fragment && self.splitting.is_none() {
            self.splitting = Some(self.at.slot);
            return outlet.set_splitting(true);
        }
        let (slot, len, note) = (self.at.slot, packet.bytes().len(), *note);
        let width = note.range(self.at.datagram, len).len();
        while self.at.slot == slot && note.range(self.at.datagram, len).len() == width {
            self.skip(slots, Refusal::TooBig);
        }
        Ok(())
    }

    /// Leaves out the next datagram.
    fn skip(&mut self, slots: &mut [Slot], reason: Refusal) {
        self.clean = false;
        let Some((packet, note)) = slots.get_mut(self.at.slot) else { return };
        note.refuse_one(self.at.datagram, reason);
        self.at = after(self.at, note.count(packet.bytes().len()));
    }

    /// Leaves out the rest of the slot in hand.
    fn give_up(&mut self, slots: &mut [Slot], reason: Refusal) {
        let slot = self.at.slot;
        while self.at.slot == slot && slot < slots.len() {
            self.skip(slots, reason);
        }
    }

    /// Once the slot whose datagrams may be split is done with, others may not.
    fn stop_splitting(&mut self, outlet: &mut impl Outlet) -> io::Result<()> {
        if self.splitting.take_if(|slot| *slot != self.at.slot).is_some() {
            outlet.set_splitting(false)?;
        }
        Ok(())
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Outgoing<'a>;

    #[inline]
    fn next(&mut self) -> Option<Outgoing<'a>> {
        let Place { slot, datagram } = self.at;
        if slot >= self.end {
            return None;
        }
        let (packet, note) = self.slots.get(slot)?;
        let bytes = packet.bytes();
        let whole = |segment_bytes| Outgoing { bytes, peer: note.peer, ecn: note.ecn, segment_bytes };
        let count = note.count(bytes.len());
        if count == 1 || (datagram == 0 && count <= self.segments && self.singly != Some(slot)) {
            self.at = Place { slot: slot + 1, datagram: 0 };
            return Some(whole(if count == 1 { 0 } else { note.segment_bytes }));
        }
        self.at = after(self.at, count);
        Some(Outgoing { bytes: bytes.get(note.range(datagram, bytes.len())).unwrap_or_default(), ..whole(0) })
    }
}

/// The place behind `at`, in a slot of `count` datagrams.
#[inline]
fn after(at: Place, count: usize) -> Place {
    match at.datagram + 1 {
        next if next < count => Place { datagram: next, ..at },
        _ => Place { slot: at.slot + 1, datagram: 0 },
    }
}

#[cfg(test)]
#[path = "trains_tests.rs"]
mod tests;
