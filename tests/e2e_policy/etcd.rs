//! Policy that comes from etcd: how soon a change cuts what it forbids, and what a restart makes of the rest.

use std::time::{Duration, Instant};

use felt::lab::{Interrupt, Lab, Place, PolicyScope, RegistryKind};
use serde_json::Value;

use crate::ground::{closed, lab_on, pods};
use crate::probes::{Probe, connect};
use crate::support::{PATIENCE, eventually, metrics, node, note};
use crate::talk::Talk;

/// How soon a flow has to end after the registry was told; what is asserted leaves room for a busy machine.
const AT_ONCE: Duration = Duration::from_millis(100);
const ROOM: u32 = 3;

/// Puts a policy into the lab's etcd; when the request left.
fn put(lab: &Lab, policy: &Value) -> Instant {
    let endpoint = lab.plan().registry_endpoint().unwrap().to_string();
    let key = format!("/coreos.com/network/policy/networkpolicy/lab/{}", policy["metadata"]["name"].as_str().unwrap());
    let put = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = etcd_client::Client::connect([endpoint], None).await?;
            // A connection is made with the first request.
            client.get("warm", None).await?;
            let left = Instant::now();
            client.put(key, policy.to_string(), None).await.map(|_| left)
        })
    };
    lab.netns(Place::Hub).unwrap().run_in(put).unwrap().unwrap()
}

#[test]
fn a_change_in_etcd_cuts_at_once_what_it_forbids_and_a_restart_nothing() {
    let lab = lab_on(RegistryKind::Etcd, "etcd", PolicyScope::Node, &["--policy-from-registry"]);
    let pods = pods(&lab);
    let [client, neighbour, server, other] = &pods[..] else { panic!("four pods") };
    let talk = |to, patience| Talk::over(connect(client, to, 80).unwrap(), patience);
    // Long enough that a broken connection is not taken for a slow one.
    let (doomed, same_host) = (talk(server, Duration::from_secs(2)), talk(neighbour, Duration::from_secs(2)));
    let spared = talk(other, PATIENCE);
    eventually("they talk", PATIENCE, || [&doomed, &same_host, &spared].iter().all(|talk| talk.so_far() > 20).then_some(()));

    for (name, talk, policy) in
        [("on another node", doomed, closed("node2-pod1")), ("on the same host", same_host, closed("node1-pod2"))]
    {
        let told = put(&lab, &policy);
        eventually("it ends", PATIENCE, || talk.has_ended().then_some(()));
        let took = talk.broke_off().expect("it broke off").saturating_duration_since(told);
        note(&format!("{name}: last answer {took:?} after etcd was told"));
        assert!(took < AT_ONCE * ROOM, "{name}: {took:?}");
    }
    assert!(!Probe::Tcp(80).passes(client, server) && !Probe::Tcp(80).passes(client, neighbour));
    let before = spared.so_far();
    eventually("the allowed one goes on", PATIENCE, || (spared.so_far() > before + 100).then_some(()));

    for number in [1, 2] {
        let victim = lab.node(number).unwrap();
        victim.kill().unwrap();
        victim.start().unwrap();
        victim.wait_ready(&Interrupt::new()).unwrap();
        let before = spared.so_far();
        eventually("it goes on after a restart", PATIENCE, || (spared.so_far() > before + 20).then_some(()));
        let synced = || (metrics(&node(&lab, number)).value("felt_policy_synced") == 1).then_some(());
        eventually("policy is known again", PATIENCE, synced);
        assert!(!Probe::Tcp(80).passes(client, server), "and in force");
    }
    assert_eq!(spared.broke_off(), None, "it lost nothing");
}
