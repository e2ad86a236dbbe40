//! One node from start to end: what it says of its health, when it says it is ready, how it ends, and what a restart costs.

mod e2e_support;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::{Duration, Instant};

use e2e_support::{Daemon, PATIENCE, StoppedThread, eventually, get, lines, netlink, node, note, plan, pod, request, up};
use felt::lab::probe::{Amount, Transfer, ping};
use felt::lab::{HEALTH_PORT, Interrupt, Lab, LabPlan, Place};
use felt::sys::process::Signal;

/// How soon a daemon must be gone after SIGTERM.
const END: Duration = Duration::from_secs(2);

fn health(lab: &Lab, path: &str) -> (u16, String) {
    let answer = get(&node(lab, 1), path).unwrap();
    (answer.status, answer.body)
}

fn tun(lab: &Lab) -> Option<String> {
    lab.node(1).unwrap().tun().unwrap()
}

/// The subnets in the registry.
fn leases(lab: &Lab) -> String {
    let registry = lab.plan().registry_endpoint().unwrap().into();
    request(&lab.netns(Place::Hub).unwrap(), registry, "GET", "/v1/_/leases", "").unwrap().body
}

#[test]
fn health_is_that_of_the_workers_and_not_of_the_process() {
    let lab = up(plan("health", 1));
    assert_eq!(health(&lab, "/healthz"), (200, "flanneld is running".to_owned()));
    assert_eq!(health(&lab, "/readyz"), (200, "flanneld is ready".to_owned()));
    assert_eq!(health(&lab, "/").0, 404);
    let pid = lab.node(1).unwrap().pid().unwrap();
    let stopped = StoppedThread::of(pid, "worker 0 in");
    // Probes may be far apart: the first that comes late must know already.
    thread::sleep(Duration::from_secs(9));
    let (status, body) = health(&lab, "/healthz");
    assert!(status == 500 && body.contains("worker 0 in has not moved for"), "{status} {body}");
    drop(stopped);
    eventually("healthy again", PATIENCE, || (health(&lab, "/healthz").0 == 200).then_some(()));
    assert_eq!(lab.node(1).unwrap().pid(), Some(pid));
}

#[test]
fn a_node_without_a_registry_is_alive_but_not_ready_and_ends_when_told() {
    let lab = up(plan("alone", 1));
    let first = lab.node(1).unwrap();
    let kept = leases(&lab);
    assert!(first.stop().unwrap() < END);
    lab.registry().stop().unwrap();
    first.start().unwrap();
    eventually("healthz answers", PATIENCE, || get(&node(&lab, 1), "/healthz").ok());
    assert_eq!(health(&lab, "/healthz"), (200, "flanneld is running".to_owned()));
    assert_eq!(health(&lab, "/readyz"), (503, "flanneld is not ready yet".to_owned()));
    thread::sleep(Duration::from_millis(1500));
    assert_eq!((health(&lab, "/readyz").0, tun(&lab)), (503, None), "nothing is made before there is a lease");
    // Waiting for its config, told to end.
    let took = first.stop().unwrap();
    assert!(took < END, "{took:?}");
    lab.registry().start(&Interrupt::new()).unwrap();
    first.start().unwrap();
    first.wait_ready(&Interrupt::new()).unwrap();
    assert_eq!(tun(&lab).as_deref(), Some("flannel0"));
    // With the registry dead, and with it frozen, a node that runs ends as quickly, and its lease stays.
    lab.registry().kill().unwrap();
    let took = first.stop().unwrap();
    assert!(took < END, "{took:?}");
    assert_eq!(tun(&lab), None);
    lab.registry().start(&Interrupt::new()).unwrap();
    let subnet = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["Snapshot"][0]["Subnet"].clone();
    assert_eq!(subnet(&leases(&lab)), subnet(&kept));
    first.start().unwrap();
    first.wait_ready(&Interrupt::new()).unwrap();
    lab.registry().freeze().unwrap();
    let took = first.stop();
    lab.registry().thaw().unwrap();
    assert!(took.unwrap() < END);
}

#[test]
fn signals_end_it_with_the_right_code() {
    let lab = up(LabPlan { pods_per_node: 0, ..plan("signals", 1) });
    lab.node(1).unwrap().stop().unwrap();
    let netns = node(&lab, 1);
    let directory = tempfile::tempdir().unwrap();
    let start = |args: &[&str]| {
        let port = HEALTH_PORT.to_string();
        let health = ["--healthz-ip", "127.0.0.1", "--healthz-port", &port];
        let daemon = Daemon::run(&lab, &netns, directory.path(), &[&health[..], args].concat());
        eventually("ready", PATIENCE, || get(&netns, "/readyz").ok().filter(|answer| answer.status == 200));
        daemon
    };
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let mut daemon = start(&[]);
        let begin = Instant::now();
        daemon.signal(signal);
        assert_eq!(daemon.ended(END).code(), Some(0), "{}", daemon.log());
        note(&format!("{signal:?} to exit: {:?}", begin.elapsed()));
        assert_eq!(tun(&lab), None);
    }
    let mut daemon = start(&["--keep-device"]);
    let index = netlink(&netns).link("flannel0").unwrap().index;
    daemon.signal(Signal::Terminate);
    assert_eq!(daemon.ended(END).code(), Some(0));
    assert_eq!(netlink(&netns).link("flannel0").unwrap().index, index);
    assert!(netlink(&netns).routes().unwrap().iter().any(|route| route.device == Some(index)));
    let mut daemon = start(&[]);
    assert_eq!(netlink(&netns).link("flannel0").unwrap().index, index, "taken over");

    // A worker that stands still does not hold up the end for long, and not at all for who sends a second signal. A thread
    // that is traced is gone for good only when its tracer goes, and its process with it.
    let stopped = StoppedThread::of(daemon.pid(), "worker 0 in");
    daemon.signal(Signal::Terminate);
    eventually("ends without it", END, || daemon.log().contains("a worker does not end").then_some(()));
    thread::sleep(Duration::from_millis(500));
    drop(stopped);
    assert_eq!(daemon.ended(END).code(), Some(0), "{}", daemon.log());
    let mut daemon = start(&[]);
    let stopped = StoppedThread::of(daemon.pid(), "worker 0 in");
    daemon.signal(Signal::Terminate);
    eventually("heard", PATIENCE, || daemon.log().contains("a second signal forces it").then_some(()));
    daemon.signal(Signal::Terminate);
    eventually("heard again", END, || daemon.log().contains("ending at once").then_some(()));
    drop(stopped);
    assert_eq!(daemon.ended(END).code(), Some(143), "{}", daemon.log());
}

#[test]
fn a_taken_port_is_a_clear_error() {
    let lab = up(LabPlan { pods_per_node: 0, ..plan("taken", 1) });
    let netns = node(&lab, 1);
    let directory = tempfile::tempdir().unwrap();
    let port = HEALTH_PORT.to_string();
    let mut second = Daemon::run(&lab, &netns, directory.path(), &["--healthz-ip", "127.0.0.1", "--healthz-port", &port]);
    assert_eq!(second.ended(PATIENCE).code(), Some(1));
    let log = second.log();
    assert!(log.contains(&format!("127.0.0.1:{port}")) && log.contains("--healthz-port"), "{log}");

    // Same network: the first goes on, undisturbed.
    let mut second = Daemon::run(&lab, &netns, directory.path(), &["--tun-name", "felt1"]);
    assert_eq!(second.ended(PATIENCE).code(), Some(1));
    let log = second.log();
    assert!(log.contains("10.99.0.0/16 overlaps route 10.99.0.0/16 dev flannel0"), "{log}");
    assert_eq!((health(&lab, "/readyz").0, tun(&lab).as_deref()), (200, Some("flannel0")));
    let taken = netns.run_in(|| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, HEALTH_PORT)))).unwrap();
    assert!(taken.is_err());
}

#[test]
fn the_file_is_complete_before_the_service_manager_hears_once() {
    let lab = up(LabPlan { pods_per_node: 0, ..plan("notify", 1) });
    let first = lab.node(1).unwrap();
    let subnet = first.subnet().unwrap().unwrap().subnet;
    first.stop().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (socket, file) = (directory.path().join("notify"), directory.path().join("deep/er/subnet.env"));
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = Daemon::run_command(&lab, &node(&lab, 1), directory.path(), &[]);
    command.env("NOTIFY_SOCKET", &socket).args(["--subnet-file", file.to_str().unwrap()]);
    let daemon = Daemon::start(&lab, &node(&lab, 1), command);
    let mut buffer = [0; 256];
    let length = manager.recv(&mut buffer).unwrap();
    let written = fs::read_to_string(&file).unwrap();
    assert_eq!(buffer[..length].trim_ascii(), b"READY=1");
    let gateway = subnet.nth(1).unwrap();
    let expected = format!("FLANNEL_NETWORK=10.99.0.0/16\nFLANNEL_SUBNET={gateway}/24\nFLANNEL_MTU=1472\nFLANNEL_IPMASQ=false\n");
    assert_eq!(written, expected);
    let beside: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(beside, ["subnet.env"], "no temporary file is left");

    // A device made anew makes the node ready again, which is no news to a service manager.
    let netlink = netlink(&node(&lab, 1));
    netlink.delete_link(netlink.link("flannel0").unwrap().index).unwrap();
    eventually("the device is back", PATIENCE, || netlink.find_link("flannel0").unwrap());
    manager.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
    assert!(manager.recv(&mut buffer).is_err(), "{:?}", String::from_utf8_lossy(&buffer));
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    drop(daemon);
}

#[test]
fn a_file_that_cannot_be_written_keeps_the_node_from_being_ready() {
    let lab = up(plan("file", 2));
    let first = lab.node(1).unwrap();
    first.stop().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (in_the_way, file) = (directory.path().join("place"), directory.path().join("place/subnet.env"));
    fs::write(&in_the_way, "no directory").unwrap();
    first.start_with(&["--subnet-file".to_owned(), file.display().to_string()]).unwrap();
    let complaints = || lines(&first.log()).iter().filter(|line| line.contains("place/subnet.env")).count();
    eventually("told", PATIENCE, || (complaints() > 0).then_some(()));
    // It carries what it can meanwhile.
    let (near, far) = (pod(&lab, 1), lab.address(Place::Pod { node: 2, pod: 1 }).unwrap());
    eventually("forwards", PATIENCE, || ping(&near, far, Duration::from_millis(500), &Interrupt::new()).unwrap());
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(health(&lab, "/readyz").0, 503);
    let said = complaints();
    fs::remove_file(&in_the_way).unwrap();
    eventually("ready", PATIENCE, || (health(&lab, "/readyz").0 == 200).then_some(()));
    assert!(fs::read_to_string(&file).unwrap().ends_with("FLANNEL_IPMASQ=false\n"));
    assert_eq!(complaints(), said, "told once");
}

#[test]
fn a_transfer_goes_on_over_restarts() {
    let lab = up(plan("restart", 2));
    let (from, to) = (pod(&lab, 1), pod(&lab, 2));
    let address = lab.address(Place::Pod { node: 2, pod: 1 }).unwrap();
    let transfer = Transfer::start(&from, &to, address, Amount::Time(Duration::from_secs(12)), PATIENCE).unwrap();
    let moves = |what: &str| {
        let before = transfer.received();
        let begin = Instant::now();
        eventually(what, PATIENCE, || (transfer.received() > before + 1_000_000).then_some(()));
        note(&format!("1 MB {what} after {:?}", begin.elapsed()));
    };
    moves("at first");
    for number in [1, 2] {
        let daemon = lab.node(number).unwrap();
        let (subnet, file) = (daemon.subnet().unwrap(), fs::read(daemon.subnet_file()).unwrap());
        let index = netlink(&node(&lab, number)).link("flannel0").unwrap().index;
        daemon.kill().unwrap();
        daemon.start().unwrap();
        daemon.wait_ready(&Interrupt::new()).unwrap();
        assert_eq!(netlink(&node(&lab, number)).link("flannel0").unwrap().index, index, "the device is taken over");
        moves("after kill -9");
        daemon.stop().unwrap();
        daemon.start().unwrap();
        daemon.wait_ready(&Interrupt::new()).unwrap();
        moves("after SIGTERM");
        assert_eq!((daemon.subnet().unwrap(), fs::read(daemon.subnet_file()).unwrap()), (subnet, file));
    }
    let report = transfer.finish(&Interrupt::new()).unwrap();
    note(&format!("transferred {} MB over four restarts", report.bytes / 1_000_000));
    let log = lines(&lab.node(1).unwrap().log());
    assert!(!log.iter().any(|line| line.contains("ERROR")), "{log:#?}");
}
