//! From the TUN to the underlay: [`judge`] and policy carried out on a batch.

use super::egress::{Passage, Rejection, judge};
use super::encap::Encapsulation;
use super::train::{Boarded, Trains};
use super::{DropReason, Forwarder, Peers, Tunnel};
use crate::buf::{Batch, Datagram, Packet, TrainLimit};
use crate::net::{Moment, Offload};
use crate::wire::ipv4::{Ipv4, Ipv4Mut};
use crate::wire::segment::Segments;

/// What comes of packets from the TUN.
#[derive(Debug)]
pub struct Outgoing {
    /// Trains of datagrams to peers.
    pub to_wire: Batch<Datagram>,
    /// Packets that the host is to deliver itself, to be written back to the TUN as they came: it sends them through here only to
    /// have policy judge them.
    pub back: Batch<Offload>,
    /// Errors that tell senders why their packets did not go.
    pub answers: Batch<()>,
}

/// Which way a packet goes on.
enum Way {
    Wire(Passage),
    Back,
}

/// How far a batch has come that did not fit the slots for the wire at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// The packet it has come to.
    slot: usize,
    /// What was found of that packet, if it has been judged, and its first segment that is still to be written.
    begun: Option<(Passage, usize)>,
}

impl<E: Encapsulation> Forwarder<E> {
    /// Puts the packets of `from_tun`, cut into segments where they are to be, into trains to their peers that are no longer
    /// than `limit`; see [`Outgoing`] for the rest.
    ///
    /// Says whether something is left because `to_wire` is full: it is to be sent and settled by [`sent`](Self::sent), and
    /// this called again. Otherwise `from_tun` is empty afterwards.
    pub fn egress(
        &mut self,
        now: Moment,
        peers: &mut impl Peers,
        limit: TrainLimit,
        from_tun: &mut Batch<Offload>,
        outgoing: &mut Outgoing,
    ) -> bool {
        if from_tun.is_empty() {
            return false;
        }
        let Progress { slot: first, mut begun } = std::mem::take(&mut self.outward);
        if let Some(tunnel) = self.tunnel {
            let Outgoing { to_wire, back, answers } = outgoing;
            let mut trains = Trains::new(to_wire, limit);
            if let Some(gate) = &mut self.gate {
                gate.begin(now);
                gate.foresee(from_tun.used().iter().skip(first).map(|(packet, _)| packet.bytes()));
            }
            for (slot, (packet, offload)) in from_tun.used_mut().iter_mut().enumerate().skip(first) {
                let (passage, segment) = match begun.take() {
                    Some(begun) => begun,
                    None => match self.depart(&tunnel, peers, packet, offload) {
                        Ok(Way::Wire(passage)) => (passage, 0),
                        Ok(Way::Back) => {
                            // There is a slot for each packet of the batch.
                            back.swap_in(packet, *offload);
                            continue;
                        }
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

    /// Judges a packet, asks policy, and takes a hop off it if it goes to a peer.
    #[inline]
    fn depart(
        &mut self,
        tunnel: &Tunnel,
        peers: &mut impl Peers,
        packet: &mut Packet,
        offload: &Offload,
    ) -> Result<Way, Rejection> {
        // Bytes that are no packet have names of their own.
        if let Some(gate) = &mut self.gate
            && let Ok(header) = Ipv4::parse(packet.bytes())
        {
            let silent = |reason| Rejection { reason, error: None };
            if gate.is_stray(peers, &header) {
                return Err(silent(DropReason::UnknownPod));
            }
            gate.admit(packet.bytes(), &self.counters).map_err(silent)?;
            if gate.sends_back(tunnel, peers, packet.bytes()) {
                return Ok(Way::Back);
            }
        }
        let passage = judge(tunnel, peers, packet.bytes(), offload)?;
        packet.set_len(passage.len);
        // Judged to have hops left.
        Ipv4Mut::new(packet.bytes_mut()).map(|mut header| header.decrement_ttl());
        Ok(Way::Wire(passage))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::Limiter;
    use crate::forward::testing::{self, NOW, P64, PEER, hex};
    use crate::net::Ecn;

    /// P64 with these bytes changed.
    fn p64(edits: &[(usize, u8)]) -> Vec<u8> {
        let mut bytes = hex(P64);
        for (at, value) in edits {
            bytes[*at] = *value;
        }
        bytes
    }

    struct Run {
        forwarder: Forwarder,
        outgoing: Outgoing,
    }

    fn outgoing(slots: usize) -> Outgoing {
        Outgoing { to_wire: Batch::new(slots, 2000), back: Batch::new(8, 2000), answers: Batch::new(8, 2000) }
    }

    fn run(mut forwarder: Forwarder, packets: &[Vec<u8>], slots: usize) -> Run {
        let (mut from_tun, mut outgoing) = (Batch::new(8, 2000), outgoing(slots));
        for bytes in packets {
            from_tun.vacant().unwrap().0.fill(bytes);
            from_tun.commit(1);
        }
        let one = TrainLimit::ONE;
        assert!(!forwarder.egress(NOW, &mut testing::peers(), one, &mut from_tun, &mut outgoing));
        assert!(from_tun.is_empty());
        Run { forwarder, outgoing }
    }

    #[test]
    fn packets_leave_in_order_one_hop_older_and_cut_to_their_length() {
        let packets = [p64(&[(5, 1)]), p64(&[(17, 6)]), [p64(&[(5, 2), (1, 2)]), vec![0xee; 9]].concat(), p64(&[(5, 3)])];
        let run = run(testing::forwarder(), &packets, 8);
        let left: Vec<_> = run.outgoing.to_wire.used().iter().map(|(packet, note)| (packet.bytes().to_vec(), *note)).collect();
        assert_eq!(left.iter().map(|(bytes, _)| bytes[5]).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(left[0].0, hex("4500001c000100003f1143c20a0510020a05140304d2162e00080000"));
        assert_eq!(left.iter().map(|(_, note)| note.ecn).collect::<Vec<_>>(), [Ecn::NotEct, Ecn::Ect0, Ecn::NotEct]);
        assert!(left.iter().all(|(bytes, note)| bytes.len() == 28 && note.peer == PEER && note.refused.is_none()));
        assert_eq!(testing::drops(&run.forwarder), [(DropReason::NoRoute, 1)]);
        assert_eq!(run.outgoing.answers.len(), 1);
    }

    #[test]
    fn an_answer_quotes_what_was_received_and_nothing_that_lay_there_before() {
        let mut noise = p64(&[(17, 6)]);
        noise.resize(60, 0xaa);
        noise[3] = 60;
        let header_only = hex("45000014000100004011566e0a0510020a630001");
        let run = run(testing::forwarder(), &[noise, header_only.clone()], 8);
        let answer = run.outgoing.answers.used()[1].0.bytes();
        assert_eq!((answer.len(), &answer[28..]), (48, &header_only[..]));
        assert!(!answer.contains(&0xaa));
    }

    #[test]
    fn answers_stop_at_the_limit_and_the_rest_is_counted() {
        let forwarder = testing::forwarder().with_icmp_limit(Limiter::new(1, 2));
        let run = run(forwarder, &vec![p64(&[(17, 6)]); 5], 8);
        assert_eq!((run.outgoing.answers.len(), run.forwarder.counters().icmp_suppressed.value()), (2, 3));
        assert_eq!(testing::drops(&run.forwarder), [(DropReason::NoRoute, 5)]);
    }

    #[test]
    fn a_batch_that_does_not_fit_is_gone_on_with_where_it_stopped() {
        let (mut from_tun, mut outgoing) = (Batch::new(8, 2000), outgoing(2));
        let packets = [p64(&[(5, 1)]), p64(&[(5, 2)]), p64(&[(17, 6)]), p64(&[(5, 3)]), p64(&[(5, 4)]), p64(&[(5, 5)])];
        for bytes in &packets {
            from_tun.vacant().unwrap().0.fill(bytes);
            from_tun.commit(1);
        }
        let mut forwarder = testing::forwarder();
        let mut left = Vec::new();
        for more in [true, true, false] {
            let limit = TrainLimit::ONE;
            let found = forwarder.egress(NOW, &mut testing::peers(), limit, &mut from_tun, &mut outgoing);
            assert_eq!(found, more);
            left.extend(outgoing.to_wire.used().iter().map(|(packet, _)| (packet.bytes()[5], packet.bytes()[8])));
            forwarder.sent(NOW, &mut outgoing.to_wire, |_| None, &mut outgoing.answers);
        }
        assert_eq!(left, [1, 2, 3, 4, 5].map(|number| (number, 63)));
        assert_eq!(testing::drops(&forwarder), [(DropReason::NoRoute, 1)]);
        assert_eq!((forwarder.counters().egress_packets.value(), forwarder.counters().egress_batches.value()), (5, 1));
    }

    #[test]
    fn a_slot_too_small_and_a_shut_forwarder_are_reasons_too() {
        let mut from_tun = Batch::new(1, 2000);
        let mut outgoing = Outgoing { to_wire: Batch::new(1, 27), ..outgoing(1) };
        from_tun.vacant().unwrap().0.fill(&p64(&[]));
        from_tun.commit(1);
        let mut forwarder = testing::forwarder();
        let limit = TrainLimit::ONE;
        assert!(!forwarder.egress(NOW, &mut testing::peers(), limit, &mut from_tun, &mut outgoing));
        assert_eq!((outgoing.to_wire.len(), testing::drops(&forwarder)), (0, vec![(DropReason::NoSlot, 1)]));
        let mut shut = testing::forwarder();
        shut.adopt(None);
        let run = run(shut, &vec![p64(&[]); 3], 8);
        assert_eq!((run.outgoing.to_wire.len(), testing::drops(&run.forwarder)), (0, vec![(DropReason::Shut, 3)]));
    }
}
