//! Super-packets through TUN devices of the running kernel. Needs root.

#![allow(clippy::cast_possible_truncation, reason = "bytes made of counters, and lengths of packets")]

mod sys_support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU16;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use felt::buf::{Batch, Datagram, Gather, Packet, Piece};
use felt::net::{Ecn, Offload, PartialChecksum, SegmentKind, Segmentation, Supers};
use felt::port::os::{OsTun, OsUdp, TurnLimit, UdpOffloads};
use felt::port::{TunPort, UdpPort};
use felt::sys::netlink::{Netlink, Route};
use felt::sys::poll::{self, Interest};
use felt::sys::tun::{Multiqueue, TunQueue};
use felt::sys::udp::{self, BufferBytes, Outgoing, Sender};
use sys_support::TestNetns;

/// A host of its own with a device felt0: its address, the overlay routed into it, and the queue.
struct Host {
    netns: TestNetns,
    queue: TunQueue,
}

impl Host {
    fn new(purpose: &str, address: &str, supers: Supers) -> Self {
        let netns = TestNetns::new(purpose);
        let queue = netns.run_in(|| {
            let netlink = Netlink::open().unwrap();
            // What IPv6 has to say on a new device would come between.
            std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
            let queue = TunQueue::open_vnet("felt0", Multiqueue::No).unwrap();
            assert_eq!(OsTun::negotiate(&queue, supers), supers);
            let index = netlink.link("felt0").unwrap().index;
            netlink.set_mtu(index, MTU).unwrap();
            netlink.set_up(index).unwrap();
            netlink.add_address(index, format!("{address}/32").parse().unwrap()).unwrap();
            netlink.add_route(&Route::new("10.5.0.0/16".parse().unwrap()).device(index)).unwrap();
            queue
        });
        Self { queue: queue.unwrap(), netns }
    }
}

const MTU: u32 = 1472;
const ALL: Supers = Supers { tcp: true, udp: true };
const PATIENCE: Duration = Duration::from_secs(5);

/// Carries packets between two devices as they are, until told to stop; which super-packets there were, by kind.
fn carry(left: &mut TunQueue, right: &mut TunQueue, stop: &AtomicBool) -> Vec<SegmentKind> {
    let (mut packet, mut kinds) = (Packet::with_capacity(65_536), Vec::new());
    while !stop.load(Relaxed) {
        poll::wait(&mut [Interest::readable(left.as_fd()), Interest::readable(right.as_fd())], Some(Duration::from_millis(20)))
            .unwrap();
        for outward in [true, false] {
            let (from, to) = if outward { (&mut *left, &mut *right) } else { (&mut *right, &mut *left) };
            while let Ok(offload) = from.read(&mut packet) {
                if let Some(segmentation) = offload.segmentation {
                    assert!(packet.bytes().len() > usize::from(segmentation.segment_bytes.get()));
                    kinds.push(segmentation.kind);
                } else {
                    assert!(packet.bytes().len() <= MTU as usize);
                }
                // In two parts, the second of which is the payload's most.
                let (head, body) = packet.bytes().split_at(40);
                to.write(&offload, [head, body]).unwrap();
            }
        }
    }
    kinds
}

#[test]
fn a_tcp_stream_crosses_in_super_packets() {
    let (mut left, mut right) = (Host::new("tso-l", "10.5.1.0", ALL), Host::new("tso-r", "10.5.2.0", ALL));
    let listener = right.netns.run_in(|| TcpListener::bind("10.5.2.0:9000").unwrap()).unwrap();
    let sent: Vec<u8> = (0..1_000_000u32).map(|at| (at >> 8 ^ at) as u8).collect();
    let stop = AtomicBool::new(false);
    let (received, kinds) = thread::scope(|scope| {
        let carrying = scope.spawn(|| carry(&mut left.queue, &mut right.queue, &stop));
        let receiving = scope.spawn(move || {
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        let to = "10.5.2.0:9000".parse().unwrap();
        let mut stream = left.netns.run_in(|| TcpStream::connect_timeout(&to, PATIENCE).unwrap()).unwrap();
        stream.write_all(&sent).unwrap();
        drop(stream);
        let received = receiving.join().unwrap();
        stop.store(true, Relaxed);
        (received, carrying.join().unwrap())
    });
    assert!(received == sent, "{} bytes came", received.len());
    assert!(kinds.len() > 10 && kinds.iter().all(|kind| *kind == SegmentKind::Tcp4), "{kinds:?}");
}

#[test]
fn a_train_of_datagrams_crosses_as_one_super_packet() {
    let (mut left, mut right) = (Host::new("uso-l", "10.5.1.0", ALL), Host::new("uso-r", "10.5.2.0", ALL));
    let bind = |address: &str| udp::UdpSocket::bind(address.parse().unwrap(), BufferBytes::default()).unwrap();
    let to = right.netns.run_in(|| bind("10.5.2.0:9000")).unwrap();
    let from = left.netns.run_in(|| bind("10.5.1.0:9000")).unwrap();
    let bytes: Vec<u8> = (0..40 * 1400 + 9u32).map(|at| (at / 1400) as u8).collect();
    let train = Outgoing { bytes: &bytes, peer: to.local(), ecn: Ecn::NotEct, segment_bytes: 1400 };
    assert_eq!(from.send(&mut Sender::new(1), std::iter::once(train)).unwrap(), 1);
    let stop = AtomicBool::new(false);
    let kinds = thread::scope(|scope| {
        let carrying = scope.spawn(|| carry(&mut left.queue, &mut right.queue, &stop));
        let mut port = OsUdp::new(to, 64, UdpOffloads::NONE);
        let mut received = Batch::<Datagram>::new(41, 2000);
        while received.len() < 41 && poll::wait(&mut [Interest::readable(port.as_fd())], Some(PATIENCE)).unwrap() > 0 {
            port.recv(&mut received).unwrap();
        }
        stop.store(true, Relaxed);
        let joined: Vec<u8> = received.used().iter().flat_map(|(packet, _)| packet.bytes().to_vec()).collect();
        assert!(joined == bytes, "{} datagrams came", received.len());
        carrying.join().unwrap()
    });
    assert_eq!(kinds, [SegmentKind::Udp]);
}

/// A UDP packet over IPv4 from 10.5.2.2 to 10.5.1.0.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ipv4([10, 5, 2, 2], [10, 5, 1, 0], 9).udp(9000, 9000);
    let mut packet = Vec::new();
    builder.write(&mut packet, payload).unwrap();
    packet
}

#[test]
fn gathered_packets_reach_a_socket() {
    let host = Host::new("gather", "10.5.1.0", ALL);
    let payloads: Vec<Vec<u8>> = (0..8u8).map(|at| vec![at; if at == 7 { 33 } else { 1400 }]).collect();
    let mut memory = Batch::<Datagram>::new(8, 2000);
    let mut gather = Gather::new(4, 16);
    for (at, payload) in payloads.iter().enumerate() {
        let packet = datagram(payload);
        memory.vacant().unwrap().0.fill(&packet);
        memory.commit(1);
        let slot = u16::try_from(at).unwrap();
        let piece = |start: usize| Piece { slot, start: start as u32, len: (packet.len() - start) as u32 };
        if at == 0 {
            assert_eq!(gather.push(piece(0)), Some(0));
        } else {
            assert!(gather.append(0, piece(28)));
        }
    }
    let mut header = datagram(&payloads.concat())[..28].to_vec();
    // What is to be summed up by the kernel holds the sum of the pseudo-header.
    let words = [0x0a05, 0x0202, 0x0a05, 0x0100, 17, u32::from(header[24]) << 8 | u32::from(header[25])];
    let sum = words.iter().sum::<u32>();
    header[26..].copy_from_slice(&u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap().to_be_bytes());
    let segment_bytes = NonZeroU16::new(1400).unwrap();
    let segmentation = Some(Segmentation { kind: SegmentKind::Udp, segment_bytes, header_bytes: 28, ecn: false });
    let checksum = Some(PartialChecksum { start: 20, offset: 6 });
    assert!(gather.crown(0, &header, Offload { checksum, segmentation }));
    // The last one again, alone.
    let alone = Piece { slot: 7, start: 0, len: 28 + 33 };
    assert_eq!(gather.push(alone), Some(1));

    let socket = host.netns.run_in(|| UdpSocket::bind("10.5.1.0:9000").unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut plain = OsTun::new(host.queue, TurnLimit::NONE, Supers::default());
    assert_eq!(plain.send_gathered(&gather, &memory).unwrap(), 0);
    let mut port = OsTun::new(plain.into_queue(), TurnLimit::NONE, ALL);
    assert_eq!(port.send_gathered(&gather, &memory).unwrap(), 0);
    assert!(port.standing().tso.is_on() && port.standing().uso.is_on(), "taken as a whole");
    let mut buffer = [0; 2000];
    for payload in payloads.iter().chain(payloads.last()).chain(&payloads).chain(payloads.last()) {
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], *payload);
    }
}

#[test]
fn a_probe_is_taken_once_the_device_is_up_and_goes_nowhere() {
    let netns = TestNetns::new("probe");
    let probing = || {
        let netlink = Netlink::open().unwrap();
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        let queue = TunQueue::open_vnet("felt0", Multiqueue::No).unwrap();
        let mut port = OsTun::new(queue, TurnLimit::NONE, ALL);
        assert!(!port.probe().unwrap(), "down: nothing is found out");
        let index = netlink.link("felt0").unwrap().index;
        netlink.set_up(index).unwrap();
        netlink.add_address(index, "10.5.1.0/32".parse().unwrap()).unwrap();
        let before = header_errors();
        assert!(port.probe().unwrap());
        assert!(port.standing().tso.is_on() && port.standing().uso.is_on());
        assert_eq!(header_errors(), before + 3, "dropped as the first thing");
        assert_eq!(port.recv(&mut Batch::new(8, 65_536)).unwrap(), 0, "nobody answers");
        netlink.delete_link(index).unwrap();
        assert!(port.probe().is_err());
    };
    netns.run_in(probing).unwrap();
}

/// Waits until the device sends again after a queue was attached to it: the kernel gets round to that a moment later.
fn settle() {
    let netlink = Netlink::open().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !netlink.link("felt0").unwrap().running {
        assert!(Instant::now() < deadline, "the device stays without carrier");
        thread::sleep(Duration::from_millis(2));
    }
}

/// IPv4 packets this namespace dropped for their header.
fn header_errors() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Ip: ")).map(|line| line.split(' '));
    let (names, mut values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.into_iter().position(|name| name == "InHdrErrors").unwrap();
    values.nth(at).unwrap().parse().unwrap()
}

#[test]
fn a_plain_open_takes_back_what_a_former_user_left_switched_on() {
    let Host { netns, queue } = Host::new("reset", "10.5.1.0", ALL);
    queue.set_persistent(true).unwrap();
    drop(queue);
    netns
        .run_in(|| {
            let mut queue = TunQueue::open("felt0", Multiqueue::No).unwrap();
            settle();
            let mut packet = Packet::with_capacity(65_536);
            let from = udp::UdpSocket::bind("10.5.1.0:9000".parse().unwrap(), BufferBytes::default()).unwrap();
            let train = Outgoing { bytes: &[7; 10_000], peer: ([10, 5, 2, 2], 9000).into(), ecn: Ecn::Ect0, segment_bytes: 1000 };
            assert_eq!(from.send(&mut Sender::new(1), std::iter::once(train)).unwrap(), 1);
            let mut count = 0;
            while let Ok(offload) = queue.read(&mut packet) {
                assert_eq!((packet.bytes().len(), offload), (1028, Offload::default()));
                let (ip, rest) = etherparse::Ipv4Header::from_slice(packet.bytes()).unwrap();
                let (header, payload) = etherparse::UdpHeader::from_slice(rest).unwrap();
                assert_eq!(header.calc_checksum_ipv4(&ip, payload).unwrap(), header.checksum, "not left to us");
                count += 1;
            }
            assert_eq!(count, 10);
            // And with headers again: nothing comes unasked.
            drop(queue);
            let mut queue = TunQueue::open_vnet("felt0", Multiqueue::No).unwrap();
            settle();
            assert_eq!(from.send(&mut Sender::new(1), std::iter::once(train)).unwrap(), 1);
            let mut lengths = Vec::new();
            while let Ok(offload) = queue.read(&mut packet) {
                assert_eq!(offload, Offload::default());
                lengths.push(packet.bytes().len());
            }
            assert_eq!(lengths, [1028; 10]);
            queue.set_persistent(false).unwrap();
        })
        .unwrap();
}

#[test]
fn a_turn_ends_at_its_limits() {
    let host = Host::new("limit", "10.5.1.0", Supers::default());
    let from = host.netns.run_in(|| UdpSocket::bind("10.5.1.0:9000").unwrap()).unwrap();
    (0..20).for_each(|_| assert_eq!(from.send_to(&[7; 972], "10.5.2.2:9000").unwrap(), 972));
    let mut queue = host.queue;
    for (packets, bytes, expected) in [(3, usize::MAX, 3), (usize::MAX, 5000, 5), (usize::MAX, usize::MAX, 12)] {
        let mut port = OsTun::new(queue, TurnLimit { packets, bytes }, Supers::default());
        assert_eq!(port.recv(&mut Batch::new(64, 2000)).unwrap(), expected);
        queue = port.into_queue();
    }
}
