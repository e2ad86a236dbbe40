//! One worker's data plane: its place in the overlay, its counters, its limits.

use std::marker::PhantomData;
use std::sync::Arc;

use super::encap::{self, Encapsulation, Udp};
use super::merge::Merge;
use super::{Counters, DropReason, Gate, Limiter, Tunnel, answer, ingress, outward};
use crate::buf::{Batch, Datagram, Gather, Refusal};
use crate::net::{Endpoint, Moment, Offload};
use crate::wire::icmp::IcmpError;
use crate::wire::ipv4::Ipv4;

/// What every IPv4 link carries at least (RFC 791); nothing below may be reported as a path's MTU.
const SMALLEST_MTU: u16 = 68;
/// What is assumed of a path that refused a datagram and whose MTU is not known: what every IPv4 host takes (RFC 791).
const CAUTIOUS_MTU: u16 = 576;

/// The data plane of one worker; the module `forward` shows how its loop calls it.
///
/// It starts shut: until a [`Tunnel`] is adopted every packet is dropped as [`DropReason::Shut`].
#[derive(Debug)]
pub struct Forwarder<E = Udp> {
    pub(super) tunnel: Option<Tunnel>,
    pub(super) counters: Arc<Counters>,
    pub(super) outward: outward::Progress,
    pub(super) inward: ingress::Progress,
    pub(super) merge: Merge,
    pub(super) gate: Option<Gate>,
    icmp_limit: Limiter,
    encapsulation: PhantomData<fn() -> E>,
}

impl<E: Encapsulation> Forwarder<E> {
    /// A shut forwarder that counts into `counters`, of which it must be the only writer.
    #[must_use]
    pub fn new(counters: Arc<Counters>) -> Self {
        Self {
            tunnel: None,
            counters,
            outward: outward::Progress::default(),
            inward: ingress::Progress::default(),
            merge: Merge::default(),
            gate: None,
            icmp_limit: Limiter::default(),
            encapsulation: PhantomData,
        }
    }

    /// The same with another limit on ICMP answers.
    #[must_use]
    pub fn with_icmp_limit(mut self, limit: Limiter) -> Self {
        self.icmp_limit = limit;
        self
    }

    /// Has policy judge every flow from now on; `None`: everything goes.
    pub fn enforce(&mut self, gate: Option<Gate>) {
        self.gate = gate;
    }

    /// What has policy judge flows here, to be kept up to date.
    pub fn gate(&mut self) -> Option<&mut Gate> {
        self.gate.as_mut()
    }

    /// Works as `tunnel` says from now on; `None`, while no lease is held, shuts the forwarder.
    #[inline]
    pub fn adopt(&mut self, tunnel: Option<&Tunnel>) {
        self.tunnel = tunnel.copied();
    }

    /// Forgets what is left of batches that will not be gone on with.
    pub fn abandon(&mut self) {
        self.outward = outward::Progress::default();
        self.inward = ingress::Progress::default();
    }

    /// What it counts.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Settles `batch` after the underlay socket was given it: counts what left, drops what was refused, and empties it.
    /// A socket that failed as a whole has refused all it did not mark otherwise; mark the batch so before.
    ///
    /// A sender whose packet was too big for the path is told so if it forbade fragmentation. `path_mtu` says how large an
    /// outer packet to a peer may be, in bytes, if that is known; it is asked for answers only, so no oftener than their limit.
    pub fn sent(
        &mut self,
        now: Moment,
        batch: &mut Batch<Datagram>,
        mut path_mtu: impl FnMut(Endpoint) -> Option<u16>,
        answers: &mut Batch<()>,
    ) {
        let (mut packets, mut bytes) = (0, 0);
        for (packet, note) in batch.used() {
            let len = packet.bytes().len();
            let mut left = note.count(len);
            let mut inner = len;
            if note.refused.is_none() && left > 1 {
                self.counters.egress_trains.add(1);
            }
            for at in note.refused.iter().flat_map(|refused| (0..note.count(len)).filter(|at| refused.contains(*at))) {
                let datagram = packet.bytes().get(note.range(at, len)).unwrap_or_default();
                (left, inner) = (left - 1, inner - datagram.len());
                self.refused(now, note, datagram, &mut path_mtu, answers);
            }
            packets += left as u64;
            bytes += inner.saturating_sub(left * usize::from(E::OVERHEAD)) as u64;
        }
        self.counters.egress_packets.add(packets);
        self.counters.egress_bytes.add(bytes);
        batch.clear();
    }

    /// Settles a batch of answers after the TUN was given it and refused this many of them, and empties it.
    pub fn answered(&mut self, answers: &mut Batch<()>, refused: usize) {
        self.counters.icmp_sent.add(answers.len().saturating_sub(refused) as u64);
        self.counters.icmp_suppressed.add(refused as u64);
        answers.clear();
    }

    /// Settles packets that went back to the TUN after it was given them and refused this many, and empties the batch.
    pub fn returned(&mut self, back: &mut Batch<Offload>, refused: usize) {
        self.counters.sent_back.add(back.len().saturating_sub(refused) as u64);
        self.counters.count_drop(DropReason::TunRefused, refused as u64);
        back.clear();
    }

    /// Settles packets from [`ingress`](Self::ingress) after the TUN was given them and refused this many of the packets they
    /// were made of, and empties `packets`.
    pub fn written(&mut self, packets: &mut Gather, refused: usize) {
        let (mut made_of, mut bytes) = (0, 0);
        for packet in packets.packets() {
            made_of += packet.count();
            bytes += packet.bytes() + packet.header().len() * (packet.count() - 1);
            self.counters.ingress_supers.add(u64::from(packet.count() > 1));
        }
        self.counters.ingress_packets.add(made_of.saturating_sub(refused) as u64);
        self.counters.ingress_bytes.add(bytes as u64);
        self.counters.count_drop(DropReason::TunRefused, refused as u64);
        packets.clear();
    }

    /// Tells the sender of `offender`, if the rules and the limit allow it.
    pub(super) fn answer(&mut self, now: Moment, offender: &Ipv4<'_>, error: IcmpError, answers: &mut Batch<()>) {
        self.answer_with(now, offender, || error, answers);
    }

    /// The same; `error` is asked for only once it is to be told.
    fn answer_with(&mut self, now: Moment, offender: &Ipv4<'_>, error: impl FnOnce() -> IcmpError, answers: &mut Batch<()>) {
        let Some(tunnel) = &self.tunnel else { return };
        if !answer::may_answer(tunnel, offender) {
            return;
        }
        if !(self.icmp_limit.admit(now) && answer::write(offender, error(), answers)) {
            self.counters.icmp_suppressed.add(1);
        }
    }

    /// Drops one datagram that the socket refused.
    #[cold]
    fn refused(
        &mut self,
        now: Moment,
        note: &Datagram,
        datagram: &[u8],
        path_mtu: &mut impl FnMut(Endpoint) -> Option<u16>,
        answers: &mut Batch<()>,
    ) {
        let Some(refused) = note.refused else { return };
        match refused.reason {
            Refusal::TooBig => {
                self.counters.count_drop(DropReason::TooBig, 1);
                let peer = note.peer;
                self.answer_too_big(now, datagram, || next_hop_mtu::<E>(peer, path_mtu(peer)), answers);
            }
            Refusal::NoBuffer => self.counters.count_drop(DropReason::SendNoBuffer, 1),
            Refusal::Other => self.counters.count_drop(DropReason::SendRefused, 1),
        }
    }

    /// The quoted packet has its TTL already taken down, which RFC 1812 section 4.3.2.3 lets a router leave so.
    fn answer_too_big(&mut self, now: Moment, datagram: &[u8], mtu: impl FnOnce() -> u16, answers: &mut Batch<()>) {
        let Ok(front) = E::decap(datagram) else { return };
        if let Ok(offender) = Ipv4::parse(datagram.get(front..).unwrap_or_default())
            && offender.dont_fragment()
        {
            // The path cannot take what the tunnel does not: a larger value would only be news of the wrong kind.
            let most = self.tunnel.map_or(u16::MAX, |tunnel| tunnel.mtu);
            let error = || IcmpError::FragmentationNeeded { next_hop_mtu: mtu().min(most) };
            self.answer_with(now, &offender, error, answers);
        }
    }
}

/// The largest inner packet for a path of `path_mtu` bytes. Absurd values are raised to what IPv4 promises.
fn next_hop_mtu<E: Encapsulation>(peer: Endpoint, path_mtu: Option<u16>) -> u16 {
    path_mtu.unwrap_or(CAUTIOUS_MTU).saturating_sub(encap::overhead::<E>(peer)).max(SMALLEST_MTU)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buf::Piece;
    use crate::forward::testing::{self, NOW, P64, PEER};

    /// What `sent` makes of one refused packet: the drop reasons, and the reported MTU of an answer if there is one.
    fn refuse(refusal: Refusal, dont_fragment: bool, path_mtu: Option<u16>) -> (Vec<(DropReason, u64)>, Option<u16>) {
        let mut bytes = testing::hex(P64);
        if dont_fragment {
            bytes[6] = 0x40;
        }
        let (mut batch, mut answers) = (Batch::new(1, 2000), Batch::new(1, 2000));
        let mut note = Datagram { peer: PEER, ..Datagram::default() };
        note.refuse(refusal);
        batch.vacant().unwrap().0.fill(&bytes);
        batch.vacant().unwrap().1 = note;
        batch.commit(1);
        let mut forwarder = testing::forwarder();
        forwarder.sent(NOW, &mut batch, |peer| path_mtu.filter(|_| peer == PEER), &mut answers);
        assert!(batch.is_empty());
        let mtu = answers.used().first().map(|(packet, ())| {
            let icmp = Ipv4::parse(packet.bytes()).unwrap().payload();
            assert_eq!((icmp[0], icmp[1], &icmp[8..36]), (3, 4, &bytes[..]));
            u16::from_be_bytes([icmp[6], icmp[7]])
        });
        (testing::drops(&forwarder), mtu)
    }

    #[test]
    fn a_refusal_is_counted_by_its_kind() {
        assert_eq!(refuse(Refusal::NoBuffer, true, None), (vec![(DropReason::SendNoBuffer, 1)], None));
        assert_eq!(refuse(Refusal::Other, true, None), (vec![(DropReason::SendRefused, 1)], None));
        assert_eq!(refuse(Refusal::TooBig, false, Some(1400)), (vec![(DropReason::TooBig, 1)], None));
    }

    #[test]
    fn path_mtus_are_reported_without_the_overhead_and_never_absurd() {
        let table = [
            (Some(0), 68),
            (Some(8), 68),
            (Some(68), 68),
            (Some(183), 155),
            (Some(552), 524),
            (Some(1400), 1372),
            (Some(9000), 1472),
            (None, 548),
        ];
        for (path, reported) in table {
            assert_eq!(refuse(Refusal::TooBig, true, path), (vec![(DropReason::TooBig, 1)], Some(reported)), "{path:?}");
        }
    }

    #[test]
    fn the_path_is_asked_only_for_an_answer() {
        let mut forwarder = testing::forwarder().with_icmp_limit(Limiter::new(1, 2));
        let mut asked = 0;
        for dont_fragment in [0, 0x40, 0x40, 0x40, 0x40] {
            let (mut batch, mut answers) = (Batch::new(1, 2000), Batch::new(1, 2000));
            let mut bytes = testing::hex(P64);
            bytes[6] = dont_fragment;
            batch.vacant().unwrap().0.fill(&bytes);
            batch.vacant().unwrap().1 = Datagram { peer: PEER, ..Datagram::default() };
            batch.vacant().unwrap().1.refuse(Refusal::TooBig);
            batch.commit(1);
            let path_mtu = |_| {
                asked += 1;
                Some(1400)
            };
            forwarder.sent(NOW, &mut batch, path_mtu, &mut answers);
        }
        let totals = super::super::Totals::of([forwarder.counters()]);
        assert_eq!((asked, totals.icmp_suppressed, totals.dropped(DropReason::TooBig)), (2, 2, 5));
    }

    #[test]
    fn of_a_train_only_the_refused_datagrams_are_dropped_and_answered() {
        let mut bytes = testing::hex(P64);
        bytes[6] = 0x40;
        let (mut batch, mut answers) = (Batch::new(1, 2000), Batch::new(8, 2000));
        let (packet, note) = batch.vacant().unwrap();
        packet.fill(&[&bytes[..], &bytes, &bytes, &bytes].concat());
        *note = Datagram { peer: PEER, segment_bytes: 28, ..Datagram::default() };
        note.refuse_one(1, Refusal::TooBig);
        note.refuse_one(3, Refusal::TooBig);
        batch.commit(1);
        let mut forwarder = testing::forwarder();
        forwarder.sent(NOW, &mut batch, |_| Some(1400), &mut answers);
        assert_eq!((testing::drops(&forwarder), answers.len()), (vec![(DropReason::TooBig, 2)], 2));
        let counters = forwarder.counters();
        assert_eq!((counters.egress_packets.value(), counters.egress_bytes.value()), (2, 56));
        assert_eq!(counters.egress_trains.value(), 0);
    }

    #[test]
    fn an_ipv6_underlay_takes_more() {
        assert_eq!(next_hop_mtu::<Udp>("[fd00::1]:8285".parse().unwrap(), Some(1500)), 1452);
    }

    #[test]
    fn what_the_ports_refuse_is_not_counted_as_done() {
        let mut forwarder = testing::forwarder();
        for (refused, settle) in [(1, true), (2, false)] {
            let (mut batch, mut packets) = (Batch::new(3, 100), Gather::new(3, 3));
            for _ in 0..3 {
                batch.vacant().unwrap().0.fill(&testing::hex(P64));
                batch.commit(1);
                packets.push(Piece { slot: 0, start: 0, len: 28 });
            }
            if settle {
                forwarder.written(&mut packets, refused);
                assert!(packets.is_empty());
            } else {
                forwarder.answered(&mut batch, refused);
                assert!(batch.is_empty());
            }
        }
        let totals = super::super::Totals::of([forwarder.counters()]);
        assert_eq!((totals.ingress_packets, totals.dropped(DropReason::TunRefused)), (2, 1));
        assert_eq!((totals.icmp_sent, totals.icmp_suppressed), (1, 2));
    }
}
