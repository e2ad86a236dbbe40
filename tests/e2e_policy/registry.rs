//! Policies put into the registry of a running network, where every node is behind the registry server.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use felt::lab::{Interrupt, Lab, Place, PolicyScope, RegistryKind};
use serde_json::{Value, json};

use crate::ground::{closed, lab_on, pods};
use crate::probes::{Probe, connect};
use crate::support::{PATIENCE, eventually, metrics, node, note};
use crate::talk::Talk;

/// A second is what is promised; the rest is for a busy machine.
const IN_FORCE: Duration = Duration::from_secs(3);

/// `felt policy …` by hand, on the registry server's own machine.
fn felt_policy(lab: &Lab, words: &[&str], objects: &[Value]) -> String {
    let output = lab.netns(Place::Hub).unwrap().run_in(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_felt"));
        command.env_clear().arg("policy").args(words).args(lab.plan().registry_args());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let _ = child.stdin.take().unwrap().write_all(list.as_bytes());
        child.wait_with_output().unwrap()
    });
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_applied_to_a_running_network_is_in_force_at_once() {
    let lab = lab_on(RegistryKind::Embedded, "registry", PolicyScope::Node, &["--policy-from-registry"]);
    let pods = pods(&lab);
    let [client, neighbour, server, other] = &pods[..] else { panic!("four pods") };
    assert_eq!(metrics(&node(&lab, 1)).value("felt_policy_synced"), 1);
    let talk = |to| Talk::over(connect(client, to, 80).unwrap(), Duration::from_secs(2));
    let (doomed, spared) = (talk(server), talk(other));
    eventually("they talk", PATIENCE, || (doomed.so_far() > 20 && spared.so_far() > 20).then_some(()));

    let said = felt_policy(&lab, &["apply", "-f", "-"], &[closed("node2-pod1"), closed("node1-pod2")]);
    let applied = Instant::now();
    assert_eq!(said, "networkpolicy/lab/node2-pod1 created\nnetworkpolicy/lab/node1-pod2 created\n");
    eventually("it ends", PATIENCE, || doomed.has_ended().then_some(()));
    let last = doomed.broke_off().expect("it broke off");
    note(&format!("last answer {:?} after `felt policy apply` had ended", last.saturating_duration_since(applied)));
    assert!(last < applied + IN_FORCE);
    assert!(!Probe::Tcp(80).passes(client, server) && !Probe::Tcp(80).passes(client, neighbour));

    // Without the server everything stays as it is, and it need not be told anything when it is back.
    lab.registry().stop().unwrap();
    let before = spared.so_far();
    eventually("the allowed one goes on", PATIENCE, || (spared.so_far() > before + 100).then_some(()));
    assert!(!Probe::Tcp(80).passes(client, server));
    lab.registry().start(&Interrupt::new()).unwrap();
    let deleted = felt_policy(&lab, &["delete", "netpol", "node2-pod1", "-n", "lab"], &[]);
    assert_eq!(deleted, "networkpolicy/lab/node2-pod1 deleted\n");
    // Watches come back by themselves, in their own time.
    eventually("it opens", PATIENCE, || Probe::Tcp(80).passes(client, server).then_some(()));
    assert!(!Probe::Tcp(80).passes(client, neighbour), "what was put there before is there still");
    assert!(felt_policy(&lab, &["list"], &[]).contains("node1-pod2"));
    assert_eq!(spared.broke_off(), None, "it never missed an answer");
}
