//! An etcd that is away for a while: forwarding goes on, nothing spins, little is said, and what changed meanwhile is seen soon.

use std::fs;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use felt::lab::{Interrupt, Lab, Place, RegistryHandle};
use felt::net::Prefix4;
use felt::sys::netlink::{Route, RouteType};

use crate::daemon::cpu_time;
use crate::lab::{eventually, lines, netlink, node, note};
use crate::store::Store;
use crate::{etcd_lab, http, pinger, require_both_ways, subnet};

/// A change made while etcd was away is seen so soon after it is back.
const SEEN_WITHIN: Duration = Duration::from_secs(5);
/// Lines a node may log for each change of state.
const LINES_A_CHANGE: usize = 3;
/// Share of a processor a node may use while etcd is away, the pings it forwards included.
const IDLE_SHARE: f64 = 0.02;
const PACE: Duration = Duration::from_millis(50);

/// What a node has used and said so far.
struct Mark {
    at: Instant,
    cpu: Duration,
    lines: usize,
}

impl Mark {
    fn of(lab: &Lab, number: u16) -> Self {
        let node = lab.node(number).unwrap();
        Self { at: Instant::now(), cpu: cpu_time(node.pid().unwrap()), lines: lines(&node.log()).len() }
    }

    fn all(lab: &Lab) -> Vec<Self> {
        lab.plan().node_numbers().map(|number| Self::of(lab, number)).collect()
    }

    /// Checks what each node has used and said since.
    fn judge(marks: &[Self], lab: &Lab, what: &str) {
        for (before, node) in marks.iter().zip(lab.nodes()) {
            let now = Self::of(lab, node.number());
            let share = now.cpu.checked_sub(before.cpu).unwrap().as_secs_f64() / before.at.elapsed().as_secs_f64();
            let log = lines(&node.log());
            let said = &log[before.lines..];
            note(&format!("{what}: {} used {:.2} % of a processor, {} log lines", node.place(), share * 100.0, said.len()));
            assert!(share < IDLE_SHARE, "{} used {share} of a processor", node.place());
            assert!(said.len() <= LINES_A_CHANGE, "{} said:\n{}", node.place(), said.join("\n"));
        }
    }
}

fn peer(number: u8) -> Prefix4 {
    format!("10.99.{number}.0/24").parse().unwrap()
}

/// Waits until `number` has so many peers; how long after `since` that was.
fn peers(lab: &Lab, number: u16, count: u64, since: Instant) -> Duration {
    let seen = || (http::metrics(&node(lab, number)).value("felt_peers") == count).then(|| since.elapsed());
    eventually(&format!("node {number} has {count} peers"), SEEN_WITHIN, seen)
}

fn costs_nothing(test: &str, stay: Duration, leave: impl FnOnce(RegistryHandle<'_>), come_back: impl FnOnce(RegistryHandle<'_>)) {
    // The leases are due for renewal while etcd is away, and do not end.
    let lab = etcd_lab(test, 2, &["--lease-ttl", "120"]);
    let store = Store::of(&lab);
    let leases: Vec<_> = lab.nodes().map(|node| store.lease(subnet(node)).unwrap()).collect();
    let pinger = pinger(&lab, 1, 2, PACE);
    let marks = Mark::all(&lab);
    leave(lab.registry());
    thread::sleep(stay);
    Mark::judge(&marks, &lab, &format!("{test}, away"));

    let marks = Mark::all(&lab);
    come_back(lab.registry());
    store.put(peer(200), "172.30.1.200");
    let put = Instant::now();
    for number in lab.plan().node_numbers() {
        note(&format!("{test}: node {number} sees the new lease after {:?}", peers(&lab, number, 2, put)));
    }
    thread::sleep(Duration::from_secs(4));
    Mark::judge(&marks, &lab, &format!("{test}, back"));
    for (node, before) in lab.nodes().zip(leases) {
        let now = store.lease(subnet(node)).unwrap();
        assert_eq!((now.created, now.value), (before.created, before.value));
        assert!(node.is_ready());
    }
    let report = pinger.stop().unwrap();
    note(&format!("{test}: {} of {} pings lost", report.lost(), report.sent));
    assert!(report.received > 0 && report.lost() == 0, "{report:?}\n{}", whereabouts(&lab));
}

/// What the nodes and pods know of each other, for the message of a test that lost packets.
fn whereabouts(lab: &Lab) -> String {
    let mut text = String::new();
    for place in lab.nodes().map(|node| node.place()).chain(lab.pods()) {
        for words in [&["ip", "neighbour"][..], &["ip", "route"], &["ip", "-s", "link"]] {
            let argv: Vec<_> = words.iter().map(Into::into).collect();
            let output = lab.output(place, &argv).map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            text.extend([format!("{place}: {}\n", words.join(" ")), output.unwrap_or_default(), "\n".to_owned()]);
        }
    }
    for number in lab.plan().node_numbers() {
        text += &fs::read_to_string(lab.node(number).unwrap().log()).unwrap();
        text += &http::scrape(&node(lab, number)).lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    }
    text
}

#[test]
fn a_killed_etcd_costs_nothing() {
    let start = |etcd: RegistryHandle<'_>| etcd.start(&Interrupt::new()).unwrap();
    costs_nothing("killed", Duration::from_mins(1), |etcd| etcd.kill().unwrap(), start);
}

#[test]
fn a_frozen_etcd_costs_nothing() {
    costs_nothing("frozen", Duration::from_secs(30), |etcd| etcd.freeze().unwrap(), |etcd| etcd.thaw().unwrap());
}

#[test]
fn a_node_stops_and_starts_without_etcd() {
    let lab = etcd_lab("without", 2, &[]);
    let node = lab.node(2).unwrap();
    let own = subnet(node);
    lab.registry().kill().unwrap();
    thread::sleep(Duration::from_secs(1));
    let took = node.stop().unwrap();
    assert!(took < Duration::from_secs(2), "{took:?}");
    node.start().unwrap();
    thread::sleep(Duration::from_secs(2));
    assert!(node.pid().is_some() && !node.is_ready());
    lab.registry().start(&Interrupt::new()).unwrap();
    let begin = Instant::now();
    node.wait_ready(&Interrupt::new()).unwrap();
    note(&format!("without etcd: stopped in {took:?}, ready {:?} after etcd came", begin.elapsed()));
    assert_eq!(subnet(node), own);
    require_both_ways(&lab, 1, 2);

    // One of two members answers nothing.
    let members = format!("http://172.30.9.9:2379,http://{}", lab.plan().registry_endpoint().unwrap());
    node.stop().unwrap();
    let begin = Instant::now();
    crate::start(node, &["--etcd-endpoints", &members]);
    note(&format!("without etcd: ready after {:?} with a member that does not answer", begin.elapsed()));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn a_history_compacted_past_the_watch_costs_nothing() {
    let lab = etcd_lab("compacted", 2, &[]);
    let store = Store::of(&lab);
    store.put(peer(201), "172.30.1.201");
    store.put(peer(202), "172.30.1.202");
    peers(&lab, 2, 3, Instant::now());
    let pinger = pinger(&lab, 1, 2, PACE);
    let victim = lab.node(2).unwrap();

    // What etcd sends to the node disappears; nodes reach each other as before.
    let hub = netlink(&lab.netns(Place::Hub).unwrap());
    let hole = Route { kind: RouteType::BlackHole, ..Route::new(IpAddr::from(lab.plan().underlay(2)).into()) };
    let marks = Mark::all(&lab);
    hub.add_route(&hole).unwrap();
    let said = marks[1].lines;
    let noticed = || (lines(&victim.log()).len() > said).then_some(());
    eventually("the node notices that etcd is silent", Duration::from_secs(25), noticed);
    store.delete(peer(201));
    store.put(peer(202), "172.30.1.212");
    store.put(peer(203), "172.30.1.203");
    store.put(peer(204), "172.30.1.204");
    store.compact();
    Mark::judge(&marks, &lab, "compacted, away");

    let marks = Mark::all(&lab);
    hub.delete_route(&hole).unwrap();
    note(&format!("compacted: the changes are seen after {:?}", peers(&lab, 2, 4, Instant::now())));
    thread::sleep(Duration::from_secs(3));
    Mark::judge(&marks, &lab, "compacted, back");
    let report = pinger.stop().unwrap();
    note(&format!("compacted: {} of {} pings lost", report.lost(), report.sent));
    assert!(report.received > 0 && report.lost() == 0, "{report:?}");
    assert!(victim.is_ready());
}
