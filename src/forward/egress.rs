//! The judgement of one packet on its way from the TUN to the underlay.

use super::{DropReason, Peers, Tunnel, ecn};
use crate::net::{Ecn, Endpoint, Offload};
use crate::wire::headers::Headers;
use crate::wire::icmp::IcmpError;
use crate::wire::ipv4::Ipv4;

/// A packet may go: whither and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The node that leases its destination.
    pub peer: Endpoint,
    /// The outer header's congestion mark.
    pub ecn: Ecn,
    /// The packet's length in bytes, before it is cut into segments; more of them may have been read.
    pub len: usize,
    /// Whether its sender lets it be fragmented.
    pub may_fragment: bool,
}

/// A packet may not go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Why.
    pub reason: DropReason,
    /// What its sender should be told, if it may be told anything at all.
    pub error: Option<IcmpError>,
}

/// Judges one packet read from the TUN, which has `offload` left to do. Pure, and at ease with any bytes.
///
/// A missing route is found before an expired TTL, as flannel does it. Bytes that are no packet get no answer.
///
/// # Errors
/// The reason to drop it, and the answer it deserves.
#[inline]
pub fn judge(tunnel: &Tunnel, peers: &mut impl Peers, bytes: &[u8], offload: &Offload) -> Result<Passage, Rejection> {
    let reject = |reason, error| Rejection { reason, error: Some(error) };
    let packet = Ipv4::parse(bytes).map_err(|malformed| Rejection { reason: malformed.into(), error: None })?;
    let destination = packet.destination();
    // The host should have delivered this itself. Flannel has no route to its own subnet either and answers the same.
    if tunnel.own.contains(destination) {
        return Err(reject(DropReason::Loop, IcmpError::NetUnreachable));
    }
    let peer = peers.peer_of(destination).ok_or(reject(DropReason::NoRoute, IcmpError::NetUnreachable))?;
    if peer == tunnel.endpoint || is_inside(tunnel, peer) {
        return Err(reject(DropReason::Loop, IcmpError::NetUnreachable));
    }
    if packet.ttl() < 2 {
        return Err(reject(DropReason::TtlExpired, IcmpError::TimeExceeded));
    }
    // Larger ones that may be fragmented go on: the port lets the kernel fragment the outer packet.
    if longest(&packet, offload) > usize::from(tunnel.mtu) && packet.dont_fragment() {
        return Err(reject(DropReason::TooBig, IcmpError::FragmentationNeeded { next_hop_mtu: tunnel.mtu }));
    }
    let may_fragment = !packet.dont_fragment();
    Ok(Passage { peer, ecn: ecn::outer(packet.ecn()), len: packet.total_len(), may_fragment })
}

/// Bytes of the largest inner packet that `packet` becomes.
#[inline]
fn longest(packet: &Ipv4<'_>, offload: &Offload) -> usize {
    let headers = |_| Headers::find(packet.bytes()).map_or(0, |headers| headers.payload_at);
    let cut = offload.segmentation.map(|cut| headers(cut) + usize::from(cut.segment_bytes.get()));
    cut.map_or(packet.total_len(), |cut| cut.min(packet.total_len()))
}

/// An endpoint inside the overlay would be reached through the tunnel it is the end of.
#[inline]
fn is_inside(tunnel: &Tunnel, peer: Endpoint) -> bool {
    match peer {
        Endpoint::V4(peer) => tunnel.network.contains(*peer.ip()),
        Endpoint::V6(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;
    use crate::forward::testing::{self, P64, PEER, hex};
    use crate::net::{SegmentKind, Segmentation};

    /// P64 with these bytes changed.
    fn p64(edits: &[(usize, u8)]) -> Vec<u8> {
        let mut bytes = hex(P64);
        for (at, value) in edits {
            bytes[*at] = *value;
        }
        bytes
    }

    #[test]
    fn a_packet_is_judged_by_table() {
        let no = |reason, error| Err(Rejection { reason, error });
        let unreachable = Some(IcmpError::NetUnreachable);
        let go = |ecn, len| Ok(Passage { peer: PEER, ecn, len, may_fragment: true });
        let too_big = Some(IcmpError::FragmentationNeeded { next_hop_mtu: 1472 });
        let big = |edit| {
            let mut bytes = p64(&[(2, 5), (3, 0xc1), edit]);
            bytes.resize(1473, 0);
            bytes
        };
        let table = [
            ("plain", p64(&[]), go(Ecn::NotEct, 28)),
            ("congestion mark is copied", p64(&[(1, 3)]), go(Ecn::Ce, 28)),
            ("bytes behind the end", [p64(&[]), vec![0xee; 9]].concat(), go(Ecn::NotEct, 28)),
            ("nothing", vec![], no(DropReason::TooShort, None)),
            ("19 bytes", p64(&[])[..19].to_vec(), no(DropReason::TooShort, None)),
            ("IPv6", p64(&[(0, 0x60)]), no(DropReason::NotIpv4, None)),
            ("ihl 4", p64(&[(0, 0x44)]), no(DropReason::BadHeaderLength, None)),
            ("ihl 15 of 20 bytes", p64(&[(0, 0x4f)])[..20].to_vec(), no(DropReason::BadHeaderLength, None)),
            ("longer than read", p64(&[(3, 29)]), no(DropReason::BadTotalLength, None)),
            ("shorter than its header", p64(&[(3, 19)]), no(DropReason::BadTotalLength, None)),
            ("nobody's", p64(&[(17, 6)]), no(DropReason::NoRoute, unreachable)),
            ("nobody's, TTL 1", p64(&[(17, 6), (8, 1)]), no(DropReason::NoRoute, unreachable)),
            ("our own", p64(&[(18, 16)]), no(DropReason::Loop, unreachable)),
            ("a peer that is us", p64(&[(18, 30)]), no(DropReason::Loop, unreachable)),
            ("a peer inside the overlay", p64(&[(18, 31)]), no(DropReason::Loop, unreachable)),
            ("TTL 2", p64(&[(8, 2)]), go(Ecn::NotEct, 28)),
            ("TTL 1", p64(&[(8, 1)]), no(DropReason::TtlExpired, Some(IcmpError::TimeExceeded))),
            ("TTL 0", p64(&[(8, 0)]), no(DropReason::TtlExpired, Some(IcmpError::TimeExceeded))),
            ("too big, DF", big((6, 0x40)), no(DropReason::TooBig, too_big)),
            ("too big, TTL 1", big((8, 1)), no(DropReason::TtlExpired, Some(IcmpError::TimeExceeded))),
            ("too big, no DF", big((6, 0)), go(Ecn::NotEct, 1473)),
            ("as big as can be", big((6, 0x40))[..1472].to_vec(), no(DropReason::BadTotalLength, None)),
        ];
        for (name, bytes, expected) in table {
            assert_eq!(judge(&testing::tunnel(), &mut testing::peers(), &bytes, &Offload::default()), expected, "{name}");
        }
        let mut full = big((3, 0xc0));
        full[6] = 0x40;
        let whole = Passage { peer: PEER, ecn: Ecn::NotEct, len: 1472, may_fragment: false };
        assert_eq!(judge(&testing::tunnel(), &mut testing::peers(), &full, &Offload::default()), Ok(whole));
    }

    #[test]
    fn a_super_packet_is_as_large_as_its_largest_segment() {
        let mut bytes = Vec::new();
        let builder = etherparse::PacketBuilder::ipv4([10, 5, 16, 2], [10, 5, 20, 3], 64).tcp(1, 2, 3, 4);
        builder.write(&mut bytes, &vec![0; 20_000]).unwrap();
        bytes[6] = 0x40;
        let cut = |segment_bytes: u16| Offload {
            segmentation: NonZeroU16::new(segment_bytes).map(|segment_bytes| Segmentation {
                kind: SegmentKind::Tcp4,
                segment_bytes,
                header_bytes: 0,
                ecn: false,
            }),
            ..Offload::default()
        };
        let judged = |offload| judge(&testing::tunnel(), &mut testing::peers(), &bytes, &offload).map_err(|no| no.reason);
        assert_eq!(judged(cut(1472 - 40)).map(|passage| passage.len), Ok(20_040));
        assert_eq!(judged(cut(1472 - 39)), Err(DropReason::TooBig));
        assert_eq!(judged(Offload::default()), Err(DropReason::TooBig));
    }
}
