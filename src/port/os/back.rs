//! How packets that were read from a TUN are written back to it: as they came, whole and with their checksums as partial as
//! they were, as long as that works.
//!
//! A super-packet that is refused, or whose kind is, is cut and written as the packets of a wire that it stands for, and a
//! checksum that the kernel will not complete is completed here: the kernel that handed it over may be one that will not take
//! it back (R14). What a refusal means for the ones to come is decided as for gathered packets.

use std::io;

use super::standing::TunStanding;
use super::supers::{Doubts, Inward, Matter, is_gone};
use crate::buf::Batch;
use crate::net::Offload;
use crate::wire::segment::Segments;

/// Room for one segment of whatever a batch's slot can hold.
pub(super) const SEGMENT_BYTES: usize = 65_536;

/// Writes the packets of `batch`. How many packets of a wire did not get in. `room` is for one segment at a time.
///
/// # Errors
/// Only when the device is gone.
pub(super) fn send(
    out: &mut impl Inward,
    standing: &TunStanding,
    doubts: &mut Doubts,
    batch: &Batch<Offload>,
    room: &mut [u8],
) -> io::Result<usize> {
    let mut refused = 0;
    for (packet, offload) in batch.used() {
        let (packet, kind) = (packet.bytes(), offload.segmentation.map(|segmentation| segmentation.kind));
        let matter = kind.map(|kind| Matter::of(kind, standing, doubts));
        if matter.as_ref().is_some_and(|matter| !matter.switch.is_on()) {
            refused += write_segments(out, packet, offload, room)?.lost;
            continue;
        }
        match (out.write(offload, std::iter::once(packet)), matter) {
            (Ok(()), Some(matter)) => *matter.doubts = 0,
            (Ok(()), None) => {}
            (Err(error), _) if is_gone(&error) => return Err(error),
            // There is no other way to write it.
            (Err(_), None) if offload.checksum.is_none() => refused += 1,
            (Err(error), matter) => {
                let Written { all, lost } = write_segments(out, packet, offload, room)?;
                refused += lost;
                // With all of them refused, it is the device or the packet.
                if let Some(matter) = matter.filter(|_| lost < all) {
                    matter.suffer(out, &error)?;
                }
            }
        }
    }
    Ok(refused)
}

/// What became of the packets that one stands for.
struct Written {
    all: usize,
    lost: usize,
}

/// Writes the packets of a wire that `packet` stands for.
#[cold]
fn write_segments(out: &mut impl Inward, packet: &[u8], offload: &Offload, room: &mut [u8]) -> io::Result<Written> {
    let Ok(segments) = Segments::new(packet, offload) else { return Ok(Written { all: 1, lost: 1 }) };
    let mut written = Written { all: segments.count(), lost: 0 };
    for at in 0..written.all {
        let segment = segments.write(at, room).and_then(|len| room.get(..len));
        match segment.map(|segment| out.write(&Offload::default(), std::iter::once(segment))) {
            Some(Ok(())) => {}
            Some(Err(error)) if is_gone(&error) => return Err(error),
            Some(Err(_)) | None => written.lost += 1,
        }
    }
    Ok(written)
}

#[cfg(test)]
#[path = "back_tests.rs"]
mod tests;
