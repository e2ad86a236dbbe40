//! How gathered packets are written: super-packets whole as long as that works, and what becomes of each refusal.
//!
//! What is refused as a whole is written as the packets it was made of, in the same place. Whether the packet was odd or the
//! kernel takes none of its kind (R14) is then found out by a [`probe`]: refused too, writing super-packets of
//! that kind ends at once; taken, it ends only when many refusals follow each other.

use std::io;

use super::probe;
use super::standing::{Switch, TunStanding};
use crate::buf::{Batch, Datagram, Gather, Gathered, Piece};
use crate::net::{Offload, SegmentKind};
use crate::sys::tun::WRITE_PARTS;

/// Refusals of one kind, none of that kind taken between, after which the kernel is not asked any more: each costs two or
/// three calls more than not trying.
const PATIENCE: u32 = 16;

/// What packets are written to.
pub(super) trait Inward {
    /// Writes one packet, given in parts, of which the kernel has `offload` left to do.
    ///
    /// # Errors
    /// What the kernel has against it.
    fn write<'a>(&mut self, offload: &Offload, parts: impl Iterator<Item = &'a [u8]>) -> io::Result<()>;
}

/// How many super-packets of each kind have been refused in a row.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    tcp: u32,
    udp: u32,
}

/// Writes `packets`, made of pieces of `memory`, in order. How many of the packets they were made of did not get in.
///
/// # Errors
/// Only when the device is gone.
pub(super) fn send(
    out: &mut impl Inward,
    standing: &TunStanding,
    doubts: &mut Doubts,
    packets: &Gather,
    memory: &Batch<Datagram>,
) -> io::Result<usize> {
    let mut refused = 0;
    for packet in packets.packets() {
        let kind = packet.offload().segmentation.map(|segmentation| segmentation.kind);
        let matter = kind.map(|kind| Matter::of(kind, standing, doubts));
        if matter.as_ref().is_some_and(|matter| !matter.switch.is_on()) || packet.count() + 2 > WRITE_PARTS {
            refused += write_originals(out, &packet, memory)?;
            continue;
        }
        let parts = std::iter::once(packet.header()).filter(|header| !header.is_empty());
        let parts = parts.chain(packet.pieces().map(|piece| bytes_of(piece, memory)));
        match (out.write(packet.offload(), parts), matter) {
            (Ok(()), Some(matter)) => *matter.doubts = 0,
            (Ok(()), None) => {}
            (Err(error), _) if is_gone(&error) => return Err(error),
            (Err(_), None) if packet.header().is_empty() => refused += packet.count(),
            (Err(error), matter) => {
                let lost = write_originals(out, &packet, memory)?;
                refused += lost;
                // With all of them refused, it is the device or the packets.
                if let Some(matter) = matter.filter(|_| lost < packet.count()) {
                    matter.suffer(out, &error)?;
                }
            }
        }
    }
    Ok(refused)
}

/// Whether a write's error means that the device is no more: EBADFD after its removal.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADFD | libc::ENODEV | libc::ENXIO | libc::EBADF))
}

/// What there is to know of one kind of super-packets.
pub(super) struct Matter<'a> {
    kind: SegmentKind,
    pub(super) switch: &'a Switch,
    /// Refusals in a row.
    pub(super) doubts: &'a mut u32,
}

impl<'a> Matter<'a> {
    pub(super) fn of(kind: SegmentKind, standing: &'a TunStanding, doubts: &'a mut Doubts) -> Self {
        match kind {
            SegmentKind::Tcp4 | SegmentKind::Tcp6 => Self { kind, switch: &standing.tso, doubts: &mut doubts.tcp },
            SegmentKind::Udp => Self { kind, switch: &standing.uso, doubts: &mut doubts.udp },
        }
    }

    /// A super-packet was refused whose originals were not.
    #[cold]
    pub(super) fn suffer(self, out: &mut impl Inward, error: &io::Error) -> io::Result<()> {
        let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
        // For want of memory, say: of the moment.
        if matches!(errno, libc::ENOMEM | libc::ENOBUFS | libc::EAGAIN) {
            return Ok(());
        }
        *self.doubts += 1;
        if *self.doubts >= PATIENCE {
            self.switch.refuse(errno);
        } else if *self.doubts == 1 {
            // The probe is TCP over IPv4 for both versions of IP.
            let kind = if self.kind == SegmentKind::Udp { SegmentKind::Udp } else { SegmentKind::Tcp4 };
            probe::probe_kind(out, kind, self.switch)?;
        }
        Ok(())
    }
}

/// Writes the packets that `packet` was made of; how many were refused.
#[cold]
fn write_originals(out: &mut impl Inward, packet: &Gathered<'_>, memory: &Batch<Datagram>) -> io::Result<usize> {
    let mut refused = 0;
    for original in packet.originals() {
        match out.write(&Offload::default(), std::iter::once(bytes_of(original, memory))) {
            Ok(()) => {}
            Err(error) if is_gone(&error) => return Err(error),
            Err(_) => refused += 1,
        }
    }
    Ok(refused)
}

#[inline]
fn bytes_of(piece: Piece, memory: &Batch<Datagram>) -> &[u8] {
    memory.used().get(usize::from(piece.slot)).and_then(|(packet, _)| packet.bytes().get(piece.range())).unwrap_or_default()
}

#[cfg(test)]
#[path = "supers_tests.rs"]
mod tests;
