//! A node's own key deleted by somebody: it comes back at once, under the same subnet.

use std::thread;
use std::time::{Duration, Instant};

use rand::RngExt;

use crate::lab::{eventually, note};
use crate::store::Store;
use crate::{etcd_lab, pinger, subnet};

/// A lease taken away is back so soon.
const BACK_WITHIN: Duration = Duration::from_secs(5);
/// Traffic that may be lost each time, as the time between answered pings.
const GAP: Duration = Duration::from_secs(1);
const PACE: Duration = Duration::from_millis(5);

#[test]
fn a_lease_taken_away_comes_back() {
    let lab = etcd_lab("own-key", 2, &[]);
    let store = Store::of(&lab);
    let node = lab.node(2).unwrap();
    let (own, pid) = (subnet(node), node.pid());
    let pinger = pinger(&lab, 1, 2, PACE);
    let take = |what: &str, take: &dyn Fn()| {
        thread::sleep(rand::rng().random_range(Duration::from_millis(100)..Duration::from_millis(2500)));
        let before = store.lease(own).unwrap();
        let begin = Instant::now();
        take();
        let back = eventually("the key is back", BACK_WITHIN, || store.lease(own));
        note(&format!("own key: {what}, back within {:?}", begin.elapsed()));
        assert!(back.created > before.created && back.value == before.value && back.lease != before.lease, "{back:?}");
    };
    for _ in 0..5 {
        take("key deleted", &|| store.delete(own));
    }
    take("etcd lease revoked", &|| store.revoke(store.lease(own).unwrap().lease));
    let ready = || node.is_ready().then_some(());
    eventually("the node is ready", BACK_WITHIN, ready);
    assert_eq!((subnet(node), node.pid()), (own, pid));
    thread::sleep(Duration::from_millis(500));
    let report = pinger.stop().unwrap();
    note(&format!("own key: {} of {} pings lost, longest gap {:?}", report.lost(), report.sent, report.longest_gap));
    assert!(report.received > 0 && report.longest_gap <= GAP, "{report:?}");
}
