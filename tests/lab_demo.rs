//! The demo, and labs with real daemons: what a person sees, what is left behind, and what a fault looks like.

mod lab_support;

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use felt::lab::probe::ping;
use felt::lab::{EphemeralLab, Interrupt, LabError, LabName, LabPlan, Place, RegistryKind, Silent, Stage, demo, down};
use felt::sys::process::{ProcessFd, Signal};
use lab_support::{namespaces_of, plan, processes_marked};

fn show(plan: LabPlan, interrupt: &Interrupt) -> (Result<(), LabError>, String) {
    let mut out = Vec::new();
    let result = demo(plan, &mut Stage::new(&mut out, false), interrupt);
    (result, String::from_utf8(out).unwrap())
}

fn assert_nothing_left(lab: &LabName) {
    assert!(namespaces_of(lab).is_empty() && processes_marked(lab).is_empty());
    assert!(!std::path::Path::new(felt::lab::ROOT).join(lab.as_str()).exists());
}

#[test]
fn the_demo_shows_what_it_says_on_the_embedded_registry() {
    let plan = plan("demo");
    let name = plan.name.clone();
    let (result, shown) = show(plan, &Interrupt::new());
    assert!(result.is_ok() && !shown.contains('✗'), "{result:?}\n{shown}");
    for line in [
        "30 of 30 pings answered",
        "with the same lease",
        "the same connection went on",
        "a policy that lets nothing into any pod of namespace lab is in force",
        "node1-pod1 cannot connect to node2-pod1, and none of 6 pings is answered",
        "node2 says why in its log:\n   flow refused",
        "node1-pod1 to connect to port web of node2-pod1: it does",
        "node1-pod1 gets to port 80 and not to 8080, node3-pod2 not to 80, no ping is answered",
        "6 of 6 pings are answered, everything is as before",
        "nothing is left",
    ] {
        assert!(shown.contains(line), "no `{line}` in\n{shown}");
    }
    assert_nothing_left(&name);
}

#[test]
fn the_demo_runs_on_etcd() {
    let plan = LabPlan { registry: RegistryKind::Etcd, nodes: 2, pods_per_node: 1, ..plan("demo-etcd") };
    let name = plan.name.clone();
    let (result, shown) = show(plan, &Interrupt::new());
    assert!(result.is_ok(), "{result:?}\n{shown}");
    assert!(shown.contains("etcd, 172.30.0.1:2379") && shown.contains("All of it held"), "{shown}");
    assert!(shown.contains("gets to port 80 and not to 8080, no ping"), "{shown}");
    assert_nothing_left(&name);
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let plan = LabPlan { nodes: 2, pods_per_node: 1, ..plan("demo-int") };
    let (name, interrupt) = (plan.name.clone(), Interrupt::new());
    let raiser = thread::spawn({
        let (name, interrupt) = (name.clone(), interrupt.clone());
        move || {
            // Once daemons run, so that there is something to leave behind.
            let up = Interrupt::new().wait(Duration::from_mins(1), || Ok((processes_marked(&name).len() > 2).then_some(())));
            interrupt.raise();
            up.unwrap().is_some()
        }
    });
    let (result, shown) = show(plan, &interrupt);
    assert!(raiser.join().unwrap());
    assert!(matches!(result, Err(LabError::Interrupted)) && shown.contains("✗"), "{result:?}\n{shown}");
    assert_nothing_left(&name);
}

#[test]
fn a_daemon_that_does_not_start_is_shown_with_its_log() {
    let plan = LabPlan { run_args: vec!["--no-such-flag".to_owned()], nodes: 1, ..plan("bad-flag") };
    let name = plan.name.clone();
    let error = EphemeralLab::up(plan, &mut Silent, &Interrupt::new()).unwrap_err();
    let LabError::Process { process, log, .. } = &error else { panic!("{error}") };
    assert!(process == "node1" && log.contains("no-such-flag"), "{error}");
    assert_nothing_left(&name);
}

#[test]
fn a_stopped_node_comes_back_and_its_pods_with_it() {
    let plan = LabPlan { nodes: 2, pods_per_node: 1, ..plan("stop") };
    let lab = EphemeralLab::up(plan, &mut Silent, &Interrupt::new()).unwrap();
    let node = lab.node(2).unwrap();
    let before = node.subnet().unwrap();
    assert!(before.is_some() && node.tun().unwrap().is_some());
    let took = node.stop().unwrap();
    assert!(node.pid().is_none() && took < Duration::from_secs(5), "{took:?}");
    assert!(!node.is_ready() && matches!(node.kill(), Err(LabError::Process { .. })));
    node.start().unwrap();
    assert!(matches!(node.start(), Err(LabError::Process { reason, .. }) if reason.contains("already")));
    node.wait_ready(&Interrupt::new()).unwrap();
    assert_eq!(node.subnet().unwrap(), before);
    let (from, to) = (lab.netns(Place::Pod { node: 1, pod: 1 }).unwrap(), lab.address(Place::Pod { node: 2, pod: 1 }).unwrap());
    let answered = Interrupt::new()
        .wait(Duration::from_secs(10), || ping(&from, to, Duration::from_millis(200), &Interrupt::new()))
        .unwrap();
    assert!(answered.is_some());
}

/// Begins `felt lab up` for `nodes` nodes and returns once `count` of its processes run.
fn begin_up(lab: &LabName, nodes: u16, count: usize) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_felt"));
    command.args(["lab", "up", "--pods", "1", "--name", lab.as_str(), "--nodes", &nodes.to_string()]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let runs =
        Interrupt::new().wait(Duration::from_mins(1), || Ok((processes_marked(lab).len() >= count).then_some(()))).unwrap();
    assert!(runs.is_some(), "no process of {lab} after a minute");
    child
}

#[test]
fn ctrl_c_takes_a_half_built_lab_down() {
    let name = plan("ctrl-c").name;
    let child = begin_up(&name, 20, 1);
    ProcessFd::open(child.id()).unwrap().signal(Signal::Interrupt).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("interrupted"), "{said}");
    assert_nothing_left(&name);
}

#[test]
fn down_finds_what_a_killed_builder_left() {
    let name = plan("killed").name;
    let mut child = begin_up(&name, 20, 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let removed = down(&name).unwrap();
    assert!(removed.processes >= 3 && removed.namespaces > 3 && removed.directory, "{removed:?}");
    assert_nothing_left(&name);
}
