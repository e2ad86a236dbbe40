//! A daemon that ends and starts again under a TCP transfer.

use std::thread;
use std::time::Duration;

use felt::lab::probe::{Amount, Transfer};
use felt::lab::{Interrupt, Node};

use crate::lab::{PATIENCE, eventually, note, pod};
use crate::store::Store;
use crate::{address, etcd_lab, subnet};

/// TCP waits longer with every vain attempt.
const STALL: Duration = Duration::from_secs(30);
const BYTES: u64 = 200_000_000;

/// Ends and starts a daemon a third into a transfer from node 1 to node 2.
fn survives(what: &str, number: u16, end: impl FnOnce(Node<'_>)) {
    let lab = etcd_lab(&format!("restart-{what}"), 2, &[]);
    let store = Store::of(&lab);
    let node = lab.node(number).unwrap();
    let (own, pid) = (subnet(node), node.pid());
    let before = store.lease(own).unwrap();
    let transfer = Transfer::start(&pod(&lab, 1), &pod(&lab, 2), address(&lab, 2), Amount::Bytes(BYTES), STALL).unwrap();
    eventually("the transfer is on its way", PATIENCE, || (transfer.received() > BYTES / 10).then_some(()));
    end(node);
    let at_end = transfer.received();
    thread::sleep(Duration::from_millis(300));
    crate::start(node, &[]);
    let report = transfer.finish(&Interrupt::new()).unwrap();
    note(&format!("restart, {what}: {} bytes in {:?}, {at_end} of them before", report.bytes, report.time));
    assert!(report.bytes >= BYTES && at_end < BYTES, "it ended in the midst: {at_end}");
    let after = store.lease(own).unwrap();
    assert_eq!((after.created, after.value), (before.created, before.value));
    assert!(subnet(node) == own && node.pid() != pid);
}

#[test]
fn a_transfer_survives_a_killed_daemon() {
    survives("killed", 2, |node| node.kill().unwrap());
}

#[test]
fn a_transfer_survives_a_daemon_stopped_in_good_order() {
    survives("stopped", 1, |node| {
        let took = node.stop().unwrap();
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
}
