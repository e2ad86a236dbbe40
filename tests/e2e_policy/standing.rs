//! Connections that stand: what changes of policy, restarts and unreadable policies do to them.

use std::time::{Duration, Instant};

use felt::lab::PolicyScope;
use serde_json::json;

use crate::ground::{closed, enforce, lab, pods, policy, write};
use crate::probes::{Probe, connect};
use crate::support::{PATIENCE, eventually, lines, metrics, node, note};
use crate::talk::Talk;

/// R51, with real connections.
#[test]
fn what_a_change_forbids_ends_and_the_rest_goes_on() {
    let lab = lab("change", PolicyScope::Node);
    let pods = pods(&lab);
    let [client, neighbour, server, other] = &pods[..] else { panic!("four pods") };
    // Long enough that a broken connection is not taken for a slow one.
    let patience = Duration::from_secs(2);
    let talk = |to, port| Talk::over(connect(client, to, port).unwrap(), patience);
    let (doomed, same_host, spared) = (talk(server, 80), talk(neighbour, 80), talk(other, 80));
    eventually("they talk", PATIENCE, || [&doomed, &same_host, &spared].iter().all(|talk| talk.so_far() > 20).then_some(()));

    let written = Instant::now();
    enforce(&lab, "change.yaml", &[closed("node2-pod1"), closed("node1-pod2")]);
    let in_force = Instant::now();
    eventually("both end", PATIENCE, || (doomed.has_ended() && same_host.has_ended()).then_some(()));
    for (name, talk) in [("on another node", doomed), ("on the same host", same_host)] {
        let last = talk.broke_off().expect("it broke off");
        note(&format!(
            "{name}: last answer {:?} after the policy was written, {:?} after it was seen to be in force",
            last.saturating_duration_since(written),
            last.saturating_duration_since(in_force)
        ));
        assert!(last < in_force + Duration::from_millis(100));
    }
    assert!(!Probe::Tcp(80).passes(client, server) && !Probe::Tcp(80).passes(client, neighbour));
    let before = spared.so_far();
    eventually("the allowed one goes on", PATIENCE, || (spared.so_far() > before + 100).then_some(()));

    enforce(&lab, "change.yaml", &[]);
    assert!(Probe::Tcp(80).passes(client, server) && Probe::Tcp(80).passes(client, neighbour));
    assert_eq!(spared.broke_off(), None, "it never missed an answer");
    let log = lines(&lab.node(2).unwrap().log()).join("\n");
    let said = |word: &str| log.lines().any(|line| line.contains("flow refused") && line.contains(word));
    assert!(said("node1-pod1") && said("node2-pod1") && said("NetworkPolicy lab/node2-pod1"), "{log}");
}

/// R52, with real connections: nothing is known of them after a restart.
#[test]
fn a_restart_cuts_no_connection_that_is_allowed() {
    for scope in [PolicyScope::Overlay, PolicyScope::Node] {
        let lab = lab("restart", scope);
        let pods = pods(&lab);
        let [client, _, server, stranger] = &pods[..] else { panic!("four pods") };
        // Neither end may be reached by anybody else, nor may the client reach anybody else.
        let app = |pod: &str| json!({"matchLabels": {"app": pod}});
        let to_server = json!({"podSelector": app("node2-pod1"), "ingress": [{"from": [{"podSelector": app("node1-pod1")}], "ports": [{"port": 80}]}]});
        let from_client = json!({
            "podSelector": app("node1-pod1"), "policyTypes": ["Ingress", "Egress"],
            "egress": [{"to": [{"podSelector": app("node2-pod1")}], "ports": [{"port": 80}]}]
        });
        enforce(&lab, "restart.yaml", &[policy("server", &to_server), policy("client", &from_client)]);
        let talk = Talk::over(connect(client, server, 80).unwrap(), PATIENCE);
        eventually("they talk", PATIENCE, || (talk.so_far() > 20).then_some(()));
        for number in [1, 2] {
            let victim = lab.node(number).unwrap();
            victim.kill().unwrap();
            victim.start().unwrap();
            victim.wait_ready(&felt::lab::Interrupt::new()).unwrap();
            let before = talk.so_far();
            eventually("they talk on", PATIENCE, || (talk.so_far() > before + 20).then_some(()));
            assert_eq!(metrics(&node(&lab, number)).value("felt_policy_synced"), 1);
        }
        assert_eq!(talk.broke_off(), None);
        assert!(!Probe::Tcp(80).passes(server, client));
        // The stranger is the server's neighbour.
        assert_eq!(Probe::Tcp(80).passes(stranger, server), scope == PolicyScope::Overlay);
    }
}

#[test]
fn pods_are_closed_until_every_policy_could_be_read() {
    let lab = lab("unsynced", PolicyScope::Node);
    let pods = pods(&lab);
    let [client, neighbour, server, _] = &pods[..] else { panic!("four pods") };
    assert!(Probe::Tcp(80).passes(client, server));
    let node1 = lab.node(1).unwrap();
    node1.stop().unwrap();
    write(&lab, "broken.yaml", "kind: NetworkPolicy\nspec: [");
    node1.start().unwrap();
    node1.wait_ready(&felt::lab::Interrupt::new()).unwrap();
    assert!(!Probe::Tcp(80).passes(client, server) && !Probe::Tcp(80).passes(server, client));
    assert!(!Probe::Tcp(80).passes(client, neighbour));
    let before = metrics(&node(&lab, 1));
    assert_eq!((before.value("felt_policy_synced"), before.dropped("policy_unsynced") > 0), (0, true));
    let log = lines(&node1.log()).join("\n");
    assert!(log.contains("broken.yaml"), "{log}");

    // Node 2 had read everything before, so what it knew stays in force there.
    assert_eq!(metrics(&node(&lab, 2)).value("felt_policy_synced"), 1);
    write(&lab, "broken.yaml", "kind: List\napiVersion: v1\nitems: []");
    eventually("it opens", PATIENCE, || Probe::Tcp(80).passes(client, server).then_some(()));
    assert!(Probe::Tcp(80).passes(client, neighbour) && Probe::Ping.passes(server, client));
}

/// Pods keep the addresses they were given, whatever subnet their node holds later.
#[test]
fn pods_of_a_former_subnet_stay_under_policy_across_a_restart_too() {
    let lab = lab("former", PolicyScope::Node);
    let pods = pods(&lab);
    let [client, neighbour, ..] = &pods[..] else { panic!("four pods") };
    enforce(&lab, "former.yaml", &[closed("node1-pod2")]);
    let is_judged = |when: &str| {
        let synced = || (metrics(&node(&lab, 1)).value("felt_policy_synced") == 1).then_some(());
        eventually("policy is known", PATIENCE, synced);
        let before = metrics(&node(&lab, 1));
        assert!(!Probe::Tcp(80).passes(client, neighbour), "{when}");
        eventually("the other way is open", PATIENCE, || Probe::Tcp(80).passes(neighbour, client).then_some(()));
        let after = metrics(&node(&lab, 1));
        assert!(after.dropped("policy_ingress") > before.dropped("policy_ingress"), "{when}");
        assert!(after.value("felt_sent_back_total") > before.value("felt_sent_back_total"), "{when}");
    };
    is_judged("before");
    let node1 = lab.node(1).unwrap();
    let subnet = || node1.subnet().unwrap().unwrap().subnet.to_string();
    let old = subnet();
    lab.registry().put_config(&MOVED.replace('\'', "\"")).unwrap();
    eventually("the node takes another subnet", PATIENCE, || (subnet() != old && node1.is_ready()).then_some(()));
    is_judged("with another subnet");
    node1.kill().unwrap();
    assert!(!Probe::Tcp(80).passes(neighbour, client), "cut off, not open");
    node1.start().unwrap();
    node1.wait_ready(&felt::lab::Interrupt::new()).unwrap();
    is_judged("after a restart");
    let log = lines(&node1.log()).join("\n");
    assert_eq!(log.matches("this node had other subnets before").count(), 2, "once a run: {log}");
    node1.stop().unwrap();
    assert!(Probe::Tcp(80).passes(client, neighbour), "nothing is left");
}

/// Limits that none of the subnets is within that nodes hold.
const MOVED: &str = "{'Network':'10.99.0.0/16','SubnetMin':'10.99.200.0','SubnetMax':'10.99.220.0','Backend':{'Type':'udp'}}";
