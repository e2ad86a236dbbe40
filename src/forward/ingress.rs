//! From the underlay to the TUN. Whatever is refused here is refused in silence: the sender may be anybody.

use std::ops::Range;

use super::encap::Encapsulation;
use super::{Counters, DropReason, Forwarder, Gate, Peers, SourceCheck, Tunnel, ecn};
use crate::buf::{Batch, Datagram, Gather, Piece};
use crate::net::{Ecn, Endpoint, Moment, Supers};
use crate::wire::ipv4::{Ipv4, Ipv4Mut};

/// A packet may be delivered, like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The congestion mark it gets.
    pub ecn: Ecn,
    /// Its length in bytes; more of them may have been received.
    pub len: usize,
}

/// Judges one inner packet that came in `datagram`. Pure, and at ease with any bytes.
///
/// # Errors
/// The reason to drop it.
#[inline]
pub fn judge(tunnel: &Tunnel, peers: &mut impl Peers, datagram: &Datagram, bytes: &[u8]) -> Result<Delivery, DropReason> {
    if datagram.truncated {
        return Err(DropReason::Truncated);
    }
    let packet = Ipv4::parse(bytes)?;
    check_source(tunnel, peers, datagram.peer, &packet)?;
    if !tunnel.own.contains(packet.destination()) {
        return Err(DropReason::DestinationNotOurs);
    }
    if packet.ttl() < 2 {
        return Err(DropReason::TtlExpired);
    }
    let ecn = ecn::merged(packet.ecn(), datagram.ecn).ok_or(DropReason::CeOnNotEct)?;
    Ok(Delivery { ecn, len: packet.total_len() })
}

/// A node speaks for the subnet it leases, its own tunnel address at the base of it included, and for nothing else.
#[inline]
fn check_source(tunnel: &Tunnel, peers: &mut impl Peers, from: Endpoint, packet: &Ipv4<'_>) -> Result<(), DropReason> {
    if tunnel.source_check == SourceCheck::Off {
        return Ok(());
    }
    let peer = peers.peer_of(packet.source()).ok_or(DropReason::SourceUnleased)?;
    if peer.ip() != from.ip() {
        return Err(DropReason::SourceNotOfPeer);
    }
    if tunnel.source_check == SourceCheck::Strict && peer.port() != from.port() {
        return Err(DropReason::SourceWrongPort);
    }
    Ok(())
}

/// How far a batch has come that did not fit the room for gathered packets at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// The slot it has come to.
    slot: usize,
    /// The first datagram of that slot which is still to be judged.
    datagram: usize,
}

impl<E: Encapsulation> Forwarder<E> {
    /// Gathers the inner packets of `from_wire` that may be delivered in `to_tun`, put together to super-packets of the kinds
    /// the TUN takes.
    ///
    /// Says whether something is left because `to_tun` is full: it is to be written and settled by
    /// [`written`](Self::written), and this called again. `from_wire` stays as it is, for `to_tun` is made of pieces of it;
    /// it is to be cleared once all is written.
    pub fn ingress(
        &mut self,
        now: Moment,
        peers: &mut impl Peers,
        supers: Supers,
        from_wire: &mut Batch<Datagram>,
        to_tun: &mut Gather,
    ) -> bool {
        let Progress { slot: first, mut datagram } = std::mem::take(&mut self.inward);
        let Some(tunnel) = self.tunnel else {
            let datagrams: usize = from_wire.used().iter().map(|(packet, note)| note.count(packet.bytes().len())).sum();
            self.counters.count_drop(DropReason::Shut, datagrams as u64);
            return false;
        };
        if let Some(gate) = &mut self.gate {
            gate.begin(now);
            gate.foresee(from_wire.used().iter().skip(first).flat_map(|(packet, note)| inner::<E>(packet.bytes(), note)));
        }
        for (slot, (packet, note)) in from_wire.used_mut().iter_mut().enumerate().skip(first) {
            let len = packet.bytes().len();
            let count = note.count(len);
            for at in std::mem::take(&mut datagram)..count {
                if to_tun.is_full() {
                    self.merge.finish(to_tun);
                    self.inward = Progress { slot, datagram: at };
                    return true;
                }
                let range = note.range(at, len);
                let payload = packet.bytes_mut().get_mut(range.clone()).unwrap_or_default();
                let arrived = arrive::<E>(&tunnel, peers, note, payload)
                    .and_then(|inner| admit(&mut self.gate, payload, inner, &self.counters));
                match arrived {
                    Ok(inner) => {
                        let piece = Piece::new(slot, range.start + inner.start..range.start + inner.end);
                        self.merge.push(supers, to_tun, piece, payload.get(inner).unwrap_or_default());
                    }
                    Err(reason) => self.counters.count_drop(reason, 1),
                }
            }
            self.counters.ingress_trains.add(u64::from(count > 1));
        }
        self.merge.finish(to_tun);
        self.counters.ingress_batches.add(1);
        false
    }
}

/// Where the inner packet lies in the UDP payload that it came in; it is one hop older and has its congestion mark then.
#[inline]
fn arrive<E: Encapsulation>(
    tunnel: &Tunnel,
    peers: &mut impl Peers,
    datagram: &Datagram,
    payload: &mut [u8],
) -> Result<Range<usize>, DropReason> {
    let front = E::decap(payload)?;
    let inner = payload.get_mut(front..).unwrap_or_default();
    let delivery = judge(tunnel, peers, datagram, inner)?;
    let mut header = Ipv4Mut::new(inner).ok_or(DropReason::TooShort)?;
    if !header.decrement_ttl() {
        return Err(DropReason::TtlExpired);
    }
    header.set_ecn(delivery.ecn);
    Ok(front..front + delivery.len)
}

/// The inner packets of a slot, before anything is known of them.
#[inline]
fn inner<'a, E: Encapsulation>(bytes: &'a [u8], note: &'a Datagram) -> impl Iterator<Item = &'a [u8]> {
    let front = usize::from(E::OVERHEAD);
    (0..note.count(bytes.len())).filter_map(move |at| bytes.get(note.range(at, bytes.len()))?.get(front..))
}

/// Asks policy, if there is any, about the packet that lies there.
#[inline]
fn admit(gate: &mut Option<Gate>, payload: &[u8], inner: Range<usize>, counters: &Counters) -> Result<Range<usize>, DropReason> {
    if let Some(gate) = gate {
        gate.admit(payload.get(inner.clone()).unwrap_or_default(), counters)?;
    }
    Ok(inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::testing::{self, P64, PEER, endpoint, hex};

    /// A packet from the peer's container to ours, with these bytes changed.
    fn inner(edits: &[(usize, u8)]) -> Vec<u8> {
        let mut bytes = hex(P64);
        let (source, destination) = (14, 18);
        (bytes[source], bytes[destination]) = (20, 16);
        for (at, value) in edits {
            bytes[*at] = *value;
        }
        bytes
    }

    fn from(peer: Endpoint) -> Datagram {
        Datagram { peer, ..Datagram::default() }
    }

    fn judged(check: SourceCheck, datagram: &Datagram, bytes: &[u8]) -> Result<Delivery, DropReason> {
        judge(&Tunnel { source_check: check, ..testing::tunnel() }, &mut testing::peers(), datagram, bytes)
    }

    #[test]
    fn a_datagram_is_judged_by_table() {
        let marked = |ecn| Datagram { ecn, ..from(PEER) };
        let go = |ecn, len| Ok(Delivery { ecn, len });
        let table = [
            ("plain", from(PEER), inner(&[]), go(Ecn::NotEct, 28)),
            ("from the peer's own tunnel address", from(PEER), inner(&[(15, 0)]), go(Ecn::NotEct, 28)),
            ("bytes behind the end", from(PEER), [inner(&[]), vec![0xee; 9]].concat(), go(Ecn::NotEct, 28)),
            ("truncated", Datagram { truncated: true, ..from(PEER) }, inner(&[]), Err(DropReason::Truncated)),
            ("empty", from(PEER), vec![], Err(DropReason::TooShort)),
            ("1 byte", from(PEER), vec![0x45], Err(DropReason::TooShort)),
            ("19 bytes", from(PEER), inner(&[])[..19].to_vec(), Err(DropReason::TooShort)),
            ("version 0", from(PEER), inner(&[(0, 5)]), Err(DropReason::NotIpv4)),
            ("version 6", from(PEER), inner(&[(0, 0x65)]), Err(DropReason::NotIpv4)),
            ("version 15", from(PEER), inner(&[(0, 0xf5)]), Err(DropReason::NotIpv4)),
            ("ihl 4", from(PEER), inner(&[(0, 0x44)]), Err(DropReason::BadHeaderLength)),
            ("ihl 15 of 20 bytes", from(PEER), inner(&[(0, 0x4f)])[..20].to_vec(), Err(DropReason::BadHeaderLength)),
            ("longer than received", from(PEER), inner(&[(3, 29)]), Err(DropReason::BadTotalLength)),
            ("shorter than its header", from(PEER), inner(&[(3, 19)]), Err(DropReason::BadTotalLength)),
            ("not for us", from(PEER), inner(&[(18, 17)]), Err(DropReason::DestinationNotOurs)),
            ("TTL 2", from(PEER), inner(&[(8, 2)]), go(Ecn::NotEct, 28)),
            ("TTL 1", from(PEER), inner(&[(8, 1)]), Err(DropReason::TtlExpired)),
            ("TTL 0", from(PEER), inner(&[(8, 0)]), Err(DropReason::TtlExpired)),
            ("congestion on the way", marked(Ecn::Ce), inner(&[(1, 2)]), go(Ecn::Ce, 28)),
            ("congestion, not understood", marked(Ecn::Ce), inner(&[]), Err(DropReason::CeOnNotEct)),
            ("ECT(1) over ECT(0)", marked(Ecn::Ect1), inner(&[(1, 2)]), go(Ecn::Ect1, 28)),
        ];
        for (name, datagram, bytes, expected) in table {
            assert_eq!(judged(SourceCheck::Strict, &datagram, &bytes), expected, "{name}");
        }
    }

    #[test]
    fn a_node_speaks_for_its_own_subnet_only() {
        use DropReason::{SourceNotOfPeer, SourceUnleased, SourceWrongPort};
        use SourceCheck::{Address, Off, Strict};
        let other_port = Endpoint::new(PEER.ip(), 40_000);
        let spoofed = inner(&[(14, 16)]);
        let nobodys = inner(&[(14, 99)]);
        let table = [
            ("right", PEER, inner(&[]), [Ok(()), Ok(()), Ok(())]),
            ("another port", other_port, inner(&[]), [Err(SourceWrongPort), Ok(()), Ok(())]),
            ("a stranger", endpoint(66), inner(&[]), [Err(SourceNotOfPeer), Err(SourceNotOfPeer), Ok(())]),
            ("source of nobody", PEER, nobodys, [Err(SourceUnleased), Err(SourceUnleased), Ok(())]),
            ("source of ours", PEER, spoofed, [Err(SourceUnleased), Err(SourceUnleased), Ok(())]),
            ("source of another node", PEER, inner(&[(14, 31)]), [Err(SourceNotOfPeer), Err(SourceNotOfPeer), Ok(())]),
        ];
        for (name, peer, bytes, expected) in table {
            let found = [Strict, Address, Off].map(|check| judged(check, &from(peer), &bytes).map(drop));
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn a_peer_that_moved_is_believed_at_its_new_address_only() {
        let mut peers = |_| Some(endpoint(21));
        let tunnel = testing::tunnel();
        assert_eq!(judge(&tunnel, &mut peers, &from(PEER), &inner(&[])), Err(DropReason::SourceNotOfPeer));
        assert!(judge(&tunnel, &mut peers, &from(endpoint(21)), &inner(&[])).is_ok());
    }

    /// What is delivered, through room for this many packets.
    fn run(forwarder: &mut Forwarder, datagrams: &[(Datagram, Vec<u8>)], room: usize) -> Vec<Vec<u8>> {
        let (mut from_wire, mut to_tun) = (Batch::new(8, 2000), Gather::new(room, room));
        for (note, bytes) in datagrams {
            let slot = from_wire.vacant().unwrap();
            slot.0.fill(bytes);
            slot.1 = *note;
            from_wire.commit(1);
        }
        let mut delivered = Vec::new();
        loop {
            let more = forwarder.ingress(testing::NOW, &mut testing::peers(), Supers::default(), &mut from_wire, &mut to_tun);
            for piece in to_tun.packets().flat_map(|packet| packet.pieces()) {
                delivered.push(from_wire.used()[usize::from(piece.slot)].0.bytes()[piece.range()].to_vec());
            }
            forwarder.written(&mut to_tun, 0);
            if !more {
                return delivered;
            }
        }
    }

    #[test]
    fn packets_are_delivered_in_order_one_hop_older_and_marked() {
        let mut forwarder = testing::forwarder();
        let datagrams = [
            (
                Datagram { ecn: Ecn::Ce, ..from(PEER) },
                [hex("4502001c00010000401142c00a0514030a05100204d2162e00080000"), vec![0xee]].concat(),
            ),
            (from(endpoint(66)), inner(&[])),
            (from(PEER), hex("4500001c00020000021180c10a0514030a05100204d2162e00080000")),
        ];
        let delivered = run(&mut forwarder, &datagrams, 8);
        let expected = [
            "4503001c000100003f1143bf0a0514030a05100204d2162e00080000",
            "4500001c00020000011181c10a0514030a05100204d2162e00080000",
        ];
        assert_eq!(delivered, expected.map(hex));
        assert!(delivered.iter().all(|bytes| crate::wire::checksum::sum(&bytes[..20]) == 0xffff));
        assert_eq!(testing::drops(&forwarder), [(DropReason::SourceNotOfPeer, 1)]);
    }

    #[test]
    fn a_batch_that_does_not_fit_is_gone_on_with_where_it_stopped() {
        let train = Datagram { segment_bytes: 28, ..from(PEER) };
        let numbers = |numbers: &[u8]| numbers.iter().flat_map(|number| inner(&[(5, *number)])).collect::<Vec<_>>();
        let datagrams = [(train, numbers(&[1, 2, 3])), (from(PEER), numbers(&[4])), (train, numbers(&[5, 6]))];
        let mut forwarder = testing::forwarder();
        let delivered = run(&mut forwarder, &datagrams, 2);
        let found: Vec<_> = delivered.iter().map(|bytes| (bytes[5], bytes[8], bytes.len())).collect();
        assert_eq!(found, [1, 2, 3, 4, 5, 6].map(|number| (number, 63, 28)));
        let counters = forwarder.counters();
        assert_eq!((counters.ingress_packets.value(), counters.ingress_bytes.value()), (6, 6 * 28));
        assert_eq!((counters.ingress_batches.value(), counters.ingress_trains.value()), (1, 2));
    }

    #[test]
    fn every_datagram_of_a_train_is_judged_for_itself() {
        let train = Datagram { segment_bytes: 28, ..from(PEER) };
        let bytes = [inner(&[]), inner(&[(14, 99)]), inner(&[(5, 2)]), inner(&[])[..20].to_vec()].concat();
        let mut forwarder = testing::forwarder();
        assert_eq!(run(&mut forwarder, &[(train, bytes)], 8).len(), 2);
        assert_eq!(testing::drops(&forwarder), [(DropReason::BadTotalLength, 1), (DropReason::SourceUnleased, 1)]);
    }

    #[test]
    fn a_shut_forwarder_drops_every_datagram_of_a_train() {
        let train = Datagram { segment_bytes: 28, ..from(PEER) };
        let mut forwarder = testing::forwarder();
        forwarder.adopt(None);
        assert_eq!(run(&mut forwarder, &[(train, vec![0; 57]), (from(PEER), inner(&[]))], 8).len(), 0);
        assert_eq!(testing::drops(&forwarder), [(DropReason::Shut, 4)]);
    }
}
