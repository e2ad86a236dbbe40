//! Traffic that is much, or wide, or junk: order, sizes, counters and logs under it.

mod e2e_support;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use e2e_support::{Flannel, Inner, Outsider, PATIENCE, RawIp, eventually, fragments_made, get, icmp_errors, lines, metrics};
use e2e_support::{netlink, node, note, plan, pod, pod_address, receive_overflows, scrape, udp_in, up};
use felt::lab::probe::{Amount, Transfer, ping};
use felt::lab::{Interrupt, Lab, LabPlan};
use felt::net::Ecn;
use felt::sys::netlink::{Route, RouteScope};
use felt::sys::udp::{BufferBytes, Outgoing, Sender, UdpSocket};
use ipnetwork::Ipv4Network;

const PORT: u16 = 8285;

fn transfer(lab: &Lab, amount: Amount) -> Transfer {
    Transfer::start(&pod(lab, 1), &pod(lab, 2), pod_address(lab, 2), amount, PATIENCE).unwrap()
}

#[test]
fn the_devices_mtu_is_that_of_the_underlay_without_the_overhead() {
    let narrow = r#"{"Network":"10.99.0.0/16","Backend":{"Type":"udp","MTU":1400}}"#.to_owned();
    let usual = e2e_support::CONFIG.to_owned();
    for (underlay_mtu, config, mtu) in [(1400, usual.clone(), 1372), (9000, usual, 8972), (1500, narrow, 1372)] {
        let lab = up(LabPlan { underlay_mtu, config, ..plan(&format!("mtu{underlay_mtu}"), 2) });
        let device = netlink(&node(&lab, 1)).link("flannel0").unwrap();
        assert_eq!((device.mtu, lab.node(1).unwrap().subnet().unwrap().unwrap().mtu), (mtu, mtu));
        let report = transfer(&lab, Amount::Bytes(3_000_000)).finish(&Interrupt::new()).unwrap();
        assert!(report.bytes >= 3_000_000);
        assert_eq!([1, 2].map(|number| fragments_made(&node(&lab, number))), [0, 0], "no outer packet is ever split");
    }
}

#[test]
fn a_narrower_way_to_a_peer_is_told_once_and_answered() {
    let lab = up(plan("narrow", 1));
    let host = Outsider::join(&lab, 77);
    let own = netlink(&node(&lab, 1));
    let near = own.create_veth("slow0", "slow0", Some(std::os::fd::AsFd::as_fd(&host.netns))).unwrap();
    let far = netlink(&host.netns);
    let end = far.link("slow0").unwrap().index;
    far.set_mtu(end, 1420).unwrap();
    far.set_up(end).unwrap();
    own.set_mtu(near.index, 1420).unwrap();
    own.set_up(near.index).unwrap();
    let way = Route::new(Ipv4Network::from(host.address).into()).device(near.index).scope(RouteScope::Link);
    own.add_route(&way).unwrap();
    let socket = host.socket(PORT);
    let subnet = host.lease(&lab, &format!(r#"{{"PublicIP":"{}"}}"#, host.address), None);
    let other = Flannel::join(&lab, 78, false, None);
    Flannel::wait_known(&lab, 2);
    let log = lab.node(1).unwrap().log();
    let told = || -> Vec<String> { lines(&log).into_iter().filter(|line| line.contains("narrower")).collect() };
    let line = eventually("told", PATIENCE, || told().pop());
    assert!(line.contains("peer=172.30.1.77") && line.contains("path_mtu=1420") && line.contains(r#""MTU":1420"#), "{line}");

    // What does not fit and may not be split is answered; what may is, and arrives.
    let errors = icmp_errors(&pod(&lab, 1));
    let big = |dont_fragment| {
        let inner = Inner::new((pod_address(&lab, 1), 7), (subnet.nth(3).unwrap(), 7), &[0x5a; 1440]);
        Inner { dont_fragment, ..inner }.bytes()
    };
    RawIp::send(&pod(&lab, 1), &big(true));
    let answer = errors.find(PATIENCE, |bytes| bytes[20..22] == [3, 4]).unwrap();
    assert_eq!(u16::from_be_bytes([answer[26], answer[27]]), 1420 - 28);
    RawIp::send(&pod(&lab, 1), &big(false));
    assert_eq!(socket.recv(&mut [0; 2048]).unwrap(), 1468);
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(told().len(), 1, "once, and not of {}", other.host.address);
}

#[test]
fn a_path_that_gets_narrower_meanwhile_is_lived_with() {
    let lab = up(plan("path", 2));
    // A router between node 1 and node 2, for what goes there.
    let router = Outsider::join(&lab, 50);
    let settings = [("ip_forward", "1"), ("conf/all/send_redirects", "0"), ("conf/eth0/send_redirects", "0")];
    for (name, value) in settings {
        router.netns.run_in(|| std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value)).unwrap().unwrap();
    }
    let (first, second) = (node(&lab, 1), lab.plan().underlay(2));
    let there = || Route::new(Ipv4Network::from(second).into());
    netlink(&first).add_route(&there().gateway(router.address.into())).unwrap();
    let on_router = netlink(&router.netns);
    let uplink = on_router.link("eth0").unwrap().index;
    on_router.add_route(&there().device(uplink).scope(RouteScope::Link)).unwrap();
    transfer(&lab, Amount::Bytes(1_000_000)).finish(&Interrupt::new()).unwrap();
    assert_eq!((fragments_made(&first), fragments_made(&router.netns)), (0, 0));

    // Narrower while a transfer runs, of which super-packets come and trains go.
    let errors = icmp_errors(&pod(&lab, 1));
    let before = metrics(&first);
    let running = transfer(&lab, Amount::Time(Duration::from_secs(4)));
    eventually("moves", PATIENCE, || (running.received() > 1_000_000).then_some(()));
    on_router.replace_route(&there().device(uplink).scope(RouteScope::Link).mtu(1400)).unwrap();
    let received = running.received();
    let begin = Instant::now();
    eventually("goes on", PATIENCE, || (running.received() > received + 4_000_000).then_some(()));
    note(&format!("4 MB after the path got narrower: {:?}", begin.elapsed()));
    let report = running.finish(&Interrupt::new()).unwrap();
    note(&format!("{:.2} Gb/s in all", report.bits_per_second() / 1e9));
    let after = metrics(&first);
    assert!(after.dropped("too_big") > before.dropped("too_big"), "learnt by the kernel's refusal");
    assert!(after.value("felt_icmp_errors_total{outcome=\"sent\"}") > 0);
    let told = errors.find(PATIENCE, |bytes| bytes[20..22] == [3, 4]).unwrap();
    assert_eq!(u16::from_be_bytes([told[26], told[27]]), 1400 - 28, "what fits into the narrow path's packets");
    assert_eq!(fragments_made(&first), 0, "TCP adapts, so nothing of it is split");
    for counter in ["felt_supers_total", "felt_trains_total"] {
        let name = format!("{counter}{{direction=\"egress\"}}");
        assert!(after.value(&name) > before.value(&name) + 100, "{name}");
    }
    // A path that refuses a train refuses the datagrams, too: that is no reason to send no more trains.
    assert_eq!(after.value("felt_offload_enabled{offload=\"udp_gso\"}"), 1);

    // Datagrams of 2,000 bytes that may be split, in two inner fragments, the first of them as large as the device.
    let listener = udp_in(&pod(&lab, 2), (pod_address(&lab, 2), 0));
    let to = listener.local_addr().unwrap();
    listener.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let speaker = udp_in(&pod(&lab, 1), (pod_address(&lab, 1), 0));
    eventually("2,000 bytes", PATIENCE, || {
        speaker.send_to(&[7; 2000], to).unwrap();
        listener.recv(&mut [0; 4096]).ok().filter(|length| *length == 2000)
    });
    // And one of a sender that knows nothing of the path: split outside.
    let seen = e2e_support::sniffer(&pod(&lab, 2));
    let wide = Inner::new((pod_address(&lab, 1), 9), (pod_address(&lab, 2), 9), &[0x77; 1444]).bytes();
    RawIp::send(&first, &wide);
    assert_eq!(seen.find(PATIENCE, |bytes| bytes.ends_with(&[0x77; 1444])).map(|bytes| bytes.len()), Some(wide.len()));
    assert!(fragments_made(&first) > 0);
}

/// Sends `count` datagrams, each kind in turn; how many the kernel took.
fn flood(from: &Outsider, to: SocketAddr, kinds: &[Vec<u8>], count: u64) -> u64 {
    const AT_ONCE: usize = 64;
    let bind = || UdpSocket::bind(SocketAddr::from((from.address, PORT)), BufferBytes::default());
    let socket = from.netns.run_in(bind).unwrap().unwrap();
    let mut sender = Sender::new(AT_ONCE);
    let mut sent = 0;
    while sent < count {
        let kinds = kinds.iter().cycle().skip(usize::try_from(sent).unwrap() % kinds.len());
        let messages = kinds.map(|bytes| Outgoing { bytes, peer: to, ecn: Ecn::NotEct, segment_bytes: 0 });
        match socket.send(&mut sender, messages) {
            Ok(count) => sent += count as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    sent
}

#[test]
fn a_million_bad_packets_are_counted_and_not_spoken_of() {
    let lab = up(plan("million", 2));
    let peer = Flannel::join(&lab, 77, true, None);
    Flannel::wait_known(&lab, 2);
    let Flannel { host, socket, subnet } = peer;
    drop(socket);
    let (netns, log) = (node(&lab, 1), lab.node(1).unwrap().log());
    let own = pod_address(&lab, 1);
    let packet = |from: Ipv4Addr, to: Ipv4Addr| Inner::new((from, 7), (to, 7), b"bad").bytes();
    let peers_pod = subnet.nth(3).unwrap();
    let kinds =
        [vec![0x45], vec![0x60; 40], packet("203.0.113.9".parse().unwrap(), own), packet(peers_pod, pod_address(&lab, 2))];
    let reasons = ["too_short", "not_ipv4", "source_unleased", "destination_not_ours"];
    let (before, logged, overflows) = (metrics(&netns), lines(&log).len(), receive_overflows(&netns));
    let done = AtomicBool::new(false);
    let begin = Instant::now();
    let (sent, took, mut scrapes) = thread::scope(|scope| {
        let flooding = scope.spawn(|| {
            let sent = flood(&host, SocketAddr::from((lab.plan().underlay(1), PORT)), &kinds, 1_000_000);
            done.store(true, Ordering::Relaxed);
            (sent, begin.elapsed())
        });
        let mut scrapes = Vec::new();
        while !done.load(Ordering::Relaxed) || scrapes.is_empty() {
            let begin = Instant::now();
            assert!(scrape(&netns).ends_with("# EOF\n"));
            scrapes.push(begin.elapsed());
            thread::sleep(Duration::from_millis(20));
        }
        let (sent, took) = flooding.join().unwrap();
        (sent, took, scrapes)
    });
    scrapes.sort();
    let median = scrapes[scrapes.len() / 2];
    note(&format!("{sent} bad packets in {took:?}; {} scrapes, median {median:?}, worst {:?}", scrapes.len(), scrapes.last()));
    assert!(median < Duration::from_millis(250), "expected below 50 ms on an idle machine, found {median:?}");
    eventually("every packet is accounted for", PATIENCE, || {
        let counted: u64 = metrics(&netns).drops_since(&before).iter().map(|(_, count)| count).sum();
        (counted + receive_overflows(&netns) - overflows == sent).then_some(())
    });
    let drops = metrics(&netns).drops_since(&before);
    note(&format!("{drops:?}, {} lost before the daemon", receive_overflows(&netns) - overflows));
    let mut expected = reasons.to_vec();
    expected.sort_unstable();
    assert_eq!(drops.iter().map(|(reason, _)| reason.as_str()).collect::<Vec<_>>(), expected);
    assert!(lines(&log).len() - logged <= 20, "{:#?}", &lines(&log)[logged..]);
    assert_eq!(get(&netns, "/healthz").unwrap().status, 200);
    assert!(ping(&pod(&lab, 2), own, PATIENCE, &Interrupt::new()).unwrap().is_some());
}
