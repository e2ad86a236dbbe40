//! Our client against our server: flannel's "Remote" cases (flannel.md §15.1) and more.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use felt::control::registry::embedded::EmbeddedStore;
use felt::control::registry::remote::RemoteRegistry;
use felt::control::registry::{
    AcquireRequest, LEASE_TTL, Registry, RegistryAdmin, RegistryError, Renewal, Reservation, StoreRegistry,
};
use felt::control::tls::TlsFiles;
use felt::lease::{Change, LeaseAttrs, LeaseEvent, NetworkConfig, SubnetKey, Update};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use crate::support::{CONFIG, LONG, Running, memory, node};

fn client(server: &Running) -> RemoteRegistry {
    RemoteRegistry::new(&server.address.to_string(), &TlsFiles::default()).unwrap()
}

async fn next(watch: &mut Receiver<Update>) -> Change {
    timeout(LONG, watch.recv()).await.unwrap().unwrap().change
}

#[tokio::test]
async fn flannels_remote_cases() {
    let server = Running::in_memory().await;
    let remote = client(&server);
    let config = NetworkConfig::parse(&remote.config().await.unwrap()).unwrap();
    assert_eq!(config.ipv4.unwrap().network.to_string(), "10.1.0.0/16");

    let lease = remote.acquire(&node(1)).await.unwrap();
    assert!(config.ipv4.unwrap().admits(&lease.subnet.v4));
    assert!(lease.ttl.unwrap() <= LEASE_TTL && lease.ttl.unwrap() > Duration::from_hours(23));
    let Renewal::Renewed(renewed) = remote.renew(&lease, &lease.attrs).await.unwrap() else { panic!("lost") };
    assert_eq!((renewed.subnet, &renewed.attrs), (lease.subnet, &lease.attrs));

    let mut watch = remote.watch_leases().await;
    let Change::Snapshot(snapshot) = next(&mut watch).await else { panic!("no snapshot") };
    assert_eq!(snapshot.iter().map(|lease| lease.subnet).collect::<Vec<_>>(), [lease.subnet]);
    server.until_waiting(1).await;
    let other = remote.acquire(&node(2)).await.unwrap();
    let Change::Events(events) = next(&mut watch).await else { panic!("no events") };
    let [LeaseEvent::Added(added)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((added.subnet, &added.attrs), (other.subnet, &other.attrs));

    server.until_waiting(1).await;
    remote.revoke(&lease.subnet).await.unwrap();
    assert_eq!(next(&mut watch).await, Change::Events(vec![LeaseEvent::Removed(lease.subnet)]));
    remote.revoke(&lease.subnet).await.unwrap();
    assert_eq!(remote.renew(&lease, &lease.attrs).await.unwrap(), Renewal::Lost);
    drop(watch);
    server.until_waiting(0).await;
}

#[tokio::test]
async fn what_a_node_asks_for_reaches_the_rules() {
    let server = Running::in_memory().await;
    let remote = client(&server);
    let previous = Some("10.1.77.0/24".parse().unwrap());
    let asked = AcquireRequest { previous, node: Some("machine one".into()), ..node(1) };
    assert_eq!(remote.acquire(&asked).await.unwrap().subnet.to_string(), "10.1.77.0-24");
    assert_eq!(remote.acquire(&asked).await.unwrap().subnet.to_string(), "10.1.77.0-24", "again");
    let imposter = AcquireRequest { node: Some("machine two".into()), ..node(1) };
    let error = remote.acquire(&imposter).await.unwrap_err();
    let RegistryError::DuplicatePublicIp { public_ip, other, .. } = error else { panic!("{error}") };
    assert_eq!((public_ip, other.as_str()), (Ipv4Addr::new(192, 0, 2, 1), "machine one"));
}

#[tokio::test]
async fn vxlan_data_survives_renewal() {
    let server = Running::in_memory().await;
    let remote = client(&server);
    let attrs: LeaseAttrs =
        serde_json::from_str(r#"{"PublicIP":"1.2.3.4","BackendType":"vxlan","BackendData":{"VtepMAC":"c6:d2:32:6f:8f:44"}}"#)
            .unwrap();
    let lease = remote.acquire(&AcquireRequest { attrs: attrs.clone(), ..node(1) }).await.unwrap();
    for _ in 0..3 {
        let Renewal::Renewed(renewed) = remote.renew(&lease, &lease.attrs).await.unwrap() else { panic!("lost") };
        assert_eq!(renewed.attrs, attrs);
    }
    assert_eq!(remote.lease(&lease.subnet).await.unwrap().unwrap().attrs, attrs);
}

#[tokio::test]
async fn a_node_takes_its_lease_along_to_another_address() {
    let server = Running::in_memory().await;
    let remote = client(&server);
    let lease = remote.acquire(&node(1)).await.unwrap();
    for attrs in [node(2).attrs, node(2).attrs, node(3).attrs] {
        let known = remote.lease(&lease.subnet).await.unwrap().unwrap();
        let Renewal::Renewed(moved) = remote.renew(&known, &attrs).await.unwrap() else { panic!("lost") };
        assert_eq!((moved.subnet, &moved.attrs), (lease.subnet, &attrs));
        assert_eq!(remote.lease(&lease.subnet).await.unwrap().unwrap().attrs, attrs);
    }
    assert_eq!(remote.renew(&lease, &node(4).attrs).await.unwrap(), Renewal::Lost, "it knows neither address there");
}

#[tokio::test]
async fn reservations_by_hand() {
    let server = Running::in_memory().await;
    let remote = client(&server);
    let reservation =
        |subnet: &str, last| Reservation { subnet: subnet.parse().unwrap(), public_ip: Ipv4Addr::new(192, 0, 2, last) };
    assert!(remote.reserve(&reservation("10.2.1.0-24", 1)).await.is_err(), "outside the network");
    let kept = reservation("10.1.10.0-24", 1);
    remote.reserve(&kept).await.unwrap();
    remote.reserve(&kept).await.unwrap();
    assert!(matches!(remote.reserve(&reservation("10.1.10.0-24", 2)).await, Err(RegistryError::Taken { .. })));
    let lease = remote.acquire(&node(1)).await.unwrap();
    assert_eq!((lease.subnet, lease.ttl), (kept.subnet, None));
    assert_eq!(remote.renew(&lease, &lease.attrs).await.unwrap(), Renewal::Renewed(lease.clone()));
    assert_eq!(remote.reservations().await.unwrap(), std::slice::from_ref(&kept));
    assert!(remote.unreserve(&kept.subnet).await.unwrap());
    assert!(!remote.unreserve(&kept.subnet).await.unwrap());
    assert!(remote.lease(&kept.subnet).await.unwrap().unwrap().ttl.is_some());
}

#[tokio::test]
async fn fifty_at_once_get_fifty_subnets() {
    let server = Running::start(memory(r#"{"Network":"10.1.0.0/16","SubnetMax":"10.1.60.0"}"#).await, "127.0.0.1:0", None).await;
    let remote = client(&server);
    let all = (1..=50).map(|last| {
        let remote = remote.clone();
        tokio::spawn(async move { remote.acquire(&node(last)).await })
    });
    let mut subnets = HashSet::new();
    for acquired in all.collect::<Vec<_>>() {
        assert!(subnets.insert(timeout(LONG, acquired).await.unwrap().unwrap().unwrap().subnet), "given out twice");
    }
    assert_eq!(remote.leases().await.unwrap().len(), 50);
}

#[tokio::test]
async fn errors_keep_their_kind_across_the_wire() {
    let small = memory(r#"{"Network":"10.1.0.0/28","SubnetLen":30,"SubnetMin":"10.1.0.4","SubnetMax":"10.1.0.4"}"#).await;
    let server = Running::start(small, "127.0.0.1:0", None).await;
    let remote = client(&server);
    remote.acquire(&node(1)).await.unwrap();
    let error = remote.acquire(&node(2)).await.unwrap_err();
    assert!(matches!(error, RegistryError::OutOfSubnets { .. }), "{error}");

    let empty = Arc::new(StoreRegistry::with_default_ttl(EmbeddedStore::in_memory().unwrap()));
    let server = Running::start(empty, "127.0.0.1:0", None).await;
    let remote = client(&server);
    let error = remote.config().await.unwrap_err();
    assert!(matches!(error, RegistryError::NoConfig { .. }), "{error}");
    remote.put_config(CONFIG).await.unwrap();
    assert!(remote.config().await.unwrap().starts_with(r#"{"Network":"10.1.0.0/16","#));

    let address = server.address;
    server.stop().await;
    let error = remote.config().await.unwrap_err();
    assert!(error.is_unreachable() && error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn the_config_is_seen_when_it_comes() {
    let server = Running::in_memory().await;
    let mut watch = client(&server).watch_config().await;
    let text = timeout(LONG, watch.recv()).await.unwrap().unwrap();
    assert!(text.contains("10.1.0.0/16"), "{text}");
}

#[tokio::test]
async fn a_restart_with_the_file_loses_nothing_and_watches_recover() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let open = async || Arc::new(StoreRegistry::with_default_ttl(EmbeddedStore::open(&path).await.unwrap()));
    let registry = open().await;
    registry.put_config(CONFIG).await.unwrap();
    let server = Running::start(registry, "127.0.0.1:0", None).await;
    let remote = client(&server);
    let one = remote.acquire(&node(1)).await.unwrap();
    let mut watch = remote.watch_leases().await;
    assert!(matches!(next(&mut watch).await, Change::Snapshot(leases) if leases.len() == 1));
    let at = server.address.to_string();
    server.stop().await;
    assert!(remote.renew(&one, &one.attrs).await.unwrap_err().is_unreachable());

    let server = Running::start(open().await, &at, None).await;
    let Change::Snapshot(leases) = next(&mut watch).await else { panic!("no snapshot") };
    assert_eq!(leases.iter().map(|lease| (lease.subnet, &lease.attrs)).collect::<Vec<_>>(), [(one.subnet, &one.attrs)]);
    assert!(matches!(remote.renew(&one, &one.attrs).await.unwrap(), Renewal::Renewed(_)));
    assert_eq!(remote.acquire(&node(1)).await.unwrap().subnet, one.subnet);
    let two = remote.acquire(&node(2)).await.unwrap();
    let mut seen: HashSet<SubnetKey> = HashSet::new();
    while !seen.contains(&two.subnet) {
        match next(&mut watch).await {
            Change::Events(events) => seen.extend(events.iter().filter_map(|event| match event {
                LeaseEvent::Added(lease) => Some(lease.subnet),
                LeaseEvent::Removed(_) => None,
            })),
            Change::Snapshot(leases) => seen.extend(leases.iter().map(|lease| lease.subnet)),
        }
    }
    drop(watch);
    server.stop().await;
}
