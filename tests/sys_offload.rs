//! Offloads of devices, switched on the running kernel. Needs root.
#![allow(unsafe_code, reason = "UDP_SEGMENT is set by setsockopt(2)")]

mod sys_support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use felt::sys::ethtool::{Ethtool, EthtoolError, Offload};
use felt::sys::netlink::Netlink;
use felt::sys::netns::Netns;
use sys_support::TestNetns;

const SEGMENTS: usize = 8;
const SEGMENT_BYTES: i32 = 1000;
const STREAM_BYTES: usize = 4_000_000;
const LARGEST_SEGMENT: usize = 1460;
const SEGMENTING: [Offload; 3] = [Offload::TcpSegmentation, Offload::GenericSegmentation, Offload::UdpSegmentation];

/// Two namespaces, joined back to back.
struct Pair {
    left: TestNetns,
    right: TestNetns,
}

impl Pair {
    fn new(purpose: &str) -> Self {
        let pair = Self { left: TestNetns::new(purpose), right: TestNetns::new(purpose) };
        pair.left.run_in(|| Netlink::open().unwrap().create_veth("eth0", "eth0", Some(pair.right.as_fd())).unwrap()).unwrap();
        for (netns, address) in [(&pair.left, "10.1.0.1/24"), (&pair.right, "10.1.0.2/24")] {
            let up = || {
                // Nothing but the test's own packets shall be counted.
                fs::write("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1").unwrap();
                let netlink = Netlink::open().unwrap();
                let index = netlink.link("eth0").unwrap().index;
                netlink.add_address(index, address.parse().unwrap()).unwrap();
                netlink.set_up(index).unwrap();
            };
            netns.run_in(up).unwrap();
        }
        pair
    }

    fn switch(&self, wanted: &[(Offload, bool)]) {
        for netns in [&self.left, &self.right] {
            netns.run_in(|| Ethtool::open().unwrap().switch("eth0", wanted).unwrap()).unwrap();
        }
    }
}

/// Packets that came in by eth0 so far.
fn received(netns: &Netns) -> usize {
    let table = netns.run_in(|| fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
    let counters = table.lines().find_map(|line| line.trim_start().strip_prefix("eth0:")).unwrap();
    counters.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// How many packets one send of eight segments is on the wire.
fn packets_of_one_send(pair: &Pair) -> usize {
    let sink = pair.right.run_in(|| UdpSocket::bind("10.1.0.2:7000").unwrap()).unwrap();
    let socket = pair.left.run_in(|| UdpSocket::bind("10.1.0.1:0").unwrap()).unwrap();
    // Once without, so that ARP is done with.
    socket.send_to(b"first", "10.1.0.2:7000").unwrap();
    let mut buffer = [0; 2000];
    sink.recv(&mut buffer).unwrap();
    // SAFETY: the option is an int, and lives through the call.
    let set = unsafe {
        let value = std::ptr::from_ref(&SEGMENT_BYTES).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, value, 4)
    };
    assert_eq!(set, 0);
    let before = received(&pair.right);
    socket.send_to(&[1; SEGMENTS * SEGMENT_BYTES as usize], "10.1.0.2:7000").unwrap();
    for _ in 0..SEGMENTS {
        assert_eq!(sink.recv(&mut buffer).unwrap(), SEGMENT_BYTES as usize);
    }
    received(&pair.right) - before
}

/// How many packets a TCP stream of a known length is on the wire.
fn packets_of_a_stream(pair: &Pair) -> usize {
    let listener = pair.right.run_in(|| TcpListener::bind("10.1.0.2:7001").unwrap()).unwrap();
    let before = received(&pair.right);
    let mut sender = pair.left.run_in(|| TcpStream::connect("10.1.0.2:7001").unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let writer = std::thread::spawn(move || sender.write_all(&vec![1; STREAM_BYTES]).unwrap());
    let mut all = Vec::new();
    receiver.read_to_end(&mut all).unwrap();
    writer.join().unwrap();
    assert_eq!(all.len(), STREAM_BYTES);
    received(&pair.right) - before
}

#[test]
fn a_veth_pair_carries_super_packets_until_told_not_to() {
    let pair = Pair::new("offload");
    assert_eq!(packets_of_one_send(&pair), 1, "veth keeps super-packets whole");
    assert!(packets_of_a_stream(&pair) < STREAM_BYTES / LARGEST_SEGMENT / 2);

    let off = SEGMENTING.map(|offload| (offload, false));
    // Twice, since the second finds everything as it wants it.
    pair.switch(&off);
    pair.switch(&off);
    assert_eq!(packets_of_one_send(&pair), SEGMENTS);
    assert!(packets_of_a_stream(&pair) >= STREAM_BYTES / LARGEST_SEGMENT);

    pair.switch(&SEGMENTING.map(|offload| (offload, true)));
    assert_eq!(packets_of_one_send(&pair), 1);
    assert!(packets_of_a_stream(&pair) < STREAM_BYTES / LARGEST_SEGMENT / 2);
}

#[test]
fn each_offload_is_switched_by_itself() {
    let pair = Pair::new("each");
    let all = [
        Offload::RxChecksum,
        Offload::TxChecksum,
        Offload::ScatterGather,
        Offload::TcpSegmentation,
        Offload::GenericSegmentation,
        Offload::GenericReceive,
        Offload::UdpSegmentation,
    ];
    pair.left
        .run_in(|| {
            let ethtool = Ethtool::open().unwrap();
            let state = || all.map(|offload| ethtool.is_on("eth0", offload).unwrap());
            let default = state();
            // What depends on others comes off first and on last.
            for (number, offload) in all.iter().enumerate().rev() {
                ethtool.switch("eth0", &[(*offload, false)]).unwrap();
                assert!(!state()[number], "{offload:?}");
            }
            assert_eq!(state(), [false; 7]);
            for (number, offload) in all.iter().enumerate() {
                ethtool.switch("eth0", &[(*offload, true)]).unwrap();
                assert!(state()[number], "{offload:?}");
            }
            ethtool.switch("eth0", &all.map(|offload| (offload, false))).unwrap();
            let wanted: Vec<_> = all.into_iter().zip(default).collect();
            ethtool.switch("eth0", &wanted).unwrap();
            assert_eq!(state(), default);
        })
        .unwrap();
}

#[test]
fn what_a_device_does_not_take_is_told() {
    let pair = Pair::new("refuse");
    pair.left
        .run_in(|| {
            let ethtool = Ethtool::open().unwrap();
            // A super-packet lies in pieces.
            ethtool.switch("eth0", &[(Offload::ScatterGather, false)]).unwrap();
            assert!(!ethtool.is_on("eth0", Offload::GenericSegmentation).unwrap());
            let error = ethtool.switch("eth0", &[(Offload::TcpSegmentation, true)]).unwrap_err();
            assert!(matches!(&error, EthtoolError::NotTaken { wanted: true, .. }), "{error}");
            assert!(error.to_string().starts_with("expected eth0 to have tx-tcp"), "{error}");
            let error = ethtool.switch("gone0", &[(Offload::TcpSegmentation, true)]).unwrap_err();
            assert!(error.to_string().starts_with("cannot switch the offloads of gone0"), "{error}");
        })
        .unwrap();
}
