//! A node cut off or halted for longer than its lease lasts, whose subnet another node takes meanwhile.

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use felt::lab::{Interrupt, Node};

use crate::lab::{eventually, netlink, node, note};
use crate::store::Store;
use crate::{etcd_lab, require_both_ways, subnet};

#[test]
fn a_subnet_taken_during_a_partition_stays_taken() {
    stays_taken("partition", |node| node.cut().unwrap(), |node| node.heal().unwrap());
}

#[test]
fn a_subnet_taken_while_its_daemon_was_frozen_stays_taken() {
    stays_taken("froze", |node| node.freeze().unwrap(), |node| node.thaw().unwrap());
}

fn stays_taken(test: &str, leave: impl FnOnce(Node<'_>), come_back: impl FnOnce(Node<'_>)) {
    let lab = etcd_lab(test, 3, &["--lease-ttl", "6"]);
    let store = Store::of(&lab);
    let [cut_off, _, heir] = [1, 2, 3].map(|number| lab.node(number).unwrap());
    let contested = subnet(cut_off);
    heir.stop().unwrap();
    store.delete(subnet(heir));

    leave(cut_off);
    eventually("the lease ends", Duration::from_secs(20), || store.lease(contested).is_none().then_some(()));
    fs::copy(cut_off.subnet_file(), heir.subnet_file()).unwrap();
    crate::start(heir, &[]);
    assert_eq!(subnet(heir), contested);
    heir.attach_pods().unwrap();
    require_both_ways(&lab, 2, 3);
    let taken = store.lease(contested).unwrap();
    assert!(taken.value.contains("172.30.1.3"), "{taken:?}");

    let healed = std::time::Instant::now();
    come_back(cut_off);
    let moved = || (subnet(cut_off) != contested && cut_off.is_ready()).then(|| subnet(cut_off));
    let own = eventually("the first node takes another subnet", Duration::from_secs(30), moved);
    note(&format!("{test}: the first node holds another subnet {:?} after its return", healed.elapsed()));
    cut_off.attach_pods().unwrap();
    require_both_ways(&lab, 1, 2);
    require_both_ways(&lab, 1, 3);
    require_both_ways(&lab, 2, 3);

    // The device has the new address, and only that.
    let first = netlink(&node(&lab, 1));
    let tun = first.link(&cut_off.tun().unwrap().unwrap()).unwrap();
    let mut addresses = first.addresses().unwrap();
    addresses.retain(|entry| entry.device == tun.index && entry.address.is_ipv4());
    let addresses: Vec<IpAddr> = addresses.iter().map(|entry| entry.address.ip()).collect();
    assert_eq!(addresses, [IpAddr::from(own.base())]);
    let log = fs::read_to_string(cut_off.log()).unwrap();
    assert!(log.contains("the lease ran out") && log.contains("this node holds another subnet now"), "{log}");

    // Nobody but the heir has written its key, and it wrote the same bytes each time.
    let held = eventually("the heir renews", Duration::from_secs(10), || {
        store.lease(contested).filter(|lease| lease.modified > taken.modified)
    });
    assert_eq!((held.created, &held.value), (taken.created, &taken.value));
    let history = store.history(contested, taken.created);
    assert!(history.len() >= 2 && history.iter().all(|value| value.as_ref() == Some(&taken.value)), "{history:?}");
    assert!(lab.node(1).unwrap().wait_ready(&Interrupt::new()).is_ok());
}
