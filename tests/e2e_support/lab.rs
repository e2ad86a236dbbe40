//! Labs for one test each, and waiting for what they come to.

use std::fs;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use felt::lab::{EphemeralLab, Interrupt, Lab, LabPlan, Place, Silent};
use felt::sys::netlink::Netlink;
use felt::sys::netns::Netns;

/// How long anything may take that takes no time on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The network config of a lab that is not told otherwise.
pub const CONFIG: &str = r#"{"Network":"10.99.0.0/16","Backend":{"Type":"udp"}}"#;

/// A plan of so many nodes with one pod each, whose name is this test's and this process's own.
pub fn plan(test: &str, nodes: u16) -> LabPlan {
    let name = format!("e{}-{test}", std::process::id()).parse().unwrap();
    let felt = PathBuf::from(env!("CARGO_BIN_EXE_felt"));
    LabPlan { name, nodes, pods_per_node: 1, config: CONFIG.to_owned(), ..LabPlan::new(felt) }
}

/// A lab by `plan`, all nodes ready.
pub fn up(plan: LabPlan) -> EphemeralLab {
    let lab = EphemeralLab::up(plan, &mut Silent, &Interrupt::new()).unwrap();
    for place in lab.nodes().map(|node| node.place()).chain(lab.pods()) {
        // The kernel's own router solicitations and the like would be counted among the drops, at any moment.
        let switch = || fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
        lab.netns(place).unwrap().run_in(switch).unwrap().unwrap();
    }
    lab
}

/// The namespace of node `number`.
pub fn node(lab: &Lab, number: u16) -> Netns {
    lab.netns(Place::Node(number)).unwrap()
}

/// The namespace of the only pod of node `number`.
pub fn pod(lab: &Lab, number: u16) -> Netns {
    lab.netns(Place::Pod { node: number, pod: 1 }).unwrap()
}

/// The address of the only pod of node `number`.
pub fn pod_address(lab: &Lab, number: u16) -> Ipv4Addr {
    lab.address(Place::Pod { node: number, pod: 1 }).unwrap()
}

/// Links, addresses and routes of a namespace.
pub fn netlink(netns: &Netns) -> Netlink {
    netns.run_in(Netlink::open).unwrap().unwrap()
}

/// Asks `look` until it has an answer, or fails the test after `patience`.
pub fn eventually<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < patience, "not within {patience:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// How many fragments the kernel has made of packets in `netns`.
pub fn fragments_made(netns: &Netns) -> u64 {
    // `/proc/net` would be that of the process's first thread.
    let text = netns.run_in(|| fs::read_to_string("/proc/thread-self/net/snmp")).unwrap().unwrap();
    snmp(&text, "Ip", "FragCreates")
}

/// UDP datagrams that found a full socket in `netns`.
pub fn receive_overflows(netns: &Netns) -> u64 {
    let text = netns.run_in(|| fs::read_to_string("/proc/thread-self/net/snmp")).unwrap().unwrap();
    snmp(&text, "Udp", "RcvbufErrors")
}

fn snmp(text: &str, protocol: &str, counter: &str) -> u64 {
    let start = format!("{protocol}:");
    let mut rows = text.lines().filter(|line| line.starts_with(&start)).map(str::split_ascii_whitespace);
    let (names, mut values) = (rows.next().unwrap(), rows.next().unwrap());
    let at = names.enumerate().find(|(_, name)| *name == counter).unwrap().0;
    values.nth(at).unwrap().parse().unwrap()
}

/// The lines of a log.
pub fn lines(log: &Path) -> Vec<String> {
    fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Tells what was measured, for whoever reads the tests' output.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "measured: {text}");
}
