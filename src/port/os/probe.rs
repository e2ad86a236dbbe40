//! Does a TUN device take super-packets? Asked by writing one that nobody can ever see.
//!
//! A write is checked and accepted before the packet is looked at, so the answer comes also for a packet that goes nowhere:
//! its IPv4 header checksum is wrong, which is the first thing the kernel looks at, before routing, firewall and sockets
//! (`ip_rcv_core`; counted as `IpInHdrErrors`). Were it right, the source (255.255.255.255) would still be one that is neither
//! routed nor answered. Wider than any MTU, in many parts, as real ones are.

use std::io;
use std::num::NonZeroU16;

use super::standing::{Switch, TunStanding};
use super::supers::{Inward, is_gone};
use crate::net::{Offload, PartialChecksum, SegmentKind, Segmentation};

const PAYLOAD: [u8; 1_000] = [0; 1_000];
const SEGMENTS: usize = 60;
const IP_BYTES: usize = 20;

/// Writes a probe of each kind that is in use, and switches off what is refused. `false`: the device takes no packets at all
/// now (it is down), so nothing was found out.
///
/// # Errors
/// Only when the device is gone.
pub(super) fn probe(out: &mut impl Inward, standing: &TunStanding) -> io::Result<bool> {
    let single = packet(SegmentKind::Udp, 0);
    match out.write(&Offload::default(), std::iter::once(single.bytes())) {
        Ok(()) => {}
        Err(error) if is_gone(&error) => return Err(error),
        Err(_) => return Ok(false),
    }
    for (kind, switch) in [(SegmentKind::Tcp4, &standing.tso), (SegmentKind::Udp, &standing.uso)] {
        if switch.is_on() {
            probe_kind(out, kind, switch)?;
        }
    }
    Ok(true)
}

/// Writes a probe of `kind` and turns `switch` off if it is refused; says whether it was taken.
///
/// # Errors
/// Only when the device is gone.
pub(super) fn probe_kind(out: &mut impl Inward, kind: SegmentKind, switch: &Switch) -> io::Result<bool> {
    let header = packet(kind, SEGMENTS);
    let parts = std::iter::once(header.bytes()).chain(std::iter::repeat_n(&PAYLOAD[..], SEGMENTS));
    match out.write(&header.offload, parts) {
        Ok(()) => Ok(true),
        Err(error) if is_gone(&error) => Err(error),
        // For want of memory, say: of the moment, not of the kernel.
        Err(error) => match error.raw_os_error() {
            Some(errno @ (libc::EINVAL | libc::EIO | libc::EOPNOTSUPP)) => {
                switch.refuse(errno);
                Ok(false)
            }
            _ => Ok(true),
        },
    }
}

/// The headers of a probe.
struct Probe {
    headers: [u8; IP_BYTES + 20],
    header_bytes: usize,
    offload: Offload,
}

impl Probe {
    fn bytes(&self) -> &[u8] {
        self.headers.get(..self.header_bytes).unwrap_or_default()
    }
}

fn packet(kind: SegmentKind, segments: usize) -> Probe {
    let (protocol, transport_bytes, offset) = if kind == SegmentKind::Udp { (17, 8, 6) } else { (6, 20, 16) };
    let header_bytes = IP_BYTES + transport_bytes;
    let payload = PAYLOAD.len() * segments;
    let length = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
    let ([t0, t1], [u0, u1]) = (length(header_bytes + payload), length(transport_bytes + payload));
    // Version and IHL, TOS, length, id, DF, TTL 1, a checksum that is wrong, 255.255.255.255 to 0.0.0.0.
    let ip = [0x45, 0, t0, t1, 0, 0, 0x40, 0, 1, protocol, 0xba, 0xd0, 255, 255, 255, 255, 0, 0, 0, 0];
    let tcp = [0, 9, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0];
    let udp = [0, 9, 0, 9, u0, u1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let transport = if kind == SegmentKind::Udp { udp } else { tcp };
    let mut headers = [0; IP_BYTES + 20];
    headers.iter_mut().zip(ip.into_iter().chain(transport)).for_each(|(to, from)| *to = from);
    let segmentation = NonZeroU16::new(u16::try_from(PAYLOAD.len()).unwrap_or(1)).map(|segment_bytes| Segmentation {
        kind,
        segment_bytes,
        header_bytes: u16::try_from(header_bytes).unwrap_or(0),
        ecn: false,
    });
    let checksum = Some(PartialChecksum { start: u16::try_from(IP_BYTES).unwrap_or(0), offset });
    Probe { headers, header_bytes, offload: Offload { checksum, segmentation } }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one's complement sum over the IPv4 header, which is 0xffff for a right one.
    fn sum(header: &[u8]) -> u32 {
        let mut sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    }

    #[test]
    fn a_probe_is_sound_but_for_its_header_checksum() {
        for (kind, segments) in [(SegmentKind::Tcp4, SEGMENTS), (SegmentKind::Udp, SEGMENTS), (SegmentKind::Udp, 0)] {
            let probe = packet(kind, segments);
            let sliced = etherparse::Ipv4HeaderSlice::from_slice(probe.bytes()).unwrap();
            assert_eq!(usize::from(sliced.total_len()), probe.bytes().len() + segments * PAYLOAD.len());
            assert_ne!(sum(&probe.bytes()[..IP_BYTES]), 0xffff, "it would be let in");
            assert!(sliced.source_addr().is_broadcast() && sliced.destination_addr().is_unspecified());
            let segmentation = probe.offload.segmentation.unwrap();
            assert_eq!((segmentation.kind, usize::from(segmentation.header_bytes)), (kind, probe.bytes().len()));
        }
    }
}
