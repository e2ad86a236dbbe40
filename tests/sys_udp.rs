//! Batches of datagrams against the running kernel. Needs root.

mod sys_support;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use felt::buf::{Batch, Datagram, Packet, Refusal, Refused, TrainLimit};
use felt::net::Ecn;
use felt::port::UdpPort;
use felt::port::os::{OsUdp, UdpOffloads};
use felt::sys::netlink::{Netlink, Route};
use felt::sys::poll::{self, Interest};
use felt::sys::udp::{BufferBytes, UdpError, UdpSocket};
use sys_support::TestNetns;

const SMALL: BufferBytes = BufferBytes { receive: 1 << 20, send: 1 << 20 };

fn port(address: &str, burst: usize) -> OsUdp {
    OsUdp::new(UdpSocket::bind(address.parse().unwrap(), SMALL).unwrap(), burst, UdpOffloads::NONE)
}

fn batch(peer: SocketAddr, payloads: &[&[u8]]) -> Batch<Datagram> {
    let mut batch = Batch::<Datagram>::new(payloads.len(), 2000);
    for payload in payloads {
        let (packet, note) = batch.vacant().unwrap();
        packet.fill(payload);
        note.peer = peer;
        batch.commit(1);
    }
    batch
}

fn receive(port: &mut OsUdp, count: usize, capacity: usize) -> Batch<Datagram> {
    let mut batch = Batch::new(count, capacity);
    while batch.len() < count {
        let ready = poll::wait(&mut [Interest::readable(port.as_fd())], Some(Duration::from_secs(5))).unwrap();
        assert_eq!(ready, 1, "{} of {count} datagrams came", batch.len());
        port.recv(&mut batch).unwrap();
    }
    batch
}

#[test]
fn batches_larger_than_a_burst_arrive_whole_and_in_order() {
    let (mut left, mut right) = (port("127.0.0.1:0", 4), port("127.0.0.1:0", 3));
    let payloads: Vec<Vec<u8>> = (0..10u8).map(|number| vec![number; usize::from(number)]).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    let mut sent = batch(right.socket().local(), &payloads);
    assert_eq!(left.send(&mut sent).unwrap(), 0);
    assert!(sent.used().iter().all(|(_, note)| note.refused.is_none()));
    let received = receive(&mut right, 10, 100);
    for ((packet, note), payload) in received.used().iter().zip(payloads) {
        assert_eq!(packet.bytes(), payload);
        assert_eq!((note.peer, note.ecn, note.truncated), (left.socket().local(), Ecn::NotEct, false));
    }
    assert_eq!(right.recv(&mut Batch::new(1, 100)).unwrap(), 0);
    assert_eq!(right.recv(&mut Batch::new(0, 100)).unwrap(), 0);
}

#[test]
fn congestion_marks_go_with_each_datagram() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (mut left, mut right) = (port(address, 8), port(address, 8));
        let marks = [Ecn::Ce, Ecn::NotEct, Ecn::Ect0, Ecn::Ect1];
        let mut sent = batch(right.socket().local(), &[b"a".as_slice(); 4]);
        for ((_, note), mark) in sent.used_mut().iter_mut().zip(marks) {
            note.ecn = mark;
        }
        assert_eq!(left.send(&mut sent).unwrap(), 0);
        let received: Vec<Ecn> = receive(&mut right, 4, 100).used().iter().map(|(_, note)| note.ecn).collect();
        assert_eq!(received, marks, "{address}");
    }
}

#[test]
fn what_does_not_fit_a_slot_is_marked() {
    let (mut left, mut right) = (port("127.0.0.1:0", 8), port("127.0.0.1:0", 8));
    left.send(&mut batch(right.socket().local(), &[&[7; 101], &[8; 100]])).unwrap();
    let received = receive(&mut right, 2, 100);
    let seen: Vec<_> = received.used().iter().map(|(packet, note)| (packet.bytes().len(), note.truncated)).collect();
    assert_eq!(seen, [(100, true), (100, false)]);
}

#[test]
fn news_of_dead_peers_disturbs_nobody() {
    let mut left = port("127.0.0.1:0", 8);
    let mut right = port("127.0.0.1:0", 8);
    let nobody = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), SMALL).unwrap().local();
    for _ in 0..3 {
        let mut sent = batch(nobody, &[b"into the void", b"to a peer"]);
        sent.used_mut()[1].1.peer = right.socket().local();
        assert_eq!(left.send(&mut sent).unwrap(), 0);
        assert_eq!(left.recv(&mut Batch::new(4, 100)).unwrap(), 0);
        assert_eq!(receive(&mut right, 1, 100).used()[0].0.bytes(), b"to a peer");
    }
}

#[test]
fn buffers_are_large_and_read_back() {
    let wanted = BufferBytes::default();
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), wanted).unwrap();
    assert_eq!(socket.granted(), BufferBytes { receive: 2 * wanted.receive, send: 2 * wanted.send }, "root exceeds the limit");
}

#[test]
fn bind_errors_are_told_apart() {
    let first = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), SMALL).unwrap();
    assert!(matches!(UdpSocket::bind(first.local(), SMALL).unwrap_err(), UdpError::InUse { .. }));
    let error = UdpSocket::bind("192.0.2.1:8285".parse().unwrap(), SMALL).unwrap_err();
    assert!(matches!(error, UdpError::NotLocal { .. }));
}

#[test]
fn a_full_send_buffer_refuses_the_rest_of_the_batch() {
    TestNetns::new("udp-full")
        .run_in(|| {
            let netlink = Netlink::open().unwrap();
            let link = netlink.create_veth("eth0", "eth1", None).unwrap();
            netlink.set_up(netlink.link("eth1").unwrap().index).unwrap();
            netlink.set_up(link.index).unwrap();
            netlink.add_address(link.index, "192.168.9.1/24".parse().unwrap()).unwrap();
            let buffers = BufferBytes { receive: 1 << 16, send: 1 << 14 };
            let socket = UdpSocket::bind("192.168.9.1:8285".parse().unwrap(), buffers).unwrap();
            let mut port = OsUdp::new(socket, 64, UdpOffloads::NONE);
            // Nobody answers for this address, so datagrams pile up behind the question who has it.
            let payload = [7; 1400];
            let mut sent = batch("192.168.9.77:8285".parse().unwrap(), &[&payload[..]; 40]);
            let refused = port.send(&mut sent).unwrap();
            let notes: Vec<_> = sent.used().iter().map(|(_, note)| note.refused.map(|refused| refused.reason)).collect();
            let left = notes.iter().take_while(|note| note.is_none()).count();
            assert!(left > 0 && left + refused == 40 && refused > 0, "{left} {refused}");
            assert!(notes[left..].iter().all(|note| *note == Some(Refusal::NoBuffer)));
        })
        .unwrap();
}

#[test]
fn a_group_shares_a_port_that_nobody_else_gets() {
    let group = UdpSocket::bind_group("127.0.0.1:0".parse().unwrap(), SMALL, 3).unwrap();
    let address = group[0].local();
    assert!(group.iter().all(|socket| socket.local() == address));
    assert!(matches!(UdpSocket::bind(address, SMALL).unwrap_err(), UdpError::InUse { .. }));
    assert!(matches!(UdpSocket::bind_group(address, SMALL, 2).unwrap_err(), UdpError::InUse { .. }));
    let mut group: Vec<_> = group.into_iter().map(|socket| OsUdp::new(socket, 8, UdpOffloads::NONE)).collect();
    let mut counts = [0; 3];
    for _ in 0..60 {
        // Each from a port of its own.
        assert_eq!(port("127.0.0.1:0", 1).send(&mut batch(address, &[b"hello"])).unwrap(), 0);
    }
    for (port, count) in group.iter_mut().zip(&mut counts) {
        let mut received = Batch::new(60, 100);
        while port.recv(&mut received).unwrap() > 0 {}
        *count = received.len();
    }
    assert_eq!(counts.iter().sum::<usize>(), 60);
    assert!(counts.iter().filter(|count| **count > 0).count() > 1, "spread: {counts:?}");
}

/// Two namespaces joined by a veth pair with MTU 1500: 192.168.9.1 and 192.168.9.2.
fn pair() -> (TestNetns, TestNetns) {
    let (here, there) = (TestNetns::new("udp-l"), TestNetns::new("udp-r"));
    here.run_in(|| Netlink::open().unwrap().create_veth("eth0", "eth0", Some(there.as_fd())).unwrap()).unwrap();
    for (netns, address) in [(&here, "192.168.9.1/24"), (&there, "192.168.9.2/24")] {
        netns
            .run_in(|| {
                let netlink = Netlink::open().unwrap();
                let index = netlink.link("eth0").unwrap().index;
                netlink.add_address(index, address.parse().unwrap()).unwrap();
                netlink.set_up(index).unwrap();
            })
            .unwrap();
    }
    here.run_in(acquaint).unwrap();
    (here, there)
}

/// Has both ends learn the other's link address. What is sent before that waits in the kernel, where a busy machine
/// keeps 208 KiB of it and loses the rest.
fn acquaint() {
    let probe = std::net::UdpSocket::bind("192.168.9.1:0").unwrap();
    probe.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    probe.connect("192.168.9.2:9").unwrap();
    probe.send(&[0]).unwrap();
    assert_eq!(probe.recv(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

/// A route of MTU 1400 between the two.
#[test]
fn each_refusal_stays_with_its_datagram() {
    let (here, there) = pair();
    let mut right = there.run_in(|| port("192.168.9.2:8285", 16)).unwrap();
    here.run_in(|| {
        let netlink = Netlink::open().unwrap();
        let index = netlink.link("eth0").unwrap().index;
        let mut left = port("192.168.9.1:8285", 16);
        let peer = right.socket().local();
        assert_eq!(left.path_mtu(peer).unwrap(), 1500);
        netlink.add_route(&Route::new("192.168.9.2/32".parse().unwrap()).device(index).mtu(1400)).unwrap();
        assert_eq!(left.path_mtu(peer).unwrap(), 1400);

        let mut sent = batch(peer, &[&[1; 1372], &[2; 1373], &[3; 10], &[4; 10], &[5; 10]]);
        sent.used_mut()[2].1.peer = (Ipv4Addr::new(203, 0, 113, 1), 8285).into();
        sent.used_mut()[0].1.refuse(Refusal::Other);
        assert_eq!(left.send(&mut sent).unwrap(), 2);
        let notes: Vec<_> = sent.used().iter().map(|(_, note)| note.refused.map(|refused| refused.reason)).collect();
        assert_eq!(notes, [None, Some(Refusal::TooBig), Some(Refusal::Other), None, None]);
        let first_bytes: Vec<_> = receive(&mut right, 3, 2000).used().iter().map(|(packet, _)| packet.bytes()[0]).collect();
        assert_eq!(first_bytes, [1, 4, 5]);

        // The same width goes through when it may be fragmented, and is refused again afterwards.
        let mut wide = batch(peer, &[&[6; 1900]]);
        wide.used_mut()[0].1.may_fragment = true;
        assert_eq!(left.send(&mut wide).unwrap(), 0);
        assert_eq!(wide.used()[0].1.refused, None);
        assert_eq!(receive(&mut right, 1, 2000).used()[0].0.bytes(), [6; 1900]);
        assert_eq!(left.send(&mut batch(peer, &[&[6; 1900]])).unwrap(), 1);

        let error = left.socket().path_mtu("203.0.113.1:8285".parse().unwrap()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENETUNREACH));
    })
    .unwrap();
}

#[test]
fn what_finds_the_receive_buffer_full_is_counted() {
    const TINY: BufferBytes = BufferBytes { receive: 4096, send: 1 << 20 };
    let mut left = port("127.0.0.1:0", 8);
    let right = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), TINY).unwrap();
    assert_eq!(right.receive_drops().unwrap(), 0);
    for _ in 0..40 {
        left.send(&mut batch(right.local(), &[&[7; 1000]])).unwrap();
    }
    let dropped = right.receive_drops().unwrap();
    let mut right = OsUdp::new(right, 8, UdpOffloads::NONE);
    let mut arrived = Batch::new(40, 2000);
    while right.recv(&mut arrived).unwrap() > 0 {}
    assert!(dropped > 0 && dropped + u32::try_from(arrived.len()).unwrap() == 40, "{dropped} dropped, {} came", arrived.len());
}

/// A port that makes use of whatever the kernel has.
fn offloaded(address: &str, wanted: UdpOffloads) -> OsUdp {
    OsUdp::new(UdpSocket::bind(address.parse().unwrap(), BufferBytes::default()).unwrap(), 64, wanted)
}

/// A slot of `count` datagrams of `size` bytes, the last of `last`, each byte of datagram N being N.
fn train(batch: &mut Batch<Datagram>, peer: SocketAddr, ecn: Ecn, [count, size, last]: [usize; 3]) {
    let (packet, note) = batch.vacant().unwrap();
    let bytes: Vec<u8> = (0..(count - 1) * size + last).map(|at| u8::try_from(at / size).unwrap()).collect();
    packet.fill(&bytes);
    *note = Datagram { peer, ecn, segment_bytes: u16::try_from(size).unwrap(), ..Datagram::default() };
    batch.commit(1);
}

/// What is in `batch`, datagram by datagram: number, length, mark.
fn datagrams(batch: &Batch<Datagram>) -> Vec<(u8, usize, Ecn)> {
    let of_slot = |(packet, note): &(Packet, Datagram)| {
        let (bytes, note) = (packet.bytes().to_vec(), *note);
        let each = (0..note.count(bytes.len())).map(move |at| {
            let datagram = &bytes[note.range(at, bytes.len())];
            assert!(datagram.iter().all(|byte| *byte == datagram[0]) && !note.truncated);
            (datagram[0], datagram.len(), note.ecn)
        });
        each.collect::<Vec<_>>()
    };
    batch.used().iter().flat_map(of_slot).collect()
}

/// Receives until `count` datagrams are there.
fn receive_datagrams(port: &mut OsUdp, count: usize, slots: usize) -> Batch<Datagram> {
    let mut batch = Batch::new(slots, 65_536);
    while datagrams(&batch).len() < count {
        let ready = poll::wait(&mut [Interest::readable(port.as_fd())], Some(Duration::from_secs(5))).unwrap();
        assert_eq!(ready, 1, "{} of {count} datagrams came", datagrams(&batch).len());
        port.recv(&mut batch).unwrap();
    }
    batch
}

#[test]
fn trains_arrive_whole_or_as_datagrams_as_the_receiver_likes() {
    let (here, there) = pair();
    let mut left = here.run_in(|| offloaded("192.168.9.1:8285", UdpOffloads::ALL)).unwrap();
    assert!(left.standing().gso.is_on() && left.standing().gro.is_on());
    let limit = left.train();
    assert!(limit.datagrams == 128 && limit.bytes > 65_000, "{limit:?}");
    // Full ones, one with a short end, one as long as may be, and one that is none.
    let longest = [limit.bytes.div_ceil(1400), 1400, limit.bytes % 1400];
    let shapes = [[45, 1432, 1432], [64, 1000, 3], [128, 500, 500], longest, [1, 900, 900]];
    let marks = [Ecn::NotEct, Ecn::Ce, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
    for (wanted, slots) in [(UdpOffloads::ALL, 5), (UdpOffloads::NONE, 285)] {
        let mut right = there.run_in(|| offloaded("192.168.9.2:8285", wanted)).unwrap();
        let mut sent = Batch::<Datagram>::new(5, 65_536);
        for (shape, mark) in shapes.into_iter().zip(marks) {
            train(&mut sent, right.socket().local(), mark, shape);
        }
        assert_eq!(left.send(&mut sent).unwrap(), 0);
        let received = receive_datagrams(&mut right, datagrams(&sent).len(), slots);
        assert_eq!(datagrams(&received), datagrams(&sent));
        assert!(received.used().iter().all(|(_, note)| note.peer == left.socket().local()));
        let sizes: Vec<u16> = received.used().iter().map(|(_, note)| note.segment_bytes).collect();
        let expected = if wanted.gro { vec![1432, 1000, 500, 1400, 0] } else { vec![0; slots] };
        assert_eq!(sizes, expected);
    }
    assert!(left.standing().gso.is_on());
}

#[test]
fn trains_cross_ipv6_and_the_longest_are_taken() {
    let (mut left, mut right) = (offloaded("[::1]:0", UdpOffloads::ALL), offloaded("[::1]:0", UdpOffloads::ALL));
    let bytes = left.train().bytes;
    for shape in [[45, 1400, 7], [bytes.div_ceil(1400), 1400, bytes % 1400]] {
        let mut sent = Batch::<Datagram>::new(1, 65_536);
        train(&mut sent, right.socket().local(), Ecn::Ect0, shape);
        assert_eq!(left.send(&mut sent).unwrap(), 0);
        let received = receive_datagrams(&mut right, shape[0], 64);
        assert_eq!((datagrams(&received), received.len()), (datagrams(&sent), 1));
    }
}

#[test]
fn without_the_offload_trains_leave_datagram_by_datagram() {
    let (mut left, mut right) = (offloaded("127.0.0.1:0", UdpOffloads::NONE), offloaded("127.0.0.1:0", UdpOffloads::NONE));
    assert_eq!(left.train(), TrainLimit::ONE);
    let mut sent = Batch::<Datagram>::new(2, 65_536);
    train(&mut sent, right.socket().local(), Ecn::Ce, [100, 600, 5]);
    train(&mut sent, right.socket().local(), Ecn::NotEct, [30, 100, 100]);
    assert_eq!(left.send(&mut sent).unwrap(), 0);
    assert_eq!(datagrams(&receive_datagrams(&mut right, 130, 130)), datagrams(&sent));
}

#[test]
fn a_path_that_becomes_narrow_is_told_datagram_by_datagram() {
    let (here, there) = pair();
    let mut right = there.run_in(|| offloaded("192.168.9.2:8285", UdpOffloads::ALL)).unwrap();
    let mut left = here.run_in(|| offloaded("192.168.9.1:8285", UdpOffloads::ALL)).unwrap();
    let peer = right.socket().local();
    here.run_in(|| {
        let netlink = Netlink::open().unwrap();
        let index = netlink.link("eth0").unwrap().index;
        netlink.add_route(&Route::new("192.168.9.2/32".parse().unwrap()).device(index).mtu(1400)).unwrap();
    })
    .unwrap();
    let mut sent = Batch::<Datagram>::new(4, 65_536);
    let shapes = [[40, 1472, 1372], [20, 1372, 1372], [10, 1400, 1400], [30, 1472, 9]];
    for shape in shapes {
        train(&mut sent, peer, Ecn::Ect0, shape);
    }
    sent.used_mut()[3].1.may_fragment = true;
    assert_eq!(left.send(&mut sent).unwrap(), 2);
    let refused: Vec<_> = sent.used().iter().map(|(_, note)| note.refused).collect();
    let too_big = |which| Some(Refused { reason: Refusal::TooBig, which });
    assert_eq!(refused, [too_big((1 << 39) - 1), None, too_big((1 << 10) - 1), None]);
    // The short end of the first, all of the second, and the last in fragments: in order, and with their marks.
    let received = datagrams(&receive_datagrams(&mut right, 1 + 20 + 30, 64));
    let expected = std::iter::once((39, 1372)).chain((0..20).map(|at| (at, 1372)));
    let expected = expected.chain((0..29).map(|at| (at, 1472))).chain([(29, 9)]);
    assert_eq!(received, expected.map(|(at, len)| (at, len, Ecn::Ect0)).collect::<Vec<_>>());
    assert!(left.standing().gso.is_on() && left.standing().gso.news().is_none(), "that was the path");
}
