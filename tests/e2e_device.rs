//! The overlay's device while others lay hands on it, and beside a second overlay on the same hosts.

mod e2e_support;

use std::process::Command;
use std::time::{Duration, Instant};

use e2e_support::{Daemon, PATIENCE, acquainted, cpu_time, eventually, get, lines, netlink, node, note, plan, pod, request, up};
use felt::lab::probe::{Pinger, ping};
use felt::lab::{EphemeralLab, HUB_ADDRESS, Interrupt, Lab, LabPlan, Place, RegistryKind};
use felt::sys::netlink::{Netlink, Route};
use felt::sys::netns::Netns;
use felt::sys::tun::{Multiqueue, TunQueue};
use ipnetwork::IpNetwork;

/// How soon a device must be back.
const BACK: Duration = Duration::from_secs(5);
const TUN: &str = "flannel0";

fn net(text: &str) -> IpNetwork {
    text.parse().unwrap()
}

/// IPv4 addresses and routes of the device, in a fixed order.
fn state(netlink: &Netlink) -> (Vec<String>, Vec<String>) {
    let index = netlink.link(TUN).unwrap().index;
    let addresses = netlink.addresses().unwrap().into_iter().filter(|entry| entry.device == index && entry.address.is_ipv4());
    let mut addresses: Vec<_> = addresses.map(|entry| entry.address.to_string()).collect();
    let routes = netlink.routes().unwrap().into_iter().filter(|route| route.device == Some(index) && route.to.is_ipv4());
    let mut routes: Vec<_> = routes.map(|route| format!("{route} {:?} table {}", route.source, route.table)).collect();
    addresses.sort();
    routes.sort();
    (addresses, routes)
}

fn is_ready(netns: &Netns) -> bool {
    get(netns, "/readyz").is_ok_and(|answer| answer.status == 200)
}

#[test]
fn a_device_left_behind_is_taken_over_with_one_right_address() {
    let lab = up(LabPlan { pods_per_node: 0, ..plan("left", 1) });
    let (first, netns) = (lab.node(1).unwrap(), node(&lab, 1));
    let netlink = netlink(&netns);
    first.stop().unwrap();
    netns.run_in(|| TunQueue::open(TUN, Multiqueue::No).unwrap().set_persistent(true).unwrap()).unwrap();
    let index = netlink.link(TUN).unwrap().index;
    for address in ["169.254.7.7/16", "192.168.1.125/24", "10.99.250.0/32"] {
        netlink.add_address(index, net(address)).unwrap();
    }
    netlink.set_up(index).unwrap();
    let base = first.subnet().unwrap().unwrap().subnet.base();
    let mut seen = Vec::new();
    for _ in 0..3 {
        first.start().unwrap();
        first.wait_ready(&Interrupt::new()).unwrap();
        assert_eq!(netlink.link(TUN).unwrap().index, index);
        let (addresses, routes) = state(&netlink);
        let mut expected = vec!["169.254.7.7/16".to_owned(), "192.168.1.125/24".to_owned(), format!("{base}/32")];
        expected.sort();
        assert_eq!(addresses, expected);
        assert_eq!(routes.iter().filter(|route| route.starts_with("10.99.0.0/16")).count(), 1, "{routes:#?}");
        seen.push(routes);
        first.stop().unwrap();
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:#?}");
}

/// Removes the device under traffic, once alone and once with something in its place; what it costs.
fn remove_under_traffic(lab: &EphemeralLab) {
    let (first, netns) = (lab.node(1).unwrap(), node(lab, 1));
    let (netlink, pid) = (netlink(&netns), first.pid().unwrap());
    let far = lab.address(Place::Pod { node: 2, pod: 1 }).unwrap();
    let pinger = Pinger::start(&pod(lab, 1), far, Duration::from_millis(5)).unwrap();
    let answered = |what: &str| {
        let (begin, before) = (Instant::now(), pinger.so_far().1);
        eventually(what, BACK, || (pinger.so_far().1 > before + 3).then_some(()));
        begin.elapsed()
    };
    answered("at first");
    for _ in 0..3 {
        netlink.delete_link(netlink.link(TUN).unwrap().index).unwrap();
        let took = answered("after the removal");
        note(&format!("device removed, pings answered again after {took:?}"));
        eventually("ready", BACK, || is_ready(&netns).then_some(()));
    }

    // Something else has the name, so that the gap lasts.
    let other = netlink.create_bridge("blocker").unwrap();
    first.freeze().unwrap();
    netlink.delete_link(netlink.link(TUN).unwrap().index).unwrap();
    netlink.rename(other.index, TUN).unwrap();
    first.thaw().unwrap();
    eventually("no longer ready", BACK, || (!is_ready(&netns)).then_some(()));
    let (before, gap) = (cpu_time(pid), Duration::from_secs(3));
    std::thread::sleep(gap);
    let used = cpu_time(pid).saturating_sub(before);
    note(&format!("processor time in a gap of {gap:?}: {used:?}"));
    assert!(used < gap / 5, "{used:?}");
    assert!(!is_ready(&netns) && get(&netns, "/healthz").unwrap().status == 200);
    netlink.delete_link(other.index).unwrap();
    let took = answered("after the gap");
    note(&format!("place free again, pings answered after {took:?}"));
    eventually("ready", BACK, || is_ready(&netns).then_some(()));
    assert_eq!(first.pid(), Some(pid), "still the same process");
    let log = lines(&first.log());
    note(&format!("{} log lines in all", log.len()));
    assert!(log.len() < 40, "{log:#?}");
    pinger.stop().unwrap();
}

#[test]
fn a_device_removed_under_traffic_comes_back() {
    remove_under_traffic(&up(plan("removed", 2)));
}

#[test]
fn a_device_of_several_workers_comes_back() {
    let run_args = ["--workers", "4"].map(str::to_owned).to_vec();
    let lab = up(LabPlan { run_args, ..plan("queues", 2) });
    remove_under_traffic(&lab);
}

#[test]
fn what_is_changed_by_hand_is_put_right() {
    let lab = up(LabPlan { pods_per_node: 0, ..plan("mended", 1) });
    let netlink = netlink(&node(&lab, 1));
    let index = netlink.link(TUN).unwrap().index;
    let right = state(&netlink);
    let back = |what: &str, patience| {
        let begin = Instant::now();
        eventually(what, patience, || {
            let link = netlink.link(TUN).unwrap();
            (state(&netlink) == right && link.mtu == 1472 && link.up).then_some(())
        });
        note(&format!("{what} put right after {:?}", begin.elapsed()));
    };
    netlink.delete_address(index, net(&right.0[0])).unwrap();
    back("a removed address", BACK);
    netlink.add_address(index, net("10.99.251.0/32")).unwrap();
    back("a stale address", BACK);
    netlink.set_mtu(index, 1300).unwrap();
    back("another MTU", BACK);
    netlink.set_down(index).unwrap();
    back("a device set down", BACK);
    // Routes are not listened to, for a host may have many that come and go.
    let ours = netlink.routes().unwrap().into_iter().find(|route| route.to == net("10.99.0.0/16")).unwrap();
    netlink.delete_route(&ours).unwrap();
    back("a removed route", Duration::from_secs(15));
}

#[test]
fn an_underlay_address_that_changes_is_followed_with_the_same_subnet() {
    let lab = up(plan("moved", 2));
    let (first, netns) = (lab.node(1).unwrap(), node(&lab, 1));
    let (netlink, subnet) = (netlink(&netns), first.subnet().unwrap());
    let pinger =
        Pinger::start(&pod(&lab, 2), lab.address(Place::Pod { node: 1, pod: 1 }).unwrap(), Duration::from_millis(10)).unwrap();
    eventually("pings", PATIENCE, || (pinger.so_far().1 > 10).then_some(()));
    let uplink = netlink.link("eth0").unwrap().index;
    netlink.delete_address(uplink, net("172.30.1.1/16")).unwrap();
    netlink.add_address(uplink, net("172.30.9.1/16")).unwrap();
    netlink.add_route(&Route::default_by(HUB_ADDRESS.into())).unwrap();
    let begin = Instant::now();
    let registry = lab.plan().registry_endpoint().unwrap().into();
    let hub = lab.netns(Place::Hub).unwrap();
    let leases = || request(&hub, registry, "GET", "/v1/_/leases", "").unwrap().body;
    eventually("the registry knows", Duration::from_secs(15), || leases().contains("172.30.9.1").then_some(()));
    let before = pinger.so_far().1;
    eventually("pings go on", PATIENCE, || (pinger.so_far().1 > before + 10).then_some(()));
    note(&format!("moved to another underlay address after {:?}", begin.elapsed()));
    assert_eq!(first.subnet().unwrap(), subnet, "{}", lines(&first.log()).join("\n"));
    assert!(!leases().contains("\"172.30.1.1\""), "{}", leases());
    let report = pinger.stop().unwrap();
    note(&format!("longest gap {:?}", report.longest_gap));
    assert!(report.longest_gap < BACK, "expected well below a second on an idle machine, found {:?}", report.longest_gap);
}

fn set_config(lab: &Lab, prefix: &str, config: &str) {
    let mut command = Command::new(&lab.plan().felt);
    command.args(["config", "set", "-", "--etcd-prefix", prefix]).args(lab.plan().registry_args());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config).unwrap();
    command.stdin(file.reopen().unwrap());
    lab.netns(Place::Hub).unwrap().place(&mut command).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn two_overlays_share_their_hosts() {
    let lab = up(LabPlan { registry: RegistryKind::Etcd, ..plan("two", 2) });
    acquainted(&lab);
    set_config(&lab, "/other/network", r#"{"Network":"10.98.0.0/16","Backend":{"Type":"udp","Port":8290}}"#);
    set_config(&lab, "/third/network", r#"{"Network":"10.97.0.0/16"}"#);
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let args = ["--etcd-prefix", "/other/network", "--tun-name", "felt1"];
    let _others: Vec<Daemon> =
        (1..).zip(&directories).map(|(number, place)| Daemon::run(&lab, &node(&lab, number), place.path(), &args)).collect();
    let base = |place: &tempfile::TempDir| {
        let text = std::fs::read_to_string(place.path().join("subnet.env")).ok()?;
        let gateway = text.lines().find_map(|line| line.strip_prefix("FLANNEL_SUBNET="))?.to_owned();
        Some(gateway.parse::<ipnetwork::Ipv4Network>().unwrap().network())
    };
    let far = eventually("the second overlay has a lease", PATIENCE, || base(&directories[1]));
    eventually("the second overlay carries pings", PATIENCE, || {
        ping(&node(&lab, 1), far, Duration::from_millis(500), &Interrupt::new()).unwrap()
    });
    let pod2 = lab.address(Place::Pod { node: 2, pod: 1 }).unwrap();
    eventually("and so does the first", PATIENCE, || {
        ping(&pod(&lab, 1), pod2, Duration::from_millis(500), &Interrupt::new()).unwrap()
    });
    let way = netlink(&node(&lab, 1)).route_to(far.into()).unwrap();
    assert_eq!(way.device, Some(netlink(&node(&lab, 1)).link("felt1").unwrap().index));

    // A third one on the first one's port.
    let place = tempfile::tempdir().unwrap();
    let args = ["--etcd-prefix", "/third/network", "--tun-name", "felt2"];
    let mut third = Daemon::run(&lab, &node(&lab, 1), place.path(), &args);
    assert_eq!(third.ended(PATIENCE).code(), Some(1));
    let log = third.log();
    assert!(log.contains("172.30.1.1:8285 is in use") && log.contains("Backend.Port"), "{log}");
    assert!(netlink(&node(&lab, 1)).find_link("felt2").unwrap().is_none());
}
