//! From the underlay to the TUN. Whatever is refused here is refused in silence: the sender may be anybody.

use super::encap::Encapsulation;
use super::{DropReason, Forwarder, Peers, SourceCheck, Tunnel, ecn};
use crate::buf::{Batch, Datagram, Packet};
use crate::net::{Ecn, Endpoint};
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

impl<E: Encapsulation> Forwarder<E> {
    /// Moves the inner packets of `from_wire` to `to_tun`, those that may be delivered. `from_wire` is empty afterwards.
    pub fn ingress(&mut self, peers: &mut impl Peers, from_wire: &mut Batch<Datagram>, to_tun: &mut Batch<()>) {
        if from_wire.is_empty() {
            return;
        }
        self.counters.ingress_batches.add(1);
        if let Some(tunnel) = self.tunnel {
            for (packet, datagram) in from_wire.used_mut() {
                if let Err(reason) = arrive::<E>(&tunnel, peers, packet, datagram, to_tun) {
                    self.counters.count_drop(reason, 1);
                }
            }
        } else {
            self.counters.count_drop(DropReason::Shut, from_wire.len() as u64);
        }
        from_wire.clear();
    }
}

#[inline]
fn arrive<E: Encapsulation>(
    tunnel: &Tunnel,
    peers: &mut impl Peers,
    packet: &mut Packet,
    datagram: &Datagram,
    to_tun: &mut Batch<()>,
) -> Result<(), DropReason> {
    E::decap(packet)?;
    let delivery = judge(tunnel, peers, datagram, packet.bytes())?;
    packet.set_len(delivery.len);
    let mut header = Ipv4Mut::new(packet.bytes_mut()).ok_or(DropReason::TooShort)?;
    if !header.decrement_ttl() {
        return Err(DropReason::TtlExpired);
    }
    header.set_ecn(delivery.ecn);
    if to_tun.swap_in(packet, ()) { Ok(()) } else { Err(DropReason::NoSlot) }
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

    fn run(forwarder: &mut Forwarder, datagrams: &[(Datagram, Vec<u8>)], slots: usize) -> Vec<Vec<u8>> {
        let (mut from_wire, mut to_tun) = (Batch::new(8, 2000), Batch::new(slots, 2000));
        for (note, bytes) in datagrams {
            let slot = from_wire.vacant().unwrap();
            slot.0.fill(bytes);
            slot.1 = *note;
            from_wire.commit(1);
        }
        forwarder.ingress(&mut testing::peers(), &mut from_wire, &mut to_tun);
        assert!(from_wire.is_empty());
        to_tun.used().iter().map(|(packet, ())| packet.bytes().to_vec()).collect()
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
    fn a_full_batch_and_a_shut_forwarder_are_reasons_too() {
        let datagrams = vec![(from(PEER), inner(&[])); 3];
        let mut forwarder = testing::forwarder();
        assert_eq!(run(&mut forwarder, &datagrams, 2).len(), 2);
        forwarder.adopt(None);
        assert_eq!(run(&mut forwarder, &datagrams, 8).len(), 0);
        assert_eq!(testing::drops(&forwarder), [(DropReason::Shut, 3), (DropReason::NoSlot, 1)]);
    }
}
