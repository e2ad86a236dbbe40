//! The bytes in etcd.

use felt::control::registry::{Registry, RegistryAdmin, RegistryError, Renewal, Reservation};

use super::*;

#[tokio::test]
async fn keys_and_values_are_flannels_byte_for_byte() {
    let (etcd, registry) = start().await;
    let store = registry.store();
    create(store, "10.3.5.0-24", OURS, Some(LEASE_TTL)).await;
    let mut attrs: LeaseAttrs = serde_json::from_str(
        r#"{"PublicIP":"192.168.64.3","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}}"#,
    )
    .unwrap();
    store.create(&key("10.3.6.0-24&fd00:12:13::-56"), &attrs, Some(LEASE_TTL)).await.unwrap().unwrap();
    attrs.backend_type = "host-gw".into();
    attrs.backend_data = None;
    store.create(&key("10.3.7.0-24"), &attrs, None).await.unwrap().unwrap();

    let expected = [
        ("/coreos.com/network/config", CONFIG),
        ("/coreos.com/network/subnets/10.3.5.0-24", r#"{"PublicIP":"1.2.3.4","PublicIPv6":null}"#),
        (
            "/coreos.com/network/subnets/10.3.6.0-24&fd00:12:13::-56",
            r#"{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}}"#,
        ),
        ("/coreos.com/network/subnets/10.3.7.0-24", r#"{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"host-gw"}"#),
    ];
    assert_eq!(etcd.everything().await, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_ne!(etcd.value(&lease_key("10.3.5.0-24")).await.unwrap().1, 0);
    assert_eq!(etcd.value(&lease_key("10.3.7.0-24")).await.unwrap().1, 0);
}

#[tokio::test]
async fn a_renewal_hangs_the_key_on_a_new_etcd_lease_and_gives_the_old_one_back() {
    let (etcd, registry) = start().await;
    let lease = registry.acquire(&request(OURS, None, Some("machine-a"))).await.unwrap();
    let name = lease.subnet.to_string();
    let (value, old) = etcd.value(&lease_key(&name)).await.unwrap();
    let Renewal::Renewed(renewed) = registry.renew(&lease, &lease.attrs).await.unwrap() else { panic!("lost") };
    assert_eq!(renewed.ttl, Some(LEASE_TTL));
    assert!(renewed.revision > lease.revision);
    let (same, new) = etcd.value(&lease_key(&name)).await.unwrap();
    assert!(same == value && new != old);
    // The note of the node goes along; an etcd lease of ours without keys does not stay.
    assert_eq!(etcd.value(&format!("{PREFIX}/nodes/{name}")).await, Some(("machine-a".into(), new)));
    let mut client = etcd.client().await;
    let only_new = async {
        while client.leases().await.unwrap().leases().iter().map(etcd_client::LeaseStatus::id).ne([new]) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, only_new).await.expect("the old etcd lease is given back");
    assert_eq!(registry.lease(&lease.subnet).await.unwrap().unwrap().attrs, lease.attrs);
}

#[tokio::test]
async fn a_lease_of_somebody_else_is_not_renewed() {
    let (etcd, registry) = start().await;
    let lease = registry.acquire(&request(OURS, None, None)).await.unwrap();
    let name = lease_key(&lease.subnet.to_string());
    etcd.put(&name, r#"{"PublicIP":"9.9.9.9"}"#).await;
    assert_eq!(registry.renew(&lease, &lease.attrs).await.unwrap(), Renewal::Lost);
    assert_eq!(etcd.value(&name).await, Some((r#"{"PublicIP":"9.9.9.9"}"#.into(), 0)));

    registry.revoke(&lease.subnet).await.unwrap();
    assert_eq!(registry.renew(&lease, &lease.attrs).await.unwrap(), Renewal::Lost);
    assert_eq!(etcd.value(&name).await, None);
    registry.revoke(&lease.subnet).await.unwrap();
}

#[tokio::test]
async fn reservations_hang_on_no_etcd_lease_whatever_their_node_does() {
    let (etcd, registry) = start().await;
    let reservation = Reservation { subnet: key("10.3.6.0-24"), public_ip: OURS };
    let outside = Reservation { subnet: key("10.4.6.0-24"), public_ip: OURS };
    registry.reserve(&outside).await.unwrap_err();
    registry.reserve(&reservation).await.unwrap();
    registry.reserve(&reservation).await.unwrap();
    let taken = registry.reserve(&Reservation { public_ip: OTHER, ..reservation.clone() }).await.unwrap_err();
    assert!(matches!(taken, RegistryError::Taken { .. }), "{taken}");

    let lease = registry.acquire(&request(OURS, None, Some("machine-a"))).await.unwrap();
    assert_eq!((lease.subnet, lease.ttl), (reservation.subnet, None));
    assert!(matches!(registry.renew(&lease, &lease.attrs).await.unwrap(), Renewal::Renewed(lease) if lease.is_reservation()));
    assert_eq!(etcd.value(&lease_key("10.3.6.0-24")).await.unwrap().1, 0);
    assert_eq!(registry.store().node_of(&reservation.subnet).await.unwrap().as_deref(), Some("machine-a"));
    // One put by hand is a reservation too.
    etcd.put(&lease_key("10.3.9.0-24"), r#"{"PublicIP":"1.1.1.1"}"#).await;
    let by_hand = Reservation { subnet: key("10.3.9.0-24"), public_ip: OTHER };
    assert_eq!(registry.reservations().await.unwrap(), [reservation.clone(), by_hand]);

    assert!(registry.unreserve(&reservation.subnet).await.unwrap());
    let left = registry.lease(&reservation.subnet).await.unwrap().unwrap().ttl.expect("an end");
    assert!(left > NEARLY_WHOLE && left <= LEASE_TTL);
    assert_ne!(etcd.value(&lease_key("10.3.6.0-24")).await.unwrap().1, 0);
    assert_eq!(registry.store().node_of(&reservation.subnet).await.unwrap().as_deref(), Some("machine-a"));
}

#[tokio::test]
async fn poison_and_siblings_are_walked_around() {
    logs::collect();
    let (etcd, registry) = start().await;
    let good = create(registry.store(), "10.3.5.0-24", OTHER, Some(LEASE_TTL)).await;
    etcd.put(&lease_key("poison-\u{1}key"), "{}").await;
    for (name, value) in [
        ("10.3.5.7-24", r#"{"PublicIP":"1.1.1.1"}"#),
        ("10.3.0.0-33", r#"{"PublicIP":"1.1.1.1"}"#),
        ("10.3.8.0-24", "null"),
        ("10.3.9.0-24", "{}"),
        ("10.3.10.0-24", r#"{"PublicIP":"0.0.0.0"}"#),
        ("10.3.11.0-24", "\u{0}\u{1}"),
        ("10.3.12.0-24/deeper", r#"{"PublicIP":"1.1.1.1"}"#),
    ] {
        etcd.put(&lease_key(name), value).await;
    }
    for sibling in ["subnets-old/10.3.13.0-24", "subnets2/10.3.13.0-24", "subnets"] {
        etcd.put(&format!("{PREFIX}/{sibling}"), r#"{"PublicIP":"1.1.1.1"}"#).await;
    }
    let mut updates = registry.watch_leases().await;
    assert_eq!(snapshot(&mut updates, SOON).await, ["10.3.5.0-24"]);
    let found = registry.leases().await.unwrap();
    assert_eq!(found.iter().map(|lease| lease.subnet).collect::<Vec<_>>(), [good.subnet]);

    // Events of what cannot be read pass unseen, and what comes after them is seen.
    etcd.put(&lease_key("junk"), "junk").await;
    etcd.put(&lease_key("10.3.8.0-24"), "[]").await;
    etcd.client().await.delete(lease_key("junk"), None).await.unwrap();
    etcd.put(&format!("{PREFIX}/subnets-old/10.3.14.0-24"), r#"{"PublicIP":"1.1.1.1"}"#).await;
    etcd.put(&lease_key("10.3.20.0-24"), r#"{"PublicIP":"1.1.1.1","BackendType":"vxlan","Unknown":[1]}"#).await;
    let seen = events(&mut updates, SOON).await;
    assert!(matches!(&seen[..], [LeaseEvent::Added(lease)] if lease.subnet == key("10.3.20.0-24")), "{seen:?}");
    assert_eq!(logs::with("poison-").len(), 1, "{:?}", logs::with("poison-"));

    // Nor do they stand in the way of a node.
    let taken = registry.acquire(&request(OURS, Some("10.3.8.0/24"), None)).await.unwrap();
    assert_ne!(taken.subnet, key("10.3.8.0-24"));
    assert_eq!(etcd.value(&lease_key("10.3.8.0-24")).await.unwrap().0, "[]");
}

#[tokio::test]
async fn every_spelling_of_the_prefix_finds_the_same_keys() {
    let etcd = Etcd::start().await;
    etcd.put("/coreos.com/network/config", CONFIG).await;
    for prefix in ["coreos.com/network", "/coreos.com/network/", "//coreos.com//network"] {
        let store = EtcdStore::new(&EtcdConfig::plain([etcd.url()], prefix)).unwrap();
        assert_eq!(store.config().await.unwrap().as_deref(), Some(CONFIG), "{prefix}");
    }
    let elsewhere = EtcdStore::new(&EtcdConfig::plain([etcd.url()], "coreos.com/netwrok")).unwrap();
    let error = StoreRegistry::with_default_ttl(elsewhere).config().await.unwrap_err().to_string();
    assert!(error.contains("/coreos.com/netwrok/config") && error.contains("v3") && error.contains(&etcd.url()), "{error}");
}

#[tokio::test]
async fn deleting_a_lease_deletes_nothing_else() {
    let (etcd, registry) = start().await;
    let store = registry.store();
    let lease = create(store, "10.3.2.0-24", OURS, Some(LEASE_TTL)).await;
    store.note_node(&lease, "machine-a").await.unwrap();
    let longer = create(store, "10.3.2.0-24&fd00::-64", OURS, Some(LEASE_TTL)).await;
    assert!(!store.delete(&lease.subnet, Some(lease.revision + 100)).await.unwrap());
    assert!(store.delete(&lease.subnet, Some(lease.revision)).await.unwrap());
    assert!(!store.delete(&lease.subnet, None).await.unwrap());
    let keys: Vec<_> = etcd.everything().await.into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["/coreos.com/network/config".to_owned(), lease_key(&longer.subnet.to_string())]);
}

#[tokio::test]
async fn a_note_of_a_former_holder_says_nothing_about_the_next() {
    let (etcd, registry) = start().await;
    let lease = registry.acquire(&request(OURS, None, Some("machine-a"))).await.unwrap();
    let name = lease.subnet.to_string();
    assert_eq!(registry.store().node_of(&lease.subnet).await.unwrap().as_deref(), Some("machine-a"));
    // A flannel peer renews: new etcd lease, no note.
    let mut client = etcd.client().await;
    let grant = client.lease_grant(60, None).await.unwrap().id();
    let options = etcd_client::PutOptions::new().with_lease(grant);
    client.put(lease_key(&name), r#"{"PublicIP":"1.2.3.4","PublicIPv6":null}"#, Some(options)).await.unwrap();
    assert_eq!(registry.store().node_of(&lease.subnet).await.unwrap(), None);
    let again = registry.acquire(&request(OURS, None, Some("machine-b"))).await.unwrap();
    assert_eq!(again.subnet, lease.subnet);
    assert_eq!(registry.store().node_of(&lease.subnet).await.unwrap().as_deref(), Some("machine-b"));
}
