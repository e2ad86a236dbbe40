//! What happens to nodes over time.

use felt::control::registry::{Registry, RegistryError, Renewal};

use super::*;

/// Waits until a key is gone.
async fn until_gone(etcd: &Etcd, subnet: &str) {
    let gone = async {
        while etcd.value(&lease_key(subnet)).await.is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(20), gone).await.expect("the lease expires");
}

#[tokio::test]
async fn a_partitioned_node_loses_its_subnet_and_disturbs_nobody_on_its_return() {
    let (etcd, _) = start().await;
    let (first, second) = (registry_at(&etcd.url(), Duration::from_secs(1)), registry_at(&etcd.url(), LEASE_TTL));
    let held = first.acquire(&request(OURS, None, Some("machine-a"))).await.unwrap();
    let name = held.subnet.to_string();
    until_gone(&etcd, &name).await;
    let taken = second.acquire(&request(OTHER, Some(&held.subnet.v4.to_string()), Some("machine-b"))).await.unwrap();
    assert_eq!(taken.subnet, held.subnet);
    let before = etcd.value(&lease_key(&name)).await;

    assert_eq!(first.renew(&held, &held.attrs).await.unwrap(), Renewal::Lost);
    let next = first.acquire(&request(OURS, Some(&held.subnet.v4.to_string()), Some("machine-a"))).await.unwrap();
    assert_ne!(next.subnet, held.subnet);
    assert_eq!(etcd.value(&lease_key(&name)).await, before);
    assert!(matches!(second.renew(&taken, &taken.attrs).await.unwrap(), Renewal::Renewed(_)));
}

async fn created(etcd: &Etcd, key: &str) -> i64 {
    etcd.client().await.get(key, None).await.unwrap().kvs()[0].create_revision()
}

#[tokio::test]
async fn a_subnet_outlives_restarts_reboots_and_a_wiped_etcd() {
    let (mut etcd, registry) = start().await;
    let held = registry.acquire(&request(OURS, None, Some("machine-a"))).await.unwrap();
    let previous = held.subnet.v4.to_string();
    let name = lease_key(&held.subnet.to_string());
    let before = created(&etcd, &name).await;
    // A restart knows its subnet, a reboot does not.
    for previous in [Some(previous.as_str()), None] {
        let registry = registry_at(&etcd.url(), LEASE_TTL);
        assert_eq!(registry.acquire(&request(OURS, previous, Some("machine-a"))).await.unwrap().subnet, held.subnet);
    }
    assert_eq!(created(&etcd, &name).await, before);

    etcd.restart_empty().await;
    etcd.put("/coreos.com/network/config", CONFIG).await;
    assert_eq!(registry.acquire(&request(OURS, Some(&previous), Some("machine-a"))).await.unwrap().subnet, held.subnet);
}

#[tokio::test]
async fn a_lease_taken_away_by_hand_comes_back_on_the_same_subnet() {
    let (etcd, registry) = start().await;
    let mut held = registry.acquire(&request(OURS, None, Some("machine-a"))).await.unwrap();
    let name = lease_key(&held.subnet.to_string());
    let previous = held.subnet.v4.to_string();
    for revoked in [true, false, true] {
        let mut client = etcd.client().await;
        if revoked {
            client.lease_revoke(etcd.value(&name).await.unwrap().1).await.unwrap();
        } else {
            client.delete(name.as_str(), None).await.unwrap();
        }
        assert_eq!(registry.renew(&held, &held.attrs).await.unwrap(), Renewal::Lost);
        assert_eq!(etcd.value(&name).await, None, "a renewal created a record");
        let again = registry.acquire(&request(OURS, Some(&previous), Some("machine-a"))).await.unwrap();
        assert_eq!(again.subnet, held.subnet);
        held = again;
    }
}

#[tokio::test]
async fn one_address_on_two_machines_is_refused() {
    let (etcd, registry) = start().await;
    let held = registry.acquire(&request(OURS, None, Some("machine-a"))).await.unwrap();
    let before = etcd.everything().await;
    let other = registry_at(&etcd.url(), LEASE_TTL);
    let error = other.acquire(&request(OURS, None, Some("machine-b"))).await.unwrap_err();
    assert!(matches!(error, RegistryError::DuplicatePublicIp { .. }), "{error}");
    assert_eq!(etcd.everything().await, before);
    assert!(matches!(registry.renew(&held, &held.attrs).await.unwrap(), Renewal::Renewed(_)));
    // Also after the renewal has moved the record.
    other.acquire(&request(OURS, None, Some("machine-b"))).await.unwrap_err();
}

#[tokio::test]
async fn a_node_whose_address_changed_keeps_its_subnet() {
    let (etcd, registry) = start().await;
    let held = registry.acquire(&request(OURS, None, Some("machine-a"))).await.unwrap();
    let previous = held.subnet.v4.to_string();
    let mut updates = registry.watch_leases().await;
    snapshot(&mut updates, SOON).await;
    let elsewhere: Ipv4Addr = "5.5.5.5".parse().unwrap();
    let moved = registry.acquire(&request(elsewhere, Some(&previous), Some("machine-a"))).await.unwrap();
    assert_eq!(moved.subnet, held.subnet);
    // Peers hear of one change, no removal.
    let seen = events(&mut updates, SOON).await;
    assert!(matches!(&seen[..], [LeaseEvent::Added(lease)] if lease.attrs.public_ip == elsewhere), "{seen:?}");
    assert!(etcd.value(&lease_key(&held.subnet.to_string())).await.unwrap().0.contains("5.5.5.5"));
}

#[tokio::test]
async fn a_change_of_the_network_gives_the_old_subnet_back() {
    let (etcd, registry) = start().await;
    let held = registry.acquire(&request(OURS, None, None)).await.unwrap();
    etcd.put("/coreos.com/network/config", r#"{"Network":"10.4.0.0/16"}"#).await;
    let next = registry.acquire(&request(OURS, Some(&held.subnet.v4.to_string()), None)).await.unwrap();
    assert!(next.subnet.to_string().starts_with("10.4."));
    assert_eq!(etcd.value(&lease_key(&held.subnet.to_string())).await, None);
}
