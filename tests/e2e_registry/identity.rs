//! Who holds which subnet after restarts, wiped stores, and with two nodes of one address.

use std::fs;

use crate::lab::{CONFIG, PATIENCE, eventually, lines};
use crate::store::Store;
use crate::{etcd_lab, require_both_ways, start, subnet};

#[test]
fn a_node_comes_back_to_its_subnet_unless_it_is_taken() {
    let lab = etcd_lab("identity", 2, &[]);
    let store = Store::of(&lab);
    let node = lab.node(1).unwrap();
    let own = subnet(node);

    // The host was rebooted: its file is gone, its lease is there.
    node.stop().unwrap();
    fs::remove_file(node.subnet_file()).unwrap();
    start(node, &[]);
    assert_eq!(subnet(node), own);
    require_both_ways(&lab, 1, 2);

    // The store was wiped: the file is there, the lease is gone. The other node sees its own disappear.
    let other = lab.node(2).unwrap();
    let others = subnet(other);
    node.stop().unwrap();
    store.wipe();
    lab.registry().put_config(CONFIG).unwrap();
    start(node, &[]);
    assert_eq!(subnet(node), own);
    eventually("the other node's lease is back", PATIENCE, || store.lease(others));
    require_both_ways(&lab, 1, 2);

    // Somebody else took the subnet while the node was away.
    node.stop().unwrap();
    store.delete(own);
    store.put(own, "172.30.1.99");
    let theirs = store.lease(own);
    start(node, &[]);
    let new = subnet(node);
    assert_ne!(new, own);
    assert_eq!(store.lease(own), theirs);
    assert!(store.lease(new).unwrap().value.contains("172.30.1.1\""));
    let said = format!("previous subnet {own} is now leased to 172.30.1.99");
    assert!(lines(&node.log()).iter().any(|line| line.contains(&said)), "{said}");
    node.attach_pods().unwrap();
    require_both_ways(&lab, 1, 2);
}

#[test]
fn an_address_announced_by_two_nodes_is_refused_to_the_second() {
    let lab = etcd_lab("duplicate", 2, &[]);
    let store = Store::of(&lab);
    let [first, second] = [1, 2].map(|number| lab.node(number).unwrap());
    let held = store.lease(subnet(first)).unwrap();
    let own = subnet(second);
    second.stop().unwrap();
    let before = lines(&second.log()).len();
    second.start_with(&["--public-ip".to_owned(), "172.30.1.1".to_owned()]).unwrap();
    let refusals = || -> Vec<String> {
        lines(&second.log())[before..].iter().filter(|line| line.contains("announced by another node")).cloned().collect()
    };
    eventually("the second node is refused", PATIENCE, || (!refusals().is_empty()).then_some(()));
    // It goes on trying, and says so once.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(refusals().len() == 1 && refusals()[0].contains("--public-ip"), "{:?}", refusals());
    assert!(second.pid().is_some() && !second.is_ready() && first.is_ready());
    assert_eq!(store.lease(subnet(first)), Some(held));

    second.stop().unwrap();
    start(second, &[]);
    assert_eq!(subnet(second), own);
    require_both_ways(&lab, 1, 2);
}
