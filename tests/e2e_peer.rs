//! Felt beside a flannel node: what a peer of flannel's udp backend sees on the wire and in its pods, and what it may do.

mod e2e_support;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::time::Duration;

use e2e_support::{Flannel, Inner, Outsider, PATIENCE, RawIp, eventually, icmp_errors, lines, metrics};
use e2e_support::{netlink, node, plan, pod, pod_address, sniffer, udp_in, up};
use felt::lab::probe::ping;
use felt::lab::{EphemeralLab, Interrupt, Lab, LabPlan};

/// Source and destination port of flannel's datagrams.
const PORT: u16 = 8285;
const QUIET: Duration = Duration::from_millis(700);

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// A lab of one node, whose subnet is the one given.
fn up_with_subnet(plan: LabPlan, gateway: &str) -> EphemeralLab {
    let lab = up(plan);
    let first = lab.node(1).unwrap();
    let before = first.subnet().unwrap().unwrap().subnet;
    first.stop().unwrap();
    Outsider::join(&lab, 99).revoke(&lab, before);
    std::fs::write(first.subnet_file(), format!("FLANNEL_SUBNET={gateway}/24\n")).unwrap();
    first.start().unwrap();
    first.wait_ready(&Interrupt::new()).unwrap();
    first.attach_pods().unwrap();
    lab
}

#[test]
fn the_wire_carries_flannels_golden_packets() {
    const IN: &str = "45000020123440004011f1920a010f020a0114030fa01388000c000070696e67";
    const OUT: &str = "45000020123440003f11f2920a010f020a0114030fa01388000c000070696e67";
    const NOWHERE: &str = "45000020123440004011a28e0a010f020a0163070fa01388000c000070696e67";
    const TOLD: &str =
        "4500003800000000080180c20a010f000a010f020300d9cb0000000045000020123440004011a28e0a010f020a0163070fa01388000c0000";
    let config = r#"{"Network":"10.1.0.0/16"}"#.to_owned();
    let lab = up_with_subnet(LabPlan { config, ..plan("golden", 1) }, "10.1.15.1");
    assert_eq!(pod_address(&lab, 1), Ipv4Addr::new(10, 1, 15, 2));
    let peer = Flannel::join(&lab, 77, false, Some("10.1.20.0/24"));
    Flannel::wait_known(&lab, 1);

    // As the host would route it out of the pod: into the TUN with TTL 64.
    let outer = sniffer(&peer.host.netns);
    RawIp::send(&node(&lab, 1), &hex(IN));
    let (datagram, from) = peer.receive(|bytes| bytes.ends_with(b"ping"));
    assert_eq!(datagram, hex(OUT), "the inner packet, one hop older, and nothing else");
    let node_address = lab.plan().underlay(1);
    assert_eq!(from, SocketAddr::from((node_address, PORT)), "from the address in the lease and the port all nodes share");
    let frame = outer.find(PATIENCE, |bytes| bytes.ends_with(b"ping")).unwrap();
    assert_eq!(frame.len(), 28 + datagram.len());
    assert_eq!(&frame[12..20], [node_address.octets(), peer.host.address.octets()].concat());
    assert_eq!(&frame[20..24], [PORT.to_be_bytes(), PORT.to_be_bytes()].concat());

    // What flannel sends arrives, another two hops older: the daemon's and the host's.
    let seen = sniffer(&pod(&lab, 1));
    let reply = Inner::new((peer.pod(3), 5000), (pod_address(&lab, 1), 4000), b"pong").bytes();
    peer.send(node_address, &reply);
    let arrived = seen.find(PATIENCE, |bytes| bytes.ends_with(b"pong")).unwrap();
    assert_eq!((arrived[8], &arrived[12..]), (62, &reply[12..]));

    // Nobody leases it: flannel's ICMP answer, after one hop through the host. Only its source is another: from that of
    // flannel, which is the host's own, Linux would not take it.
    let errors = icmp_errors(&pod(&lab, 1));
    RawIp::send(&node(&lab, 1), &hex(NOWHERE));
    let told = errors.find(PATIENCE, |bytes| bytes[20] == 3).unwrap();
    let expected = hex(TOLD);
    assert_eq!((told[8], told[9], told.len()), (7, 1, 56));
    assert_eq!((&told[..8], &told[12..16]), (&expected[..8], &[10, 1, 99, 7][..]));
    assert_eq!(told[16..], expected[16..]);
}

#[test]
fn pods_keep_their_address_and_pay_four_hops_and_mark_congestion() {
    let lab = up(plan("hops", 2));
    let (old, new) = (Flannel::join(&lab, 77, false, None), Flannel::join(&lab, 78, true, None));
    Flannel::wait_known(&lab, 3);
    let (near, far) = (pod_address(&lab, 1), pod_address(&lab, 2));

    let seen = sniffer(&pod(&lab, 2));
    let speaker = udp_in(&pod(&lab, 1), (near, 4000));
    let listener = udp_in(&pod(&lab, 2), (far, 5000));
    speaker.send_to(b"between felt", (far, 5000)).unwrap();
    assert_eq!(listener.recv_from(&mut [0; 64]).unwrap().1, SocketAddr::from((near, 4000)), "no address is translated");
    let packet = seen.find(PATIENCE, |bytes| bytes.ends_with(b"between felt")).unwrap();
    assert_eq!(packet[8], 60, "64 less two hosts and two daemons");

    // To flannel nodes of either age, and back.
    let answers = sniffer(&pod(&lab, 1));
    for peer in [&old, &new] {
        let text = format!("to {}", peer.host.address);
        for ecn in 0..4u8 {
            let outer = sniffer(&peer.host.netns);
            let packet = Inner { ecn, ..Inner::new((near, 4000), (peer.pod(9), 7), text.as_bytes()) };
            RawIp::send(&pod(&lab, 1), &packet.bytes());
            let (inner, _) = peer.receive(|bytes| bytes.ends_with(text.as_bytes()));
            assert_eq!((inner[1] & 3, inner[8], inner.len()), (ecn, 62, packet.bytes().len()));
            assert_eq!(inner[12..16], near.octets());
            let outer = outer.find(PATIENCE, |bytes| bytes.ends_with(text.as_bytes())).unwrap();
            assert_eq!(outer[1] & 3, ecn, "RFC 6040: the mark is copied");
        }
        let before = metrics(&node(&lab, 1));
        let marked = socket2::SockRef::from(&peer.socket);
        // Congestion on the way (3) reaches a sender that would understand it, and nobody else.
        for (outer, inner, text, arrives) in [(0, 0, "plain", Some(0)), (3, 2, "marked", Some(3)), (3, 0, "deaf", None)] {
            let text = format!("{text} {}", peer.host.address);
            marked.set_tos_v4(outer).unwrap();
            let packet = Inner { ecn: inner, ..Inner::new((peer.pod(9), 7), (near, 4000), text.as_bytes()) };
            peer.send(lab.plan().underlay(1), &packet.bytes());
            let patience = if arrives.is_some() { PATIENCE } else { QUIET };
            let found = answers.find(patience, |bytes| bytes.ends_with(text.as_bytes()));
            assert_eq!(found.map(|bytes| bytes[1] & 3), arrives, "{text}");
        }
        assert_eq!(metrics(&node(&lab, 1)).drops_since(&before), [("ce_on_not_ect".to_owned(), 1)]);
    }
}

#[test]
fn the_host_reaches_pods_of_the_networks_first_subnet() {
    let config = r#"{"Network":"10.99.0.0/16","SubnetMin":"10.99.0.0"}"#.to_owned();
    let lab = up_with_subnet(LabPlan { config, ..plan("zeroth", 1) }, "10.99.7.1");
    let peer = Flannel::join(&lab, 77, false, Some("10.99.0.0/24"));
    Flannel::wait_known(&lab, 1);
    let host = udp_in(&node(&lab, 1), (Ipv4Addr::UNSPECIFIED, 0));
    let port = host.local_addr().unwrap().port();
    let base = Ipv4Addr::new(10, 99, 7, 0);
    for last in [5, 0, 255] {
        host.send_to(b"hello", (peer.pod(last), 53)).unwrap();
        let (inner, _) = peer.receive(|bytes| bytes.ends_with(b"hello"));
        assert_eq!((&inner[12..16], inner[19], inner[8]), (&base.octets()[..], last, 63), "from our base address");
    }
    peer.send(lab.plan().underlay(1), &Inner::new((peer.pod(5), 53), (base, port), b"welcome").bytes());
    let mut buffer = [0; 64];
    let (length, from) = host.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (&b"welcome"[..], SocketAddr::from((peer.pod(5), 53))));
}

#[test]
fn only_the_holder_of_a_lease_speaks_for_it() {
    let lab = up(plan("spoof", 2));
    let peer = Flannel::join(&lab, 77, false, None);
    Flannel::wait_known(&lab, 2);
    let stranger = Outsider::join(&lab, 78);
    let (netns, underlay, own) = (node(&lab, 1), lab.plan().underlay(1), pod_address(&lab, 1));
    let seen = sniffer(&pod(&lab, 1));
    let moved = stranger.socket(PORT);
    let other_port = peer.host.socket(40_000);
    let packet = |from: Ipv4Addr, to: Ipv4Addr, text: &str| Inner::new((from, 7), (to, 7), text.as_bytes()).bytes();
    let try_out = |socket: &UdpSocket, from: Ipv4Addr, to: Ipv4Addr, text: &str, reason: Option<&str>| {
        let before = metrics(&netns);
        socket.send_to(&packet(from, to, text), (underlay, PORT)).unwrap();
        let patience = if reason.is_some() { QUIET } else { PATIENCE };
        let delivered = seen.find(patience, |bytes| bytes.ends_with(text.as_bytes())).is_some();
        let drops: Vec<_> = reason.iter().map(|reason| ((*reason).to_owned(), 1)).collect();
        assert_eq!((delivered, metrics(&netns).drops_since(&before)), (reason.is_none(), drops), "{text}");
    };
    let nobody = Ipv4Addr::new(10, 99, 255, 9);
    let host = "10.99.0.1".parse().unwrap();
    try_out(&peer.socket, peer.pod(3), own, "the peer's pod", None);
    try_out(&peer.socket, peer.pod(0), own, "the peer itself", None);
    try_out(&moved, peer.pod(3), own, "a stranger as the peer", Some("source_not_of_peer"));
    try_out(&peer.socket, pod_address(&lab, 2), own, "the peer as another node", Some("source_not_of_peer"));
    try_out(&peer.socket, nobody, own, "the peer as nobody", Some("source_unleased"));
    try_out(&peer.socket, Ipv4Addr::new(192, 0, 2, 1), own, "the peer as an outsider", Some("source_unleased"));
    try_out(&peer.socket, own, own, "the peer as ourselves", Some("source_unleased"));
    try_out(&other_port, peer.pod(3), own, "another program of the peer", Some("source_wrong_port"));
    try_out(&peer.socket, peer.pod(3), pod_address(&lab, 2), "not for us", Some("destination_not_ours"));
    try_out(&peer.socket, peer.pod(3), host, "for nobody", Some("destination_not_ours"));

    // The peer comes back with another address: that one is believed, the former is not.
    stranger.revoke(&lab, peer.subnet);
    stranger.lease(&lab, &format!(r#"{{"PublicIP":"{}"}}"#, stranger.address), Some(&peer.subnet.to_string()));
    eventually("the peer's new address is known", PATIENCE, || {
        moved.send_to(&packet(peer.pod(3), own, "moved"), (underlay, PORT)).unwrap();
        seen.find(Duration::from_millis(100), |bytes| bytes.ends_with(b"moved"))
    });
    try_out(&peer.socket, peer.pod(3), own, "where the peer was", Some("source_not_of_peer"));
    try_out(&moved, peer.pod(3), own, "where the peer is", None);
}

#[test]
fn junk_is_counted_by_its_kind_and_harms_nobody() {
    let lab = up(plan("junk", 2));
    let peer = Flannel::join(&lab, 77, true, None);
    Flannel::wait_known(&lab, 2);
    let (netns, underlay) = (node(&lab, 1), lab.plan().underlay(1));
    let good = Inner::new((peer.pod(3), 7), (pod_address(&lab, 1), 7), b"junk").bytes();
    let edited = |edits: &[(usize, u8)]| {
        let mut bytes = good.clone();
        for (at, value) in edits {
            bytes[*at] = *value;
        }
        bytes
    };
    let logged = lines(&lab.node(1).unwrap().log()).len();
    let seen = sniffer(&pod(&lab, 1));
    for (bytes, reason) in [
        (vec![], "too_short"),
        (vec![0x45], "too_short"),
        (good[..19].to_vec(), "too_short"),
        (edited(&[(0, 0x05)]), "not_ipv4"),
        (edited(&[(0, 0x65)]), "not_ipv4"),
        (edited(&[(0, 0xf5)]), "not_ipv4"),
        (edited(&[(0, 0x44)]), "bad_header_length"),
        (edited(&[(0, 0x4f)])[..20].to_vec(), "bad_header_length"),
        (edited(&[(2, 0x10)]), "bad_total_length"),
        (edited(&[(3, 19)]), "bad_total_length"),
        (edited(&[(8, 1)]), "ttl_expired"),
        (vec![0x45; 9_000], "bad_total_length"),
    ] {
        let before = metrics(&netns);
        for _ in 0..10 {
            peer.send(underlay, &bytes);
        }
        eventually(reason, PATIENCE, || (metrics(&netns).drops_since(&before) == [(reason.to_owned(), 10)]).then_some(()));
    }
    assert!(seen.find(QUIET, |bytes| bytes.ends_with(b"junk")).is_none());
    peer.send(underlay, &good);
    assert!(seen.find(PATIENCE, |bytes| bytes.ends_with(b"junk")).is_some());
    assert_eq!(lines(&lab.node(1).unwrap().log()).len(), logged, "not a line about any of it");
}

#[test]
fn who_sends_to_nobody_is_told() {
    let lab = up(plan("nobody", 1));
    let (inside, host) = (pod(&lab, 1), node(&lab, 1));
    let own = pod_address(&lab, 1);
    let nobody = Ipv4Addr::new(10, 99, 255, 9);
    let errors = icmp_errors(&inside);
    let unreachable = |bytes: &[u8]| bytes[20..22] == [3, 0];

    // A stale packet full of 0xAA, then one of a header only: nothing of the former may be quoted.
    RawIp::send(&inside, &Inner::new((own, 1), (nobody, 2), &[0xaa; 1000]).bytes());
    let told = errors.find(PATIENCE, unreachable).unwrap();
    assert_eq!((told.len(), &told[12..16]), (56, &nobody.octets()[..]));
    RawIp::send(&inside, &Inner::new((own, 1), (nobody, 2), &[]).bytes()[..20]);
    let told = errors.find(PATIENCE, unreachable).unwrap();
    assert_eq!((told.len(), told.contains(&0xaa)), (48, false));

    // Ping and TCP, from a pod and from the host itself.
    let echo = hex("0800f7ff00000000");
    let mut request = Inner::new((own, 0), (nobody, 0), &[]).bytes();
    request[9] = 1;
    request.truncate(20);
    request.extend(echo);
    RawIp::send(&inside, &request);
    assert!(errors.find(PATIENCE, unreachable).is_some(), "an echo request is no error, so it may be answered by one");
    for netns in [&inside, &host] {
        let address = SocketAddrV4::new(nobody, 80).into();
        let error = netns.run_in(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NetworkUnreachable, "{}", netns.name());
    }

    // A lease that goes leaves its pods unreachable at once.
    let peer = Flannel::join(&lab, 77, false, None);
    Flannel::wait_known(&lab, 1);
    let socket = udp_in(&inside, (own, 0));
    socket.send_to(b"there", (peer.pod(3), 9)).unwrap();
    peer.receive(|bytes| bytes.ends_with(b"there"));
    peer.host.revoke(&lab, peer.subnet);
    Flannel::wait_known(&lab, 0);
    socket.send_to(b"gone", (peer.pod(3), 9)).unwrap();
    assert!(errors.find(PATIENCE, unreachable).is_some());
    assert_eq!(netlink(&host).route_to(peer.pod(3).into()).unwrap().source, Some(lab_base(&lab).into()));
    assert!(ping(&inside, nobody, QUIET, &Interrupt::new()).unwrap().is_none());
}

fn lab_base(lab: &Lab) -> Ipv4Addr {
    lab.node(1).unwrap().subnet().unwrap().unwrap().subnet.base()
}
