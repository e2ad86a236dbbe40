//! From the TUN to the underlay.

use super::encap::Encapsulation;
use super::{DropReason, Forwarder, Peers, Tunnel, ecn};
use crate::buf::{Batch, Datagram, Packet};
use crate::net::{Ecn, Endpoint, Moment, Offload};
use crate::wire::icmp::IcmpError;
use crate::wire::ipv4::{Ipv4, Ipv4Mut};

/// A packet may go: whither and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The node that leases its destination.
    pub peer: Endpoint,
    /// The outer header's congestion mark.
    pub ecn: Ecn,
    /// The packet's length in bytes; more of them may have been read.
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

/// Judges one packet read from the TUN. Pure, and at ease with any bytes.
///
/// A missing route is found before an expired TTL, as flannel does it. Bytes that are no packet get no answer.
///
/// # Errors
/// The reason to drop it, and the answer it deserves.
#[inline]
pub fn judge(tunnel: &Tunnel, peers: &mut impl Peers, bytes: &[u8]) -> Result<Passage, Rejection> {
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
    if packet.total_len() > usize::from(tunnel.mtu) && packet.dont_fragment() {
        return Err(reject(DropReason::TooBig, IcmpError::FragmentationNeeded { next_hop_mtu: tunnel.mtu }));
    }
    let may_fragment = !packet.dont_fragment();
    Ok(Passage { peer, ecn: ecn::outer(packet.ecn()), len: packet.total_len(), may_fragment })
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
    /// Moves the packets of `from_tun` to `to_wire`, each with its peer; answers to those that may not go are appended to
    /// `answers`. `from_tun` is empty afterwards.
    pub fn egress(
        &mut self,
        now: Moment,
        peers: &mut impl Peers,
        from_tun: &mut Batch<Offload>,
        to_wire: &mut Batch<Datagram>,
        answers: &mut Batch<()>,
    ) {
        if from_tun.is_empty() {
            return;
        }
        self.counters.egress_batches.add(1);
        if let Some(tunnel) = self.tunnel {
            for (packet, _) in from_tun.used_mut() {
                match judge(&tunnel, peers, packet.bytes()) {
                    Ok(passage) => {
                        if let Err(reason) = depart::<E>(packet, passage, to_wire) {
                            self.counters.count_drop(reason, 1);
                        }
                    }
                    Err(rejection) => self.reject(now, packet, rejection, answers),
                }
            }
        } else {
            self.counters.count_drop(DropReason::Shut, from_tun.len() as u64);
        }
        from_tun.clear();
    }

    #[cold]
    fn reject(&mut self, now: Moment, packet: &Packet, rejection: Rejection, answers: &mut Batch<()>) {
        self.counters.count_drop(rejection.reason, 1);
        if let (Some(error), Ok(offender)) = (rejection.error, Ipv4::parse(packet.bytes())) {
            self.answer(now, &offender, error, answers);
        }
    }
}

#[inline]
fn depart<E: Encapsulation>(packet: &mut Packet, passage: Passage, to_wire: &mut Batch<Datagram>) -> Result<(), DropReason> {
    packet.set_len(passage.len);
    let mut header = Ipv4Mut::new(packet.bytes_mut()).ok_or(DropReason::TooShort)?;
    if !header.decrement_ttl() {
        return Err(DropReason::TtlExpired);
    }
    E::encap(packet)?;
    let Passage { peer, ecn, may_fragment, .. } = passage;
    let note = Datagram { peer, ecn, may_fragment, ..Datagram::default() };
    if to_wire.swap_in(packet, note) { Ok(()) } else { Err(DropReason::NoSlot) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::Limiter;
    use crate::forward::testing::{self, NOW, P64, PEER, hex};

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
            assert_eq!(judge(&testing::tunnel(), &mut testing::peers(), &bytes), expected, "{name}");
        }
        let mut full = big((3, 0xc0));
        full[6] = 0x40;
        let whole = Passage { peer: PEER, ecn: Ecn::NotEct, len: 1472, may_fragment: false };
        assert_eq!(judge(&testing::tunnel(), &mut testing::peers(), &full), Ok(whole));
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
        forwarder.egress(NOW, &mut testing::peers(), &mut from_tun, &mut to_wire, &mut answers);
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
    fn a_full_batch_and_a_shut_forwarder_are_reasons_too() {
        let run_full = run(testing::forwarder(), &vec![p64(&[]); 3], 2);
        assert_eq!((run_full.to_wire.len(), testing::drops(&run_full.forwarder)), (2, vec![(DropReason::NoSlot, 1)]));
        let mut shut = testing::forwarder();
        shut.adopt(None);
        let run = run(shut, &vec![p64(&[]); 3], 8);
        assert_eq!((run.to_wire.len(), testing::drops(&run.forwarder)), (0, vec![(DropReason::Shut, 3)]));
    }
}
