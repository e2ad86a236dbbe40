//! Labs without daemons: namespaces, links, addresses, probes, and that nothing of them is left.

mod lab_support;

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use felt::lab::probe::{Amount, Pinger, Transfer, ping};
use felt::lab::{EphemeralLab, HUB_ADDRESS, Interrupt, Lab, LabError, LabPlan, Place, Progress, RegistryKind, Silent, down};
use felt::sys::netns::Netns;
use lab_support::{namespaces_of, plan, processes_marked};

const PATIENCE: Duration = Duration::from_secs(3);

fn bare(test: &str) -> LabPlan {
    LabPlan { registry: RegistryKind::Absent, nodes: 2, pods_per_node: 2, ..plan(test) }
}

fn up(plan: LabPlan) -> EphemeralLab {
    EphemeralLab::up(plan, &mut Silent, &Interrupt::new()).unwrap()
}

fn pod(node: u16, pod: u16) -> Place {
    Place::Pod { node, pod }
}

fn argv(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn answers(lab: &Lab, from: Place, to: Ipv4Addr) -> bool {
    ping(&lab.netns(from).unwrap(), to, PATIENCE, &Interrupt::new()).unwrap().is_some()
}

#[test]
fn every_place_reaches_every_pod() {
    let lab = up(bare("reach"));
    let places: Vec<Place> = lab.nodes().map(|node| node.place()).chain(lab.pods()).collect();
    for from in &places {
        for to in lab.pods() {
            assert!(answers(&lab, *from, lab.address(to).unwrap()), "{from} to {to}");
        }
    }
    // The underlay joins nodes and hub, and nobody answers for an address that no pod has.
    assert!(answers(&lab, Place::Node(1), lab.address(Place::Node(2)).unwrap()));
    assert!(answers(&lab, Place::Node(1), HUB_ADDRESS));
    let nobody = Ipv4Addr::new(10, 99, 1, 77);
    assert_eq!(ping(&lab.netns(pod(2, 1)).unwrap(), nobody, Duration::from_millis(300), &Interrupt::new()).unwrap(), None);
}

#[test]
fn a_lab_shows_its_addresses_and_namespaces() {
    let lab = up(bare("status"));
    let status = lab.status().unwrap();
    assert!(status.complete && status.registry.pid.is_none() && status.nodes.len() == 2);
    let node = &status.nodes[1];
    assert_eq!((node.name.as_str(), node.underlay), ("node2", Ipv4Addr::new(172, 30, 1, 2)));
    assert_eq!(node.lease.as_ref().unwrap().subnet.to_string(), "10.99.2.0/24");
    assert_eq!(node.pods[1].address, Some(Ipv4Addr::new(10, 99, 2, 3)));
    assert_eq!(node.pods[1].namespace, format!("{}-node2-pod2", lab.plan().name));
    // Whoever opens the lab later sees the same; so do programs.
    assert_eq!(Lab::open(&lab.plan().name).unwrap().status().unwrap(), status);
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["nodes"][1]["lease"]["subnet"], "10.99.2.0/24");
}

#[test]
fn a_cut_cable_takes_a_node_off_and_a_healed_one_brings_it_back() {
    let lab = up(bare("cable"));
    let far = lab.address(pod(2, 1)).unwrap();
    let pinger = Pinger::start(&lab.netns(pod(1, 1)).unwrap(), far, Duration::from_millis(10)).unwrap();
    thread::sleep(Duration::from_millis(200));
    lab.node(2).unwrap().cut().unwrap();
    thread::sleep(Duration::from_millis(400));
    let (_, before) = pinger.so_far();
    lab.node(2).unwrap().heal().unwrap();
    let resumed = Interrupt::new().wait(PATIENCE, || Ok((pinger.so_far().1 > before).then_some(()))).unwrap();
    assert!(resumed.is_some());
    let report = pinger.stop().unwrap();
    assert!(report.received > 0 && report.lost() > 0 && report.duplicates == 0, "{report:?}");
    assert!(report.longest_gap >= Duration::from_millis(200), "{report:?}");
}

#[test]
fn a_transfer_is_whole_or_says_that_it_is_not() {
    let lab = up(bare("transfer"));
    let (from, to) = (lab.netns(pod(1, 1)).unwrap(), lab.netns(pod(2, 2)).unwrap());
    let address = lab.address(pod(2, 2)).unwrap();
    let start = |amount, stall| Transfer::start(&from, &to, address, amount, stall).unwrap();
    let report = start(Amount::Bytes(3_000_000), PATIENCE).finish(&Interrupt::new()).unwrap();
    assert!((3_000_000..3_100_000).contains(&report.bytes) && report.bits_per_second() > 0.0);
    let timed = start(Amount::Time(Duration::from_millis(300)), PATIENCE).finish(&Interrupt::new()).unwrap();
    assert!(timed.bytes > 0 && timed.time >= Duration::from_millis(300));

    let endless = start(Amount::Time(Duration::from_hours(1)), Duration::from_millis(500));
    let moves = Interrupt::new().wait(PATIENCE, || Ok((endless.received() > 0).then_some(()))).unwrap();
    assert!(moves.is_some());
    lab.node(2).unwrap().cut().unwrap();
    let error = endless.finish(&Interrupt::new()).unwrap_err().to_string();
    assert!(error.contains("nothing moved for 500ms"), "{error}");
}

#[test]
fn programs_run_in_places_and_their_exit_codes_come_back() {
    let lab = up(bare("exec"));
    let sh = |script: &str| argv(&["sh", "-c", script]);
    assert_eq!(lab.exec(pod(1, 1), &argv(&["true"])).unwrap(), 0);
    assert_eq!(lab.exec(Place::Node(2), &sh("exit 42")).unwrap(), 42);
    assert_eq!(lab.exec(Place::Hub, &sh("kill -KILL $$")).unwrap(), 128 + 9);
    let output = lab.output(pod(1, 2), &sh("cat /proc/net/fib_trie; echo $FELT_LAB")).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("10.99.1.3") && printed.trim_end().ends_with(lab.plan().name.as_str()), "{printed}");

    let absent = lab.exec(Place::Node(2), &argv(&["/nowhere/prog"])).unwrap_err();
    assert!(matches!(&absent, LabError::Exec { program, .. } if program == "/nowhere/prog"));
    let unknown = lab.exec(pod(3, 1), &argv(&["true"])).unwrap_err().to_string();
    assert!(unknown.contains("has no node3-pod1") && unknown.contains("node1 to node2, pod1 to pod2"), "{unknown}");
}

#[test]
fn down_leaves_nothing_and_may_be_repeated() {
    let lab = Lab::up(bare("down"), &mut Silent, &Interrupt::new()).unwrap();
    let (name, directory) = (lab.plan().name.clone(), lab.directory());
    assert_eq!(namespaces_of(&name).len(), 1 + 2 + 4);
    let taken = EphemeralLab::up(bare("down"), &mut Silent, &Interrupt::new()).unwrap_err().to_string();
    assert!(taken.contains(&format!("`felt lab down --name {name}`")), "{taken}");
    assert_eq!(namespaces_of(&name).len(), 7, "the refused one took nothing down");

    // What somebody runs in it ends with it, also if it takes no notice of SIGTERM or is frozen.
    let netns = lab.netns(Place::Node(1)).unwrap();
    let mut stubborn = lab_support::spawn_in(&lab, Place::Node(1), "trap '' TERM; while :; do sleep 0.1; done");
    let mut frozen = lab_support::spawn_in(&lab, pod(1, 1), "kill -STOP $$");
    let settled = Interrupt::new().wait(PATIENCE, || Ok((netns.processes().unwrap().len() >= 2).then_some(())));
    assert!(settled.unwrap().is_some());
    drop(lab);
    let reaper = thread::spawn(move || (stubborn.wait().unwrap(), frozen.wait().unwrap()));
    let removed = down(&name).unwrap();
    assert!(removed.processes >= 2 && removed.namespaces == 7 && removed.directory, "{removed:?}");
    let (stubborn, frozen) = reaper.join().unwrap();
    assert!(!stubborn.success() && !frozen.success());
    assert!(namespaces_of(&name).is_empty() && processes_marked(&name).is_empty() && !directory.exists());
    assert!(down(&name).unwrap().is_nothing());
    assert!(matches!(Lab::open(&name), Err(LabError::Absent { .. })));
}

#[test]
fn remains_without_a_record_are_refused_and_then_removed() {
    let lab = Lab::up(bare("remains"), &mut Silent, &Interrupt::new()).unwrap();
    let name = lab.plan().name.clone();
    fs::remove_dir_all(lab.directory()).unwrap();
    drop(lab);
    let error = EphemeralLab::up(bare("remains"), &mut Silent, &Interrupt::new()).unwrap_err();
    assert!(matches!(&error, LabError::Exists { found, .. } if found.contains("network namespace")), "{error}");
    let removed = down(&name).unwrap();
    assert!(removed.namespaces == 7 && !removed.directory);
    assert!(namespaces_of(&name).is_empty());
}

#[test]
fn a_record_of_another_version_is_refused_and_no_obstacle_to_removal() {
    let lab = Lab::up(LabPlan { nodes: 1, pods_per_node: 0, ..bare("version") }, &mut Silent, &Interrupt::new()).unwrap();
    let (name, record) = (lab.plan().name.clone(), lab.directory().join("state.json"));
    drop(lab);
    let text = fs::read_to_string(&record).unwrap();
    for (content, told) in [(text.replacen("\"version\": 1", "\"version\": 9", 1), "version 1, found 9"), ("{".to_owned(), "EOF")]
    {
        fs::write(&record, content).unwrap();
        let error = Lab::open(&name).unwrap_err();
        assert!(matches!(&error, LabError::BadState { reason, .. } if reason.contains(told)), "{error}");
    }
    let removed = down(&name).unwrap();
    assert!(removed.namespaces == 2 && removed.directory && namespaces_of(&name).is_empty());
}

#[test]
fn a_lab_that_fails_half_way_is_gone_again() {
    // Namespaces and links are made, then the registry ends at once.
    let plan = LabPlan { registry: RegistryKind::Embedded, felt: "/bin/false".into(), ..bare("half") };
    let error = EphemeralLab::up(plan.clone(), &mut Silent, &Interrupt::new()).unwrap_err();
    assert!(matches!(&error, LabError::Process { process, .. } if process == "registry"), "{error}");
    assert!(namespaces_of(&plan.name).is_empty() && !Path::new(felt::lab::ROOT).join(plan.name.as_str()).exists());
}

#[test]
fn an_interrupt_and_a_panic_take_the_lab_down() {
    struct RaiseAt(usize, Interrupt);
    impl Progress for RaiseAt {
        fn step(&mut self, _what: &str) {
            self.0 = self.0.saturating_sub(1);
            if self.0 == 0 {
                self.1.raise();
            }
        }
    }
    let interrupt = Interrupt::new();
    let name = bare("interrupt").name;
    let error = EphemeralLab::up(bare("interrupt"), &mut RaiseAt(2, interrupt.clone()), &interrupt).unwrap_err();
    assert!(matches!(error, LabError::Interrupted) && namespaces_of(&name).is_empty());

    let panicked = thread::spawn(|| {
        let _lab = up(bare("interrupt"));
        assert!(!namespaces_of(&bare("interrupt").name).is_empty());
        std::panic::resume_unwind(Box::new("as wished"));
    });
    assert_eq!(panicked.join().unwrap_err().downcast_ref(), Some(&"as wished"));
    assert!(namespaces_of(&name).is_empty());
}

#[test]
fn labs_side_by_side_do_not_touch() {
    let (one, two) = thread::scope(|scope| {
        let one = scope.spawn(|| up(bare("side")));
        let two = scope.spawn(|| up(bare("side-node1")));
        (one.join().unwrap(), two.join().unwrap())
    });
    // Same addresses, other wires: each answers within its own lab only.
    two.node(2).unwrap().cut().unwrap();
    let far = one.address(pod(2, 1)).unwrap();
    assert_eq!(far, two.address(pod(2, 1)).unwrap());
    assert!(answers(&one, pod(1, 1), far));
    assert_eq!(ping(&two.netns(pod(1, 1)).unwrap(), far, Duration::from_millis(300), &Interrupt::new()).unwrap(), None);
    let survivors = namespaces_of(&two.plan().name);
    one.down().unwrap();
    assert_eq!(namespaces_of(&two.plan().name), survivors);
}

#[test]
fn pods_move_to_a_new_subnet_when_attached_again() {
    let lab = up(bare("again"));
    lab.node(1).unwrap().attach_pods().unwrap();
    assert!(answers(&lab, pod(2, 1), lab.address(pod(1, 2)).unwrap()));
}

#[test]
fn the_machines_own_network_is_left_alone() {
    let own = Netns::current().unwrap();
    let links = || -> Vec<String> {
        let netlink = own.run_in(felt::sys::netlink::Netlink::open).unwrap().unwrap();
        netlink.links().unwrap().into_iter().map(|link| link.name).collect()
    };
    let before = links();
    let lab = up(bare("own"));
    assert_eq!(links(), before);
    lab.down().unwrap();
    assert_eq!(links(), before);
}
