//! The ground of `felt bench`: each path is there, carries what its wire is told to, and goes without a trace. Needs root.

mod lab_support;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use felt::bench::arena::{Arena, ArenaPlan, EndKind};
use felt::bench::{Absent, End, Ends, Ground, Path, Underlay};
use felt::lab::probe::{Amount, Transfer, ping};
use felt::lab::{Interrupt, Lab, LabError, LabPlan, Progress, RegistryKind, Silent, UPLINK};
use felt::sys::netlink::Netlink;
use felt::sys::netns::Netns;
use felt::sys::process::{ProcessFd, Signal};
use lab_support::{namespaces_of, processes_marked};

const PATIENCE: Duration = Duration::from_secs(10);
const STREAM_BYTES: u64 = 4_000_000;
/// Largest payload of a TCP segment on a wire of 1500 bytes.
const SEGMENT_BYTES: u64 = 1460;

fn plan(test: &str, paths: &[Path]) -> ArenaPlan {
    ArenaPlan {
        name: format!("b{}-{test}", std::process::id()),
        paths: paths.to_vec(),
        ..ArenaPlan::new(PathBuf::from(env!("CARGO_BIN_EXE_felt")))
    }
}

fn raise(plan: &ArenaPlan) -> Arena {
    Arena::raise(plan.clone(), &mut Silent, &Interrupt::new()).unwrap()
}

fn v4(end: &End) -> Ipv4Addr {
    let IpAddr::V4(address) = end.address else { panic!("{}", end.address) };
    address
}

fn echoes(from: &End, to: &End) -> bool {
    ping(&from.netns, v4(to), PATIENCE, &Interrupt::new()).unwrap().is_some()
}

/// The namespaces of all labs of an arena.
fn namespaces(plan: &ArenaPlan) -> Vec<String> {
    Path::ALL.iter().flat_map(|path| namespaces_of(&format!("{}-{path}", plan.name).parse().unwrap())).collect()
}

fn is_gone(plan: &ArenaPlan) -> bool {
    let labs = || Path::ALL.map(|path| format!("{}-{path}", plan.name).parse().unwrap());
    let directories = labs().into_iter().filter(|lab| Lab::names().contains(lab)).count();
    namespaces(plan).is_empty() && labs().iter().all(|lab| processes_marked(lab).is_empty()) && directories == 0
}

/// The node that an end is, or is on.
fn node_of(end: &End) -> Netns {
    let name = end.netns.name();
    Netns::open(name.strip_suffix("-pod1").unwrap_or(name)).unwrap()
}

fn uplink_counter(netns: &Netns, column: usize) -> u64 {
    let table = netns.run_in(|| fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
    let counters = table.lines().find_map(|line| line.trim_start().strip_prefix(&format!("{UPLINK}:"))).unwrap();
    counters.split_whitespace().nth(column).unwrap().parse().unwrap()
}

/// How many packets the server's uplink received for a TCP stream from the client, for a hundred segments' worth of bytes.
fn packets_a_hundred_segments(ends: &Ends) -> u64 {
    let node = node_of(&ends.server);
    let before = uplink_counter(&node, 1);
    let amount = Amount::Bytes(STREAM_BYTES);
    let transfer = Transfer::start(&ends.client.netns, &ends.server.netns, v4(&ends.server), amount, PATIENCE).unwrap();
    let bytes = transfer.finish(&Interrupt::new()).unwrap().bytes;
    let packets = uplink_counter(&node, 1) - before;
    100 * packets / (bytes / SEGMENT_BYTES)
}

fn printed(netns: &Netns, argv: &[&str]) -> String {
    let mut command = Command::new(argv[0]);
    netns.place(command.args(&argv[1..])).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Each path joins its ends on either wire, and the kernel's own paths fill the wire as it is told.
fn every_path_carries(plan: &ArenaPlan) {
    let mut arena = raise(plan);
    // There and back, so that each wire is also switched again.
    for underlay in [Underlay::Super, Underlay::Single, Underlay::Super] {
        for path in plan.paths.clone() {
            let ends = arena.ends(underlay, path).unwrap();
            assert!(echoes(&ends.client, &ends.server) && echoes(&ends.server, &ends.client), "{underlay} {path}");
            let is_felt = matches!(path, Path::Felt | Path::FeltPlain);
            assert_eq!(ends.daemons.len(), if is_felt { 2 } else { 0 });
            for pid in &ends.daemons {
                let argv = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
                assert_eq!(argv.split('\0').nth(1), Some("run"));
            }
            let packets = packets_a_hundred_segments(&ends);
            match underlay {
                Underlay::Single => assert!(packets >= 100, "{path}: {packets}"),
                Underlay::Super if is_felt => {}
                Underlay::Super => assert!(packets < 50, "{path}: {packets}"),
            }
        }
    }
    arena.down().unwrap();
    assert!(is_gone(plan));
}

#[test]
fn every_path_carries_between_nodes() {
    every_path_carries(&plan("nodes", &Path::USUAL));
}

#[test]
fn every_path_carries_between_pods() {
    every_path_carries(&ArenaPlan { ends: EndKind::Pods, ..plan("pods", &Path::USUAL) });
}

#[test]
fn the_path_with_policy_carries_what_is_measured_and_nothing_else() {
    let plan = ArenaPlan { ends: EndKind::Pods, policies: 20, ..plan("policy", &[Path::FeltPolicy]) };
    let mut arena = raise(&plan);
    let ends = arena.ends(Underlay::Super, Path::FeltPolicy).unwrap();
    assert_eq!(ends.daemons.len(), 2);
    assert!(packets_a_hundred_segments(&ends) > 0);
    let brief = Duration::from_millis(300);
    for (from, to) in [(&ends.client, &ends.server), (&ends.server, &ends.client)] {
        assert_eq!(ping(&from.netns, v4(to), brief, &Interrupt::new()).unwrap(), None);
    }
    assert_eq!(arena.host().settings["felt-policy"], "20 policies, defaults");
    arena.down().unwrap();
    assert!(is_gone(&plan));

    let between_nodes = ArenaPlan { ends: EndKind::Nodes, ..plan };
    let told = Arena::raise(between_nodes, &mut Silent, &Interrupt::new()).unwrap_err().to_string();
    assert!(told.contains("needs pods at its ends"), "{told}");
}

#[test]
fn pods_have_the_mtu_of_their_path() {
    let plan = ArenaPlan { ends: EndKind::Pods, underlay_mtu: 2000, ..plan("mtu", &Path::USUAL) };
    let mut arena = raise(&plan);
    for (path, mtu) in [(Path::Veth, 2000), (Path::Vxlan, 1950), (Path::Felt, 1972), (Path::FeltPlain, 1972)] {
        let ends = arena.ends(Underlay::Super, path).unwrap();
        for end in [&ends.client, &ends.server] {
            let link = end.netns.run_in(|| Netlink::open().unwrap().link(UPLINK).unwrap()).unwrap();
            assert_eq!(link.mtu, mtu, "{path}");
            assert_eq!(uplink_mtu(&node_of(end)), 2000);
        }
    }
    assert_eq!(arena.host().mtu, 2000);
}

fn uplink_mtu(netns: &Netns) -> u32 {
    netns.run_in(|| Netlink::open().unwrap().link(UPLINK).unwrap().mtu).unwrap()
}

#[test]
fn vxlan_is_programmed_as_flannel_programs_it() {
    let plan = plan("vx", &[Path::Vxlan]);
    let mut arena = raise(&plan);
    let ends = arena.ends(Underlay::Super, Path::Vxlan).unwrap();
    assert_eq!((v4(&ends.client), v4(&ends.server)), (Ipv4Addr::new(10, 98, 1, 0), Ipv4Addr::new(10, 98, 2, 0)));
    let link = printed(&ends.client.netns, &["ip", "-d", "link", "show", "flannel.1"]);
    for shown in ["mtu 1450", "vxlan id 1 local 172.30.1.1 dev eth0", "dstport 8472 nolearning", " udpcsum"] {
        assert!(link.contains(shown), "{shown}: {link}");
    }
    let peer = ends.server.netns.run_in(Netlink::open).unwrap().unwrap();
    let hardware = peer.hardware_address(peer.link("flannel.1").unwrap().index).unwrap().unwrap();
    let shown = |argv: &[&str]| printed(&ends.client.netns, argv).trim().to_owned();
    assert_eq!(shown(&["bridge", "fdb", "show", "dev", "flannel.1"]), format!("{hardware} dst 172.30.1.2 self permanent"));
    assert_eq!(shown(&["ip", "neigh", "show", "dev", "flannel.1"]), format!("10.98.2.0 lladdr {hardware} PERMANENT"));
    assert_eq!(shown(&["ip", "route", "show", "10.98.2.0/24"]), "10.98.2.0/24 via 10.98.2.0 dev flannel.1 onlink");
    let addresses = shown(&["ip", "-4", "-o", "addr", "show", "dev", "flannel.1"]);
    assert!(addresses.contains("inet 10.98.1.0/32 "), "{addresses}");
    assert!(arena.host().settings.get("vxlan").unwrap().contains("vni 1, port 8472"));
}

#[test]
fn only_what_was_asked_for_is_built() {
    let plan = plan("only", &[Path::Veth, Path::Veth]);
    let mut arena = raise(&plan);
    assert_eq!(namespaces(&plan).len(), 3);
    assert!(arena.ends(Underlay::Single, Path::Veth).is_ok());
    assert!(matches!(arena.ends(Underlay::Single, Path::Felt), Err(Absent::Missing(reason)) if reason.contains("not asked for")));
    let settings = arena.host().settings;
    assert!(settings["single"].contains("tx-udp-segmentation off") && settings["ends"] == "node to node");
    assert!(!settings.contains_key("felt"));
    let second = Arena::raise(plan, &mut Silent, &Interrupt::new()).unwrap_err().to_string();
    assert!(second.contains("is under way on this machine"), "{second}");
    assert!(arena.ends(Underlay::Super, Path::Veth).is_ok(), "the refused one took nothing down");
}

#[test]
fn a_dead_daemon_is_told_and_a_bad_option_too() {
    let plan = plan("dead", &[Path::Felt]);
    let mut arena = raise(&plan);
    let ends = arena.ends(Underlay::Super, Path::Felt).unwrap();
    ProcessFd::open(ends.daemons[1]).unwrap().signal(Signal::Kill).unwrap();
    let told = Interrupt::new().wait(PATIENCE, || Ok(arena.ends(Underlay::Super, Path::Felt).err())).unwrap().unwrap();
    assert!(matches!(&told, Absent::Lab(LabError::Process { process, .. }) if process == "node2"), "{told}");
    drop(arena);
    assert!(is_gone(&plan));

    let bad = ArenaPlan { felt_args: vec!["--no-such-option".to_owned()], ..plan };
    let error = Arena::raise(bad.clone(), &mut Silent, &Interrupt::new()).unwrap_err().to_string();
    assert!(error.contains("--no-such-option") && is_gone(&bad), "{error}");
}

#[test]
fn interrupts_panics_and_kills_leave_nothing() {
    struct RaiseAt(usize, Interrupt);
    impl Progress for RaiseAt {
        fn step(&mut self, what: &str) {
            assert!(what.starts_with("veth: ") || what.starts_with("vxlan: "), "{what}");
            self.0 -= 1;
            if self.0 == 0 {
                self.1.raise();
            }
        }
    }
    let plan = plan("gone", &[Path::Veth, Path::Vxlan]);
    // In the middle of the second path.
    let interrupt = Interrupt::new();
    let error = Arena::raise(plan.clone(), &mut RaiseAt(3, interrupt.clone()), &interrupt).unwrap_err();
    assert!(matches!(error, LabError::Interrupted) && is_gone(&plan));

    let panicked = {
        let plan = plan.clone();
        thread::spawn(move || {
            let _arena = raise(&plan);
            assert_eq!(namespaces(&plan).len(), 6);
            std::panic::resume_unwind(Box::new("as wished"));
        })
    };
    assert_eq!(panicked.join().unwrap_err().downcast_ref(), Some(&"as wished"));
    assert!(is_gone(&plan));

    // What a killed process leaves: a lab of that name that nobody takes down.
    let name = format!("{}-{}", plan.name, Path::Felt).parse().unwrap();
    let lab = LabPlan { name, registry: RegistryKind::Absent, nodes: 2, ..LabPlan::new(plan.felt.clone()) };
    drop(Lab::up(lab, &mut Silent, &Interrupt::new()).unwrap());
    assert!(!is_gone(&plan));
    let arena = raise(&plan);
    assert_eq!(namespaces(&plan).len(), 6, "two paths of three namespaces");
    arena.down().unwrap();
    assert!(is_gone(&plan));
}
