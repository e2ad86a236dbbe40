//! An overlay of two nodes, 10.5.1.0/24 and 10.5.2.0/24, and packets from the one to the other.

use std::net::Ipv4Addr;
use std::num::NonZeroU16;
use std::sync::Arc;

use felt::forward::{Counters, Forwarder, SourceCheck, Tunnel};
use felt::net::{Endpoint, Offload, PartialChecksum, SegmentKind, Segmentation};

pub fn endpoint(node: u8) -> Endpoint {
    Endpoint::from(([192, 0, 2, node], 8285))
}

pub fn peers(address: Ipv4Addr) -> Option<Endpoint> {
    match address.octets() {
        [10, 5, node @ 1..=2, _] => Some(endpoint(node)),
        _ => None,
    }
}

pub fn node(number: u8, counters: &Arc<Counters>) -> Forwarder {
    let mut forwarder = Forwarder::new(Arc::clone(counters));
    forwarder.adopt(Some(&Tunnel {
        own: format!("10.5.{number}.0/24").parse().unwrap(),
        network: "10.5.0.0/16".parse().unwrap(),
        mtu: 1472,
        endpoint: endpoint(number),
        source_check: SourceCheck::Strict,
    }));
    forwarder
}

/// `count` UDP packets of `len` bytes, of one flow.
pub fn datagrams(count: u16, len: usize) -> Vec<(Vec<u8>, Offload)> {
    let payload = vec![7; len - 28];
    let datagram = |id: u16| {
        let mut bytes = Vec::new();
        let header = etherparse::Ipv4Header { identification: id, ..ip(len - 20, etherparse::IpNumber::UDP) };
        etherparse::PacketBuilder::ip(etherparse::IpHeaders::Ipv4(header, etherparse::Ipv4Extensions::default()))
            .udp(1234, 5678)
            .write(&mut bytes, &payload)
            .unwrap();
        (bytes, Offload::default())
    };
    (0..count).map(datagram).collect()
}

fn ip(payload: usize, protocol: etherparse::IpNumber) -> etherparse::Ipv4Header {
    etherparse::Ipv4Header::new(u16::try_from(payload).unwrap(), 64, protocol, [10, 5, 1, 7], [10, 5, 2, 9]).unwrap()
}

/// Of 1 kB each; every eighth has no route, every ninth no hop left and every tenth is junk.
pub fn singles() -> Vec<(Vec<u8>, Offload)> {
    let packet = |at: usize| {
        let mut bytes = vec![0; 1000];
        bytes[..20].copy_from_slice(&[0x45, 2, 3, 0xe8, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 5, 1, 7, 10, 5, 2, 9]);
        if at.is_multiple_of(8) {
            bytes[18] = 99;
        } else if at.is_multiple_of(9) {
            bytes[8] = 1;
        } else if at.is_multiple_of(10) {
            bytes[0] = 0x60;
        }
        (bytes, Offload::default())
    };
    (0..720).map(packet).collect()
}

/// A super-packet of TCP.
pub fn super_packet() -> (Vec<u8>, Offload) {
    let mut bytes = Vec::new();
    let builder = etherparse::PacketBuilder::ipv4([10, 5, 1, 7], [10, 5, 2, 9], 64).tcp(1, 2, 3, 4).ack(5);
    builder.write(&mut bytes, &vec![7; 60_000]).unwrap();
    let segment_bytes = NonZeroU16::new(1400).unwrap();
    let cut = Segmentation { kind: SegmentKind::Tcp4, segment_bytes, header_bytes: 40, ecn: false };
    let checksum = Some(PartialChecksum { start: 20, offset: 16 });
    (bytes, Offload { checksum, segmentation: Some(cut) })
}
