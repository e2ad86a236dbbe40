//! What crosses the underlay, and what comes out of the overlay, looked at packet by packet.

use std::thread;
use std::time::Duration;

use etherparse::{Ipv4Slice, SlicedPacket, TransportSlice};
use felt::lab::probe::{Amount, Transfer};
use felt::lab::{Interrupt, Lab};
use felt::sys::ethtool::Offload;

use crate::capture::{Capture, Seen};
use crate::ground::{Both, Underlay, carry, direct, ground, switch, uplink_packets};
use crate::support::{PATIENCE, eventually, metrics, node, pod, pod_address, udp_in};

const QUIET: Duration = Duration::from_millis(500);
/// Of the outer headers: IPv4 and UDP.
const OUTER: usize = 28;

fn transfer(lab: &Lab, amount: Amount) -> Transfer {
    Transfer::start(&pod(lab, 1), &pod(lab, 2), pod_address(lab, 2), amount, PATIENCE).unwrap()
}

/// While the same bytes go over a link that carries trains: packets the overlay sent, trains among them, and packets that
/// came out of the link.
fn crossing(name: &str, flags: &[&str]) -> (u64, u64, u64) {
    let lab = ground(direct(name, flags));
    carry(&lab, Underlay::Super);
    let gso = metrics(&node(&lab, 1)).value("felt_offload_enabled{offload=\"udp_gso\"}");
    assert_eq!(gso, u64::from(flags.is_empty()));
    let (before, came) = (metrics(&node(&lab, 1)), uplink_packets(&lab, 2));
    transfer(&lab, Amount::Bytes(20_000_000)).finish(&Interrupt::new()).unwrap();
    let (after, came) = (metrics(&node(&lab, 1)), uplink_packets(&lab, 2) - came);
    let sent = Both::since("packets", &before, &after).egress;
    (sent, Both::since("trains", &before, &after).egress, came)
}

/// R13: a train that is sent as one message crosses a veth as one packet, so none can hide.
#[test]
fn without_gso_every_datagram_leaves_by_itself() {
    let (sent, trains, came) = crossing("nogso", &["--no-udp-gso"]);
    assert!(trains == 0 && came >= sent, "{sent} packets sent, {trains} trains, {came} came out");
    // What would be seen otherwise.
    let (sent, trains, came) = crossing("withgso", &[]);
    assert!(trains > 0 && came < sent / 2, "{sent} packets sent, {trains} trains, {came} came out");
}

/// An IPv4 packet without what hops change.
fn timeless(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[8] = 0;
    packet[10..12].fill(0);
    packet
}

/// R16: with their neighbours from a TCP flow that is merged, fragments come out as they went in, in their order.
#[test]
fn fragments_amid_a_tcp_flow_are_left_alone() {
    const DATAGRAMS: u8 = 50;
    let lab = ground(direct("frag", &[]));
    let (ends, own) = ([pod(&lab, 1), pod(&lab, 2)], pod_address(&lab, 1).octets());
    let running = transfer(&lab, Amount::Time(Duration::from_secs(2)));
    eventually("TCP moves", PATIENCE, || (running.received() > 1_000_000).then_some(()));
    let listener = udp_in(&ends[1], (pod_address(&lab, 2), 0));
    let speaker = udp_in(&ends[0], (pod_address(&lab, 1), 0));
    let [left, arrived] = [Seen::All, Seen::Incoming]
        .into_iter()
        .zip(&ends)
        .map(|(seen, end)| Capture::udp(end, seen))
        .collect::<Vec<_>>()
        .try_into()
        .ok()
        .unwrap();
    let before = metrics(&node(&lab, 2));
    for number in 0..DATAGRAMS {
        let payload: Vec<u8> = (0..3_000u32).map(|at| number ^ u8::try_from(at % 251).unwrap()).collect();
        speaker.send_to(&payload, listener.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 4096];
        let len = listener.recv(&mut bytes).unwrap();
        assert!(bytes[..len] == payload, "datagram {number}");
    }
    let fragments = usize::from(DATAGRAMS) * 3;
    let of_ours = |bytes: &[u8]| bytes[12..16] == own;
    let [sent, came] = [left, arrived].map(|capture: Capture| capture.find(fragments, PATIENCE, of_ours));
    assert_eq!((sent.len(), came.len()), (fragments, fragments));
    for (sent, came) in sent.iter().zip(&came) {
        assert!(Ipv4Slice::from_slice(came).unwrap().is_payload_fragmented(), "{:?} became {:?}", &sent[..28], &came[..28]);
        assert!(timeless(sent) == timeless(came), "{:?} became {:?}", &sent[..28], &came[..28]);
    }
    running.finish(&Interrupt::new()).unwrap();
    let supers = Both::since("supers", &before, &metrics(&node(&lab, 2)));
    assert!(supers.ingress > 0, "the TCP flow beside them was merged");
}

/// Whether the checksum of a whole UDP packet is right.
fn is_right(packet: &[u8]) -> bool {
    let sliced = SlicedPacket::from_ip(packet).unwrap();
    let ip = Ipv4Slice::from_slice(packet).unwrap().header().to_header();
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("{sliced:?}") };
    let expected = udp.to_header().calc_checksum_ipv4(&ip, udp.payload()).unwrap();
    ip.header_checksum == ip.calc_header_checksum() && udp.checksum() == expected
}

/// R18: the kernel leaves the checksum of a local sender's packet to the device; what leaves has it complete.
#[test]
fn partial_checksums_are_completed_before_they_leave() {
    let lab = ground(direct("partial", &[]));
    // So that the outer checksum is complete on the wire, too.
    switch(&lab, &[(Offload::TxChecksum, false)]);
    let listener = udp_in(&pod(&lab, 2), (pod_address(&lab, 2), 0));
    let speaker = udp_in(&pod(&lab, 1), (pod_address(&lab, 1), 0));
    let to = listener.local_addr().unwrap();
    let (inside, outside) = (Capture::udp(&node(&lab, 1), Seen::All), Capture::udp(&node(&lab, 2), Seen::Incoming));
    for len in [1_usize, 2, 7, 64, 999, 1_444] {
        let payload = vec![u8::try_from(len % 200).unwrap() + 3; len];
        thread::sleep(Duration::from_millis(1));
        speaker.send_to(&payload, to).unwrap();
        assert_eq!(listener.recv(&mut [0; 2048]).unwrap(), len);
        // One hop older: it leaves through the overlay's device.
        let routed = |bytes: &[u8]| bytes[8] == 63 && bytes.ends_with(&payload) && bytes.len() == OUTER + len;
        let read = inside.find(1, PATIENCE, routed);
        assert!(!is_right(&read[0]), "the checksum of {len} bytes is not left to the device: this test shows nothing");
        let outer = outside.find(1, PATIENCE, |bytes| bytes.ends_with(&payload) && bytes.len() == 2 * OUTER + len);
        assert!(is_right(&outer[0]), "outer checksum of {len} bytes");
        assert!(is_right(&outer[0][OUTER..]), "inner checksum of {len} bytes");
        assert_eq!(outside.find(1, QUIET / 10, |bytes| bytes.len() == 2 * OUTER + len), Vec::<Vec<u8>>::new());
    }
}
