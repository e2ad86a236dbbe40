//! From the TUN to the underlay.

use super::encap::Encapsulation;
use super::train::{Boarded, Trains};
use super::{DropReason, Forwarder, Peers, Tunnel, ecn};
use crate::buf::{Batch, Datagram, Packet, TrainLimit};
use crate::net::{Ecn, Endpoint, Moment, Offload};
use crate::wire::headers::Headers;
use crate::wire::icmp::IcmpError;
use crate::wire::ipv4::{Ipv4, Ipv4Mut};
use crate::wire::segment::Segments;

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

/// How far a batch has come that did not fit the slots for the wire at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// The packet it has come to.
    slot: usize,
    /// What was found of that packet, if it has been judged, and its first segment that is still to be written.
    begun: Option<(Passage, usize)>,
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

impl<E: Encapsulation> Forwarder<E> {
    /// Puts the packets of `from_tun`, cut into segments where they are to be, into trains to their peers that are no longer
    /// than `limit`; answers to those that may not go are appended to `answers`.
    ///
    /// Says whether something is left because `to_wire` is full: it is to be sent and settled by [`sent`](Self::sent), and
    /// this called again. Otherwise `from_tun` is empty afterwards.
    pub fn egress(
        &mut self,
        now: Moment,
        peers: &mut impl Peers,
        limit: TrainLimit,
        from_tun: &mut Batch<Offload>,
        to_wire: &mut Batch<Datagram>,
        answers: &mut Batch<()>,
    ) -> bool {
        if from_tun.is_empty() {
            return false;
        }
        let Progress { slot: first, mut begun } = std::mem::take(&mut self.outward);
        if let Some(tunnel) = self.tunnel {
            let mut trains = Trains::new(to_wire, limit);
            for (slot, (packet, offload)) in from_tun.used_mut().iter_mut().enumerate().skip(first) {
                let (passage, segment) = match begun.take() {
                    Some(begun) => begun,
                    None => match depart(&tunnel, peers, packet, offload) {
                        Ok(passage) => (passage, 0),
                        Err(rejection) => {
                            self.reject(now, packet, rejection, answers);
                            continue;
                        }
                    },
                };
                if let Some(segment) = self.cut(packet, offload, &passage, segment, &mut trains) {
                    self.outward = Progress { slot, begun: Some((passage, segment)) };
                    return true;
                }
            }
        } else {
            self.counters.count_drop(DropReason::Shut, from_tun.len() as u64);
        }
        self.counters.egress_batches.add(1);
        from_tun.clear();
        false
    }

    /// Writes the segments of a packet, from `first` on, into trains. The first for which there was no slot, if any.
    #[inline]
    fn cut(
        &mut self,
        packet: &Packet,
        offload: &Offload,
        passage: &Passage,
        first: usize,
        trains: &mut Trains<'_>,
    ) -> Option<usize> {
        let Ok(segments) = Segments::new(packet.bytes(), offload) else {
            self.counters.count_drop(DropReason::BadOffload, 1);
            return None;
        };
        let front = usize::from(E::OVERHEAD);
        for segment in first..segments.count() {
            let boarded = trains.board(passage, front + segments.len_of(segment), |room| {
                let (header, inner) = room.split_at_mut_checked(front)?;
                E::encap(header);
                Some(front + segments.write(segment, inner)?)
            });
            match boarded {
                Boarded::Yes => {}
                Boarded::NoSlot if !trains.is_empty() => return Some(segment),
                Boarded::NoSlot | Boarded::Never => self.counters.count_drop(DropReason::NoSlot, 1),
            }
        }
        self.counters.egress_supers.add(u64::from(segments.count() > 1));
        None
    }

    #[cold]
    fn reject(&mut self, now: Moment, packet: &Packet, rejection: Rejection, answers: &mut Batch<()>) {
        self.counters.count_drop(rejection.reason, 1);
        if let (Some(error), Ok(offender)) = (rejection.error, Ipv4::parse(packet.bytes())) {
            self.answer(now, &offender, error, answers);
        }
    }
}

/// Judges a packet and takes a hop off it.
#[inline]
fn depart(tunnel: &Tunnel, peers: &mut impl Peers, packet: &mut Packet, offload: &Offload) -> Result<Passage, Rejection> {
    let passage = judge(tunnel, peers, packet.bytes(), offload)?;
    packet.set_len(passage.len);
    // Judged to have hops left.
    Ipv4Mut::new(packet.bytes_mut()).map(|mut header| header.decrement_ttl());
    Ok(passage)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;
    use crate::forward::Limiter;
    use crate::forward::testing::{self, NOW, P64, PEER, hex};
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

    struct Run {
        forwarder: Forwarder,
        to_wire: Batch<Datagram>,
        answers: Batch<()>,
    }

    fn run(mut forwarder: Forwarder, packets: &[Vec<u8>], slots: usize) -> Run {
        let (mut from_tun, mut to_wire, mut answers) = (Batch::new(8, 2000), Batch::new(slots, 2000), Batch::new(8, 2000));
        for bytes in packets {
            from_tun.vacant().unwrap().0.fill(bytes);
            from_tun.commit(1);
        }
        let one = TrainLimit::ONE;
        assert!(!forwarder.egress(NOW, &mut testing::peers(), one, &mut from_tun, &mut to_wire, &mut answers));
        assert!(from_tun.is_empty());
        Run { forwarder, to_wire, answers }
    }

    #[test]
    fn packets_leave_in_order_one_hop_older_and_cut_to_their_length() {
        let packets = [p64(&[(5, 1)]), p64(&[(17, 6)]), [p64(&[(5, 2), (1, 2)]), vec![0xee; 9]].concat(), p64(&[(5, 3)])];
        let run = run(testing::forwarder(), &packets, 8);
        let left: Vec<_> = run.to_wire.used().iter().map(|(packet, note)| (packet.bytes().to_vec(), *note)).collect();
        assert_eq!(left.iter().map(|(bytes, _)| bytes[5]).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(left[0].0, hex("4500001c000100003f1143c20a0510020a05140304d2162e00080000"));
        assert_eq!(left.iter().map(|(_, note)| note.ecn).collect::<Vec<_>>(), [Ecn::NotEct, Ecn::Ect0, Ecn::NotEct]);
        assert!(left.iter().all(|(bytes, note)| bytes.len() == 28 && note.peer == PEER && note.refused.is_none()));
        assert_eq!(testing::drops(&run.forwarder), [(DropReason::NoRoute, 1)]);
        assert_eq!(run.answers.len(), 1);
    }

    #[test]
    fn an_answer_quotes_what_was_received_and_nothing_that_lay_there_before() {
        let mut noise = p64(&[(17, 6)]);
        noise.resize(60, 0xaa);
        noise[3] = 60;
        let header_only = hex("45000014000100004011566e0a0510020a630001");
        let run = run(testing::forwarder(), &[noise, header_only.clone()], 8);
        let answer = run.answers.used()[1].0.bytes();
        assert_eq!((answer.len(), &answer[28..]), (48, &header_only[..]));
        assert!(!answer.contains(&0xaa));
    }

    #[test]
    fn answers_stop_at_the_limit_and_the_rest_is_counted() {
        let forwarder = testing::forwarder().with_icmp_limit(Limiter::new(1, 2));
        let run = run(forwarder, &vec![p64(&[(17, 6)]); 5], 8);
        assert_eq!((run.answers.len(), run.forwarder.counters().icmp_suppressed.value()), (2, 3));
        assert_eq!(testing::drops(&run.forwarder), [(DropReason::NoRoute, 5)]);
    }

    #[test]
    fn a_batch_that_does_not_fit_is_gone_on_with_where_it_stopped() {
        let (mut from_tun, mut to_wire, mut answers) = (Batch::new(8, 2000), Batch::new(2, 2000), Batch::new(8, 2000));
        let packets = [p64(&[(5, 1)]), p64(&[(5, 2)]), p64(&[(17, 6)]), p64(&[(5, 3)]), p64(&[(5, 4)]), p64(&[(5, 5)])];
        for bytes in &packets {
            from_tun.vacant().unwrap().0.fill(bytes);
            from_tun.commit(1);
        }
        let mut forwarder = testing::forwarder();
        let mut left = Vec::new();
        for more in [true, true, false] {
            let limit = TrainLimit::ONE;
            let found = forwarder.egress(NOW, &mut testing::peers(), limit, &mut from_tun, &mut to_wire, &mut answers);
            assert_eq!(found, more);
            left.extend(to_wire.used().iter().map(|(packet, _)| (packet.bytes()[5], packet.bytes()[8])));
            forwarder.sent(NOW, &mut to_wire, |_| None, &mut answers);
        }
        assert_eq!(left, [1, 2, 3, 4, 5].map(|number| (number, 63)));
        assert_eq!(testing::drops(&forwarder), [(DropReason::NoRoute, 1)]);
        assert_eq!((forwarder.counters().egress_packets.value(), forwarder.counters().egress_batches.value()), (5, 1));
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

    #[test]
    fn a_slot_too_small_and_a_shut_forwarder_are_reasons_too() {
        let (mut from_tun, mut to_wire, mut answers) = (Batch::new(1, 2000), Batch::new(1, 27), Batch::new(8, 2000));
        from_tun.vacant().unwrap().0.fill(&p64(&[]));
        from_tun.commit(1);
        let mut forwarder = testing::forwarder();
        let limit = TrainLimit::ONE;
        assert!(!forwarder.egress(NOW, &mut testing::peers(), limit, &mut from_tun, &mut to_wire, &mut answers));
        assert_eq!((to_wire.len(), testing::drops(&forwarder)), (0, vec![(DropReason::NoSlot, 1)]));
        let mut shut = testing::forwarder();
        shut.adopt(None);
        let run = run(shut, &vec![p64(&[]); 3], 8);
        assert_eq!((run.to_wire.len(), testing::drops(&run.forwarder)), (0, vec![(DropReason::Shut, 3)]));
    }
}
