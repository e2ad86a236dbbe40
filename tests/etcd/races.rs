//! Many nodes at once.

use std::collections::BTreeSet;

use felt::control::registry::{Registry, RegistryError};

use super::*;

#[tokio::test]
async fn of_many_that_create_one_key_one_wins() {
    let (etcd, registry) = start().await;
    let store = registry.store();
    let racers = (1..=10u8).map(|n| {
        let store = store_at(&etcd.url());
        tokio::spawn(async move {
            store.create(&key("10.3.6.0-24"), &LeaseAttrs::udp(Ipv4Addr::new(9, 9, 9, n)), Some(LEASE_TTL)).await.unwrap()
        })
    });
    let mut won = Vec::new();
    for racer in racers.collect::<Vec<_>>() {
        won.extend(racer.await.unwrap());
    }
    assert_eq!(won.len(), 1);
    assert_eq!(store.read(&key("10.3.6.0-24")).await.unwrap().unwrap().attrs, won[0].attrs);
}

/// Starts nodes at once, each with a connection of its own, and returns what they hold.
async fn crowd(etcd: &Etcd, nodes: u8, net: u8) -> BTreeSet<SubnetKey> {
    let nodes = (1..=nodes).map(|n| {
        let registry = registry_at(&etcd.url(), LEASE_TTL);
        let request = request(Ipv4Addr::new(9, 9, net, n), None, None);
        tokio::spawn(async move { registry.acquire(&request).await.expect("every node gets a subnet").subnet })
    });
    let mut held = BTreeSet::new();
    for node in nodes.collect::<Vec<_>>() {
        let subnet = node.await.unwrap();
        assert!(held.insert(subnet), "{subnet} was given twice");
    }
    held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_nodes_share_120_subnets_and_twenty_take_the_rest() {
    let etcd = Etcd::start().await;
    let config = r#"{"Network":"10.3.0.0/16","SubnetMin":"10.3.1.0","SubnetMax":"10.3.120.0"}"#;
    etcd.put("/coreos.com/network/config", config).await;
    let mut held = crowd(&etcd, 100, 1).await;
    held.extend(crowd(&etcd, 20, 2).await);
    assert_eq!(held.len(), 120);
    let stored = etcd.everything().await.into_iter().filter(|(key, _)| key.contains("/subnets/")).count();
    assert_eq!(stored, 120);

    let registry = registry_at(&etcd.url(), LEASE_TTL);
    let error = registry.acquire(&request(OURS, None, None)).await.unwrap_err();
    assert!(matches!(error, RegistryError::OutOfSubnets { .. }), "{error}");
}
