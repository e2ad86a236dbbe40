//! A pod that sends what costs memory: connections without end, fragments without end. Others are served, memory stays bounded.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use felt::lab::probe::Pinger;
use felt::lab::{Lab, PolicyScope, RegistryKind};
use felt::sys::netns::Netns;
use socket2::{Domain, Protocol, Socket, Type};

use crate::ground::{lab_on, pods};
use crate::probes::connect;
use crate::support::{Metrics, PATIENCE, metrics, node, note};
use crate::talk::Talk;

/// What is sent at most, and for how long at most.
const PACKETS: u32 = 1_000_000;
const TIME: Duration = Duration::from_secs(6);
/// Flows the daemons are told to remember: fewer than any machine sends in that time.
const FLOWS: &str = "1024";
/// By how much a daemon may grow, in KiB: what buffers and logs take, and nowhere near what a million flows or fragments would.
const GROWTH_KIB: u64 = 24 * 1024;
/// `IPPROTO_RAW`: whoever sends through it writes the IP header, too.
const HEADER_INCLUDED: i32 = 255;
/// Bytes of an IPv4 header.
const IP_LEN: usize = 20;

/// Sends packets that `make` numbers from `netns`, as fast as they go; how many were taken.
fn flood(netns: &Netns, to: Ipv4Addr, make: impl Fn(u32, &mut Vec<u8>)) -> u64 {
    let open = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(HEADER_INCLUDED)));
    let socket = netns.run_in(open).unwrap().unwrap();
    let (begin, to) = (Instant::now(), SocketAddr::from((to, 0)).into());
    let (mut sent, mut packet) = (0, Vec::new());
    for number in 0..PACKETS {
        if number % 256 == 0 && begin.elapsed() > TIME {
            break;
        }
        packet.clear();
        make(number, &mut packet);
        // A full queue is no reason to stop.
        sent += u64::from(socket.send_to(&packet, &to).is_ok());
    }
    sent
}

/// The header of a packet; the kernel writes length and checksum.
fn ip(packet: &mut Vec<u8>, protocol: u8, from: Ipv4Addr, to: Ipv4Addr, identification: u16, fragment: u16) {
    packet.extend([0x45, 0, 0, 0]);
    packet.extend(identification.to_be_bytes());
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    assert_eq!(packet.len(), IP_LEN);
}

/// Memory that the daemon of a node has in use, in KiB.
fn resident_kib(lab: &Lab, number: u16) -> u64 {
    let pid = lab.node(number).unwrap().pid().unwrap();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    size.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// What a flood did to both nodes while others talked: the counters of the sending and the receiving one, before and after.
fn flooded(test: &str, make: impl Fn(Ipv4Addr, Ipv4Addr, u32, &mut Vec<u8>) + Sync) -> [(Metrics, Metrics); 2] {
    let lab = lab_on(RegistryKind::Embedded, test, PolicyScope::Overlay, &["--policy-flows", FLOWS]);
    let pods = pods(&lab);
    let [client, villain, server, victim] = &pods[..] else { panic!("four pods") };
    let talk = Talk::over(connect(client, server, 80).unwrap(), PATIENCE);
    let pinger = Pinger::start(&client.netns, server.address, Duration::from_millis(20)).unwrap();
    let sample = |number| (metrics(&node(&lab, number)), resident_kib(&lab, number));
    let before = [1, 2].map(sample);
    let said = talk.so_far();

    let sent = thread::scope(|scope| {
        let flood = scope.spawn(|| {
            flood(&villain.netns, victim.address, |number, packet| make(villain.address, victim.address, number, packet))
        });
        flood.join().unwrap()
    });
    let meanwhile = talk.so_far() - said;
    let pings = pinger.stop().unwrap();
    let after = [1, 2].map(sample);
    assert_eq!(talk.broke_off(), None, "a connection that is allowed goes on");
    note(&format!(
        "{test}: {sent} packets; meanwhile {meanwhile} exchanges, {} of {} pings; KiB resident {:?}, then {:?}",
        pings.received,
        pings.sent,
        before.each_ref().map(|(_, kib)| *kib),
        after.each_ref().map(|(_, kib)| *kib)
    ));
    assert!(sent > 10_000, "no flood: {sent}");
    // They share queues and processors with the flood, so how many is the machine's affair.
    assert!(meanwhile > 0 && pings.received > 0, "{meanwhile} exchanges, {pings:?}");
    let [(metrics1, kib1), (metrics2, kib2)] = before;
    let [(after1, after_kib1), (after2, after_kib2)] = after;
    for (before, after) in [(kib1, after_kib1), (kib2, after_kib2)] {
        assert!(after < before + GROWTH_KIB, "{before} KiB grew to {after}");
    }
    [(metrics1, after1), (metrics2, after2)]
}

/// Checksums are wrong, so that nobody answers: each is a connection half open for as long as the table has it.
#[test]
fn half_open_connections_of_one_pod_displace_their_like_and_are_counted() {
    let found = flooded("syns", |from, to, number, packet| {
        ip(packet, 6, from, to, 1, 0);
        let ports = 0x0400_0000 + u64::from(number) * 7;
        packet.extend(u16::try_from(ports >> 16 & 0xffff).unwrap().to_be_bytes());
        packet.extend(u16::try_from(ports & 0xffff).unwrap().to_be_bytes());
        packet.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 4, 0, 0, 0, 0, 0]);
    });
    for (before, after) in found {
        let grown = |name| after.value(name) - before.value(name);
        assert!(grown("felt_flows_displaced_total") > 1000, "{}", grown("felt_flows_displaced_total"));
        assert!(after.value("felt_flows") <= after.value("felt_flows_room"));
    }
}

/// First fragments with nothing behind them and later ones with nothing before them, by turns, each of another datagram.
#[test]
fn fragments_of_datagrams_that_never_end_are_forgotten_or_dropped_and_counted() {
    let found = flooded("shards", |from, to, number, packet| {
        let identification = u16::try_from(number >> 1 & 0x7fff).unwrap() + 1;
        // More are to come, or it lies 1,480 bytes into a datagram that nobody has begun.
        let (fragment, identification) = if number % 2 == 0 { (0x2000, identification) } else { (185, identification | 0x8000) };
        ip(packet, 17, from, to, identification, fragment);
        packet.extend([0x9c, 0x40, 0, 53, 4, 0, 0, 0]);
        packet.extend([7; 24]);
    });
    let [(before, after), _] = found;
    let orphans = after.dropped("orphan_fragment") - before.dropped("orphan_fragment");
    assert!(orphans > 1000, "{orphans}");
}
