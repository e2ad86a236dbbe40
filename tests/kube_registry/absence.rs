//! An API server that is away for a while: forwarding goes on, little is said, and what changed meanwhile is seen soon.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cluster::Cluster;
use crate::lab::{PATIENCE, eventually, note};

/// Long enough for every watch to have failed and been tried again with its longest pause, many times.
const STAY: Duration = Duration::from_secs(30);
/// How soon everything is known again after the server is ready.
const RELISTED_WITHIN: Duration = Duration::from_secs(2);
const PACE: Duration = Duration::from_millis(50);

#[test]
fn nothing_is_lost_while_it_is_away_and_all_is_known_soon_after() {
    let mut cluster = Cluster::with_objects("away", 2);
    for number in [1, 2] {
        cluster.start(number, &["--v=1"]);
    }
    for number in [1, 2] {
        cluster.wait_ready(number);
        cluster.lab.node(number).unwrap().attach_pods().unwrap();
    }
    let pinger = cluster.pinger(PACE);
    let condition = "condition NetworkUnavailable=False set";
    for number in [1, 2] {
        eventually("all is written", PATIENCE, || cluster.log(number).contains(condition).then_some(()));
    }
    // The server's history moves on without nodes, so that when it is back, it knows nothing of what they were last told.
    cluster.server.create("/api/v1/namespaces", &json!({"metadata": {"name": "unrelated"}}));
    let before: Vec<_> = [1, 2].map(|number| cluster.log(number).len()).into();
    cluster.server.kill();
    thread::sleep(STAY);
    cluster.server.restart();
    let back = Instant::now();
    cluster.create_flannel("late", "10.244.9.0/24", "172.30.1.99");
    for number in [1, 2] {
        eventually("what is new is known", RELISTED_WITHIN * 3, || (cluster.peers(number) == 2).then_some(()));
    }
    note(&format!("{:?} after the server was ready, all nodes knew of a new one", back.elapsed()));
    assert!(back.elapsed() < RELISTED_WITHIN, "{:?}", back.elapsed());
    let report = pinger.stop().unwrap();
    assert_eq!((report.lost(), report.duplicates), (0, 0), "{report:?}");
    for (number, before) in [1, 2].into_iter().zip(before) {
        let log = cluster.log(number);
        let said = &log[before..];
        assert!(said.contains("has forgotten what we know"), "no 410:\n{said}");
        let told = said.lines().filter(|line| !line.contains("DEBUG"));
        let told: Vec<_> =
            told.filter(|line| line.contains("watch") || line.contains("WARN") || line.contains("ERROR")).collect();
        assert_eq!(told.len(), 2, "one line when it is lost, one when it is back:\n{said}");
    }
}
