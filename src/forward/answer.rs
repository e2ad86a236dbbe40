//! When a dropped packet's sender is told, and in whose name.
//!
//! RFC 1122 section 3.2.2 says about what no ICMP error may be sent. Flannel stays silent about every ICMP packet; here only
//! errors are passed over, so that a `ping` to nowhere is told so at once.

use std::net::Ipv4Addr;

use super::Tunnel;
use crate::buf::Batch;
use crate::wire::icmp::{self, IcmpError};
use crate::wire::ipv4::Ipv4;

/// Whether the sender of `offender` may be told about an error.
pub(super) fn may_answer(tunnel: &Tunnel, offender: &Ipv4<'_>) -> bool {
    offender.fragment_offset() == 0
        && is_host(tunnel, offender.source())
        && !is_group(tunnel, offender.destination())
        && (offender.protocol() != icmp::PROTOCOL || offender.payload().first().is_some_and(|kind| icmp::is_query(*kind)))
}

/// Appends the answer to `answers`; `false` when there is no slot or it does not fit one.
///
/// It comes in the name of the offender's destination. Flannel's comes from the TUN's own address and never arrives: what
/// enters a host under one of the host's own addresses is a martian to Linux, for pods as for the host itself (`in_martian_src`
/// counts; seen on 6.18), unless `accept_local` is set. The destination passes, with `rp_filter=1` too, for the route to it
/// leads into the TUN, or the offender would not have come out of it.
pub(super) fn write(offender: &Ipv4<'_>, error: IcmpError, answers: &mut Batch<()>) -> bool {
    let Some((packet, ())) = answers.vacant() else { return false };
    let Some(len) = icmp::write_error(packet.room(), offender.destination(), offender, error) else { return false };
    packet.set_len(len);
    answers.commit(1);
    true
}

/// Whether `address` stands for a single host that can be answered. 240.0.0.0/4 passes: networks use it for hosts today.
fn is_host(tunnel: &Tunnel, address: Ipv4Addr) -> bool {
    !is_group(tunnel, address) && address.octets()[0] != 0 && !address.is_loopback()
}

/// Whether `address` stands for many hosts. Of directed broadcasts only those of our own networks can be known.
fn is_group(tunnel: &Tunnel, address: Ipv4Addr) -> bool {
    address.is_multicast()
        || address.is_broadcast()
        || [tunnel.network, tunnel.own].iter().any(|prefix| prefix.len() < 31 && prefix.last() == address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::testing::{self, P64};

    /// P64 with these bytes changed.
    fn packet(edits: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = testing::hex(P64);
        for (at, new) in edits {
            bytes[*at..*at + new.len()].copy_from_slice(new);
        }
        bytes
    }

    #[test]
    fn who_is_told_follows_rfc_1122() {
        let tunnel = testing::tunnel();
        let icmp = |kind: u8| packet(&[(9, &[1]), (20, &[kind])]);
        let source = |octets: [u8; 4]| packet(&[(12, &octets)]);
        let destination = |octets: [u8; 4]| packet(&[(16, &octets)]);
        let table = [
            ("udp", true, packet(&[])),
            ("first fragment", true, packet(&[(6, &[0x20, 0])])),
            ("later fragment", false, packet(&[(6, &[0, 0xb9])])),
            ("echo request", true, icmp(8)),
            ("echo reply", true, icmp(0)),
            ("unreachable", false, icmp(3)),
            ("source quench", false, icmp(4)),
            ("redirect", false, icmp(5)),
            ("time exceeded", false, icmp(11)),
            ("parameter problem", false, icmp(12)),
            ("icmp without a type", false, packet(&[(9, &[1]), (3, &[20])])),
            ("from multicast", false, source([224, 0, 0, 1])),
            ("from broadcast", false, source([255; 4])),
            ("from nobody", false, source([0; 4])),
            ("from this network", false, source([0, 1, 2, 3])),
            ("from loopback", false, source([127, 0, 0, 1])),
            ("from the overlay's broadcast", false, source([10, 5, 255, 255])),
            ("from our subnet's broadcast", false, source([10, 5, 16, 255])),
            ("from outside the overlay", true, source([192, 0, 2, 1])),
            ("from class E", true, source([240, 1, 2, 3])),
            ("to multicast", false, destination([239, 1, 2, 3])),
            ("to broadcast", false, destination([255; 4])),
            ("to the overlay's broadcast", false, destination([10, 5, 255, 255])),
        ];
        for (name, expected, bytes) in table {
            assert_eq!(may_answer(&tunnel, &Ipv4::parse(&bytes).unwrap()), expected, "{name}");
        }
    }

    #[test]
    fn pods_and_the_host_are_answered_in_the_name_of_the_destination() {
        for source in [[10, 5, 16, 2], [10, 5, 16, 0]] {
            let bytes = packet(&[(12, &source)]);
            let mut answers = Batch::new(1, 100);
            assert!(write(&Ipv4::parse(&bytes).unwrap(), IcmpError::NetUnreachable, &mut answers));
            let answer = Ipv4::parse(answers.used()[0].0.bytes()).unwrap();
            assert_eq!((answer.source().octets(), answer.destination().octets()), ([10, 5, 20, 3], source));
        }
    }

    #[test]
    fn no_slot_or_no_room_is_no_answer() {
        let bytes = packet(&[]);
        let offender = Ipv4::parse(&bytes).unwrap();
        for mut answers in [Batch::new(0, 100), Batch::new(1, 55)] {
            assert!(!write(&offender, IcmpError::TimeExceeded, &mut answers));
            assert!(answers.is_empty());
        }
    }
}
