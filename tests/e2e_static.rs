//! Nodes without any registry: peers that are typed, and peers out of a file that changes while they run.

mod e2e_support;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use e2e_support::{Daemon, PATIENCE, eventually, get, metrics, netlink, node, note, plan, pod, pod_address, up};
use felt::lab::probe::{Amount, Pinger, Transfer, ping};
use felt::lab::{EphemeralLab, HEALTH_PORT, Interrupt, Lab};
use felt::net::Prefix4;
use tempfile::TempDir;

/// The port of node 2, which is not that of the others.
const OTHER_PORT: &str = "9000";
/// How soon a change of the file must have taken effect: three times a second.
const IN_FORCE: Duration = Duration::from_secs(3);

/// A lab whose registry and nodes have done their part: they gave the pods addresses.
struct Stand {
    lab: EphemeralLab,
    directory: TempDir,
}

impl Stand {
    fn new(test: &str, nodes: u16) -> Self {
        let lab = up(plan(test, nodes));
        lab.nodes().for_each(|node| _ = node.stop().unwrap());
        lab.registry().stop().unwrap();
        Self { lab, directory: tempfile::tempdir().unwrap() }
    }

    fn subnet(&self, number: u16) -> Prefix4 {
        let gateway = self.lab.node(number).unwrap().subnet().unwrap().unwrap().subnet;
        Prefix4::new(gateway.base(), 24).unwrap()
    }

    fn underlay(&self, number: u16) -> Ipv4Addr {
        self.lab.plan().underlay(number)
    }

    /// A node as a peer is typed.
    fn peer(&self, number: u16, port: &str) -> String {
        format!("{}={}{port}", self.subnet(number), self.underlay(number))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> Instant {
        // As editors and configuration management do it: whole.
        fs::write(self.at("new"), text).unwrap();
        fs::rename(self.at("new"), self.at(name)).unwrap();
        Instant::now()
    }

    fn command(&self, number: u16, args: &[&str]) -> Command {
        let mut command = Command::new(&self.lab.plan().felt);
        let (subnet, port) = (self.subnet(number).to_string(), HEALTH_PORT.to_string());
        command.args(["run", "--subnet", &subnet, "--healthz-ip", "127.0.0.1", "--healthz-port", &port]);
        command.args(["--iface", felt::lab::UPLINK, "--subnet-file"]).arg(self.at(&format!("subnet{number}.env"))).args(args);
        command
    }

    /// Runs a node, until it is ready.
    fn run(&self, number: u16, args: &[&str]) -> Daemon {
        let netns = node(&self.lab, number);
        let mut daemon = Daemon::start(&self.lab, &netns, self.command(number, args));
        eventually("ready", PATIENCE, || {
            assert!(daemon.is_running(), "{}", daemon.log());
            get(&netns, "/readyz").ok().filter(|answer| answer.status == 200)
        });
        daemon
    }

    fn pings(&self, from: u16, to: u16) -> bool {
        let patience = Duration::from_millis(200);
        ping(&pod(&self.lab, from), pod_address(&self.lab, to), patience, &Interrupt::new()).unwrap().is_some()
    }

    fn eventually_pings(&self, from: u16, to: u16) {
        eventually(&format!("{from} pings {to}"), PATIENCE, || self.pings(from, to).then_some(()));
    }
}

fn transfer(lab: &Lab, from: u16, to: u16) -> Transfer {
    let amount = Amount::Time(Duration::from_secs(6));
    Transfer::start(&pod(lab, from), &pod(lab, to), pod_address(lab, to), amount, PATIENCE).unwrap()
}

#[test]
fn peers_come_and_go_by_file_while_traffic_to_others_goes_on() {
    let stand = Stand::new("static", 3);
    let line = |number, port: &str| stand.peer(number, port).replace('=', " ") + "\n";
    let (second, third) = (line(2, ":9000"), line(3, ""));
    stand.write("peers", &format!("# our peers\n{second}{third}"));
    let file = stand.at("peers").display().to_string();
    let first = stand.run(1, &["--network", "10.99.0.0/16", "--peers-file", &file]);
    let (one, two, three) = (stand.peer(1, ":8285"), stand.peer(2, ":9000"), stand.peer(3, ":8285"));
    let network = ["--network", "10.99.0.0/16"];
    let args = [&network[..], &["--port", OTHER_PORT, "--peer", &one, "--peer", &three]].concat();
    let second_node = stand.run(2, &args);
    let args = [&network[..], &["--peer", &one, "--peer", &two]].concat();
    let _third_node = stand.run(3, &args);

    // Each reaches each, also the one that listens on, and sends from, a port of its own.
    for (from, to) in [(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)] {
        stand.eventually_pings(from, to);
    }
    let env = fs::read_to_string(stand.at("subnet1.env")).unwrap();
    let gateway = stand.subnet(1).nth(1).unwrap();
    let expected = format!("FLANNEL_NETWORK=10.99.0.0/16\nFLANNEL_SUBNET={gateway}/24\nFLANNEL_MTU=1472\nFLANNEL_IPMASQ=false\n");
    assert_eq!(env, expected);

    // To the third go a ping without pause and a stream; the second goes, comes, and a broken file changes nothing.
    let before = metrics(&node(&stand.lab, 1));
    let pinger = Pinger::start(&pod(&stand.lab, 1), pod_address(&stand.lab, 3), Duration::from_millis(5)).unwrap();
    let stream = transfer(&stand.lab, 1, 3);
    let peers = |count| {
        let knows = || (metrics(&node(&stand.lab, 1)).value("felt_peers") == count).then_some(());
        eventually(&format!("{count} peers"), PATIENCE, knows);
    };
    let gone = stand.write("peers", &third);
    peers(1);
    let removed = gone.elapsed();
    assert!(removed < IN_FORCE && !stand.pings(1, 2), "{removed:?}");
    let broken = stand.write("peers", &format!("{third}{second}10.99.250.0/24 nowhere\n"));
    let said = format!("peers file {file}, line 3: expected the IPv4 address of a node");
    eventually("the fault is told", PATIENCE, || first.log().contains(&said).then_some(()));
    assert!(broken.elapsed() < IN_FORCE && first.log().contains("found `nowhere`; the peers stay as they were"));
    assert_eq!(metrics(&node(&stand.lab, 1)).value("felt_peers"), 1, "not even what is right in it");
    let back = stand.write("peers", &format!("{third}{second}"));
    peers(2);
    let added = back.elapsed();
    assert!(added < IN_FORCE, "{added:?}");
    stand.eventually_pings(1, 2);
    note(&format!("a peer was gone {removed:?} after the file said so, and back {added:?} after"));
    let stream = stream.finish(&Interrupt::new()).unwrap();
    let report = pinger.stop().unwrap();
    assert!(report.sent > 200 && report.lost() == 0, "{report:?}");
    assert!(stream.bytes > 1_000_000, "{stream:?}");
    let drops = metrics(&node(&stand.lab, 1)).drops_since(&before);
    assert!(drops.iter().all(|(reason, _)| reason == "no_route" || reason == "source_unleased"), "{drops:?}");

    // A port of its own is a part of who a peer is.
    let before = metrics(&node(&stand.lab, 1));
    drop(second_node);
    let args = [&network[..], &["--port", "9001", "--peer", &one, "--peer", &three]].concat();
    let _moved = stand.run(2, &args);
    assert!(!stand.pings(2, 1));
    assert!(metrics(&node(&stand.lab, 1)).dropped("source_wrong_port") > before.dropped("source_wrong_port"));
    stand.write("peers", &format!("{third}{}", line(2, ":9001")));
    stand.eventually_pings(2, 1);

    // A file that is gone says nothing new.
    fs::remove_file(stand.at("peers")).unwrap();
    eventually("the loss is told", PATIENCE, || first.log().contains("cannot be looked at").then_some(()));
    assert!(stand.pings(1, 2) && stand.pings(1, 3));
}

#[test]
fn what_makes_no_network_is_refused_before_anything_is_touched() {
    let stand = Stand::new("refuse", 1);
    let own = stand.peer(1, "");
    let broken = stand.at("broken").display().to_string();
    fs::write(&broken, "10.99.250.0/24 192.0.2.7\n10.99.250.0/25 192.0.2.8\n").unwrap();
    let missing = stand.at("missing").display().to_string();
    let cases: [(&[&str], String); 9] = [
        (&["--peer", &own], "our own subnet".to_owned()),
        (&["--peer", "10.99.250.0/24=192.0.2.7", "--peer", "10.99.250.128/25=192.0.2.8"], "shares addresses with".to_owned()),
        (&["--network", "10.99.0.0/16", "--peer", "10.99.250.0/24=10.99.251.1"], "inside the overlay 10.99.0.0/16".to_owned()),
        (&["--peer", "172.16.1.0/24=192.0.2.7"], "give --network".to_owned()),
        (&["--peer", "10.99.250.0/24=192.0.2.7", "--remote", "192.0.2.1:8889"], "--peer and --remote".to_owned()),
        (&["--peer", "10.99.250.0/24"], "expected SUBNET=ADDRESS[:PORT]".to_owned()),
        (&["--peers-file", &broken], "give --network".to_owned()),
        (&["--network", "10.99.0.0/16", "--peers-file", &broken], format!("peers file {broken}, line 2: 10.99.250.0/25 shares")),
        (&["--network", "10.99.0.0/16", "--peers-file", &missing], format!("peers file {missing}: ")),
    ];
    for (args, part) in cases {
        let mut daemon = Daemon::start(&stand.lab, &node(&stand.lab, 1), stand.command(1, args));
        let status = daemon.ended(PATIENCE);
        assert!(status.code() == Some(2) && daemon.log().contains(&part), "{args:?}: {status} {}", daemon.log());
        assert!(!Path::new(&stand.at("subnet1.env")).exists());
        let links = netlink(&node(&stand.lab, 1)).links().unwrap();
        assert!(links.iter().all(|link| !link.name.starts_with("flannel")), "{links:?}");
    }
}
