//! The rules of acquire, renew and reserve, against a store that others write to at the worst moment.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::fake::{FakeStore, Records};
use super::*;
use crate::control::registry::{RegistryAdmin, Reservation};
use crate::lease::LeaseAttrs;

const CONFIG: &str = r#"{"Network":"10.3.0.0/16","SubnetMin":"10.3.1.0","SubnetMax":"10.3.25.0"}"#;
const OURS: Ipv4Addr = Ipv4Addr::new(1, 2, 3, 4);
const OTHER: Ipv4Addr = Ipv4Addr::new(1, 1, 1, 1);

fn registry() -> StoreRegistry<FakeStore> {
    let registry = StoreRegistry::with_default_ttl(FakeStore::default());
    registry.store.records().config = Some(CONFIG.into());
    registry
}

fn key(text: &str) -> SubnetKey {
    text.parse().unwrap()
}

fn request(public_ip: Ipv4Addr, previous: Option<&str>) -> AcquireRequest {
    AcquireRequest { attrs: LeaseAttrs::udp(public_ip), previous: previous.map(|text| text.parse().unwrap()), node: None }
}

fn of_node(mut request: AcquireRequest, node: &str) -> AcquireRequest {
    request.node = Some(node.into());
    request
}

fn put(registry: &StoreRegistry<FakeStore>, subnet: &str, public_ip: Ipv4Addr, ttl: Option<Duration>) -> Lease {
    registry.store.records().put(key(subnet), &LeaseAttrs::udp(public_ip), ttl)
}

fn before_write(registry: &StoreRegistry<FakeStore>, hook: impl FnOnce(&mut Records) + Send + 'static) {
    registry.store.records().before_write = Some(Box::new(hook));
}

#[tokio::test]
async fn acquiring_twice_gives_the_same_subnet() {
    let registry = registry();
    let first = registry.acquire(&request(OURS, None)).await.unwrap();
    let again = registry.acquire(&request(OURS, None)).await.unwrap();
    assert_eq!(first.subnet, again.subnet);
    assert_eq!(again.ttl, Some(LEASE_TTL));
    assert_eq!(registry.store.records().leases.len(), 1);
}

#[tokio::test]
async fn a_missing_config_names_the_place() {
    let registry = StoreRegistry::with_default_ttl(FakeStore::default());
    let error = registry.acquire(&request(OURS, None)).await.unwrap_err();
    assert!(error.to_string().contains("the fake store"), "{error}");
}

#[tokio::test]
async fn the_previous_subnet_comes_back_unless_somebody_took_it() {
    let registry = registry();
    let lease = registry.acquire(&request(OURS, Some("10.3.6.0/24"))).await.unwrap();
    assert_eq!(lease.subnet, key("10.3.6.0-24"));

    let theirs = put(&registry, "10.3.7.0-24", OTHER, Some(LEASE_TTL));
    let ours = registry.acquire(&request(Ipv4Addr::new(9, 9, 9, 9), Some("10.3.7.0/24"))).await.unwrap();
    assert_ne!(ours.subnet, theirs.subnet);
    assert_eq!(registry.store.records().leases[&theirs.subnet], theirs, "the other's record changed");
}

#[tokio::test]
async fn a_lost_race_is_tried_again_with_a_fresh_list() {
    let registry = registry();
    before_write(&registry, |records| {
        records.put(key("10.3.6.0-24"), &LeaseAttrs::udp(OTHER), Some(LEASE_TTL));
    });
    let lease = registry.acquire(&request(OURS, Some("10.3.6.0/24"))).await.unwrap();
    assert_ne!(lease.subnet, key("10.3.6.0-24"));
    assert_eq!(registry.store.records().leases.len(), 2);
}

#[tokio::test]
async fn an_adoption_that_meets_a_change_starts_over() {
    let registry = registry();
    let own = put(&registry, "10.3.6.0-24", OURS, Some(LEASE_TTL));
    before_write(&registry, move |records| {
        records.put(own.subnet, &LeaseAttrs::udp(OTHER), Some(LEASE_TTL));
    });
    let lease = registry.acquire(&request(OURS, None)).await.unwrap();
    assert_ne!(lease.subnet, own.subnet);
    assert_eq!(registry.store.records().leases[&own.subnet].attrs.public_ip, OTHER);
}

#[tokio::test]
async fn unreadable_records_are_walked_around() {
    let registry = registry();
    registry.put_config(r#"{"Network":"10.3.0.0/16","SubnetMin":"10.3.1.0","SubnetMax":"10.3.5.0"}"#).await.unwrap();
    let all: Vec<SubnetKey> = (1..=5).map(|n| key(&format!("10.3.{n}.0-24"))).collect();
    registry.store.records().unreadable = all[..4].to_vec();
    let lease = registry.acquire(&request(OURS, Some("10.3.3.0/24"))).await.unwrap();
    assert_eq!(lease.subnet, all[4]);
    let error = registry.acquire(&request(OTHER, None)).await.unwrap_err();
    assert!(matches!(error, RegistryError::OutOfSubnets { .. }), "{error}");
}

#[tokio::test]
async fn a_lease_outside_a_changed_network_is_given_back() {
    let registry = registry();
    let old = registry.acquire(&request(OURS, None)).await.unwrap();
    registry.put_config(r#"{"Network":"10.4.0.0/16"}"#).await.unwrap();
    let new = registry.acquire(&request(OURS, Some(&old.subnet.v4.to_string()))).await.unwrap();
    assert!(new.subnet.v4.to_string().starts_with("10.4."));
    assert_eq!(registry.store.records().leases.keys().collect::<Vec<_>>(), [&new.subnet]);
}

#[tokio::test]
async fn the_old_lease_stays_until_there_is_a_new_one() {
    let registry = registry();
    let old = registry.acquire(&request(OURS, None)).await.unwrap();
    registry.put_config(r#"{"Network":"10.4.0.0/16"}"#).await.unwrap();
    before_write(&registry, move |records| assert!(records.leases.contains_key(&old.subnet), "given back too early"));
    registry.acquire(&request(OURS, None)).await.unwrap();

    // Unless there is no room for both.
    let registry = StoreRegistry::with_default_ttl(FakeStore::default());
    registry.put_config(r#"{"Network":"10.5.0.0/16","SubnetMin":"10.5.1.0","SubnetMax":"10.5.1.0"}"#).await.unwrap();
    put(&registry, "10.5.1.0-25", OURS, Some(LEASE_TTL));
    let new = registry.acquire(&request(OURS, None)).await.unwrap();
    assert_eq!(registry.store.records().leases.keys().collect::<Vec<_>>(), [&new.subnet]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_fills_the_network_to_the_last_subnet() {
    let registry = Arc::new(registry());
    let nodes = (1..=25u8).map(|n| {
        let registry = Arc::clone(&registry);
        tokio::spawn(async move { registry.acquire(&request(Ipv4Addr::new(9, 0, 0, n), None)).await.unwrap().subnet })
    });
    let mut held = BTreeSet::new();
    for node in nodes.collect::<Vec<_>>() {
        assert!(held.insert(node.await.unwrap()));
    }
    let error = registry.acquire(&request(OURS, None)).await.unwrap_err();
    assert!(matches!(error, RegistryError::OutOfSubnets { .. }), "{error}");
}

#[tokio::test]
async fn a_renewal_writes_only_what_is_still_ours() {
    let registry = registry();
    let mut lease = registry.acquire(&request(OURS, None)).await.unwrap();
    let Renewal::Renewed(renewed) = registry.renew(&lease, &lease.attrs).await.unwrap() else { panic!("lost") };
    assert!(renewed.revision > lease.revision && renewed.attrs == lease.attrs);

    // The answer to a renewal got lost: our revision is old, the record ours.
    assert!(matches!(registry.renew(&lease, &lease.attrs).await.unwrap(), Renewal::Renewed(_)));

    let theirs = put(&registry, &lease.subnet.to_string(), OTHER, Some(LEASE_TTL));
    assert_eq!(registry.renew(&lease, &lease.attrs).await.unwrap(), Renewal::Lost);
    assert_eq!(registry.store.records().leases[&lease.subnet], theirs);

    registry.revoke(&lease.subnet).await.unwrap();
    lease.revision = 0;
    assert_eq!(registry.renew(&lease, &lease.attrs).await.unwrap(), Renewal::Lost);
    assert!(registry.store.records().leases.is_empty(), "a renewal created a record");
    registry.revoke(&lease.subnet).await.unwrap();
}

#[tokio::test]
async fn a_renewal_without_a_revision_writes_once() {
    let registry = registry();
    let lease = registry.acquire(&request(OURS, None)).await.unwrap();
    let before = registry.store.records().writes;
    let unnumbered = Lease { revision: 0, ..lease };
    assert!(matches!(registry.renew(&unnumbered, &unnumbered.attrs).await.unwrap(), Renewal::Renewed(_)));
    put(&registry, &unnumbered.subnet.to_string(), OTHER, Some(LEASE_TTL));
    assert_eq!(registry.renew(&unnumbered, &unnumbered.attrs).await.unwrap(), Renewal::Lost);
    assert_eq!(registry.store.records().writes - before, 1);
}

#[tokio::test]
async fn a_renewal_may_announce_another_address() {
    let registry = registry();
    let elsewhere = LeaseAttrs::udp(Ipv4Addr::new(5, 5, 5, 5));
    let lease = registry.acquire(&request(OURS, None)).await.unwrap();
    // Renewed meanwhile, still under the address known.
    put(&registry, &lease.subnet.to_string(), OURS, Some(LEASE_TTL));
    let Renewal::Renewed(moved) = registry.renew(&lease, &elsewhere).await.unwrap() else { panic!("lost") };
    assert_eq!((moved.subnet, &moved.attrs), (lease.subnet, &elsewhere));
    // The answer got lost, so the same is tried again.
    assert!(matches!(registry.renew(&lease, &elsewhere).await.unwrap(), Renewal::Renewed(_)));
    let theirs = put(&registry, &lease.subnet.to_string(), OTHER, Some(LEASE_TTL));
    assert_eq!(registry.renew(&lease, &elsewhere).await.unwrap(), Renewal::Lost);
    assert_eq!(registry.store.records().leases[&lease.subnet], theirs);
}

#[tokio::test]
async fn a_reservation_stays_one_and_a_lease_becomes_one() {
    let registry = registry();
    let subnet = key("10.3.6.0-24");
    let reservation = Reservation { subnet, public_ip: OURS };
    registry.reserve(&reservation).await.unwrap();
    registry.reserve(&reservation).await.unwrap();

    let lease = registry.acquire(&request(OURS, Some("10.3.9.0/24"))).await.unwrap();
    assert_eq!((lease.subnet, lease.ttl), (subnet, None));
    let Renewal::Renewed(lease) = registry.renew(&lease, &lease.attrs).await.unwrap() else { panic!("lost") };
    assert_eq!(lease.ttl, None);

    assert!(registry.unreserve(&subnet).await.unwrap());
    assert!(!registry.unreserve(&subnet).await.unwrap());
    // The node still believes in the reservation; the record decides.
    let Renewal::Renewed(lease) = registry.renew(&lease, &lease.attrs).await.unwrap() else { panic!("lost") };
    assert_eq!(lease.ttl, Some(LEASE_TTL));

    registry.reserve(&reservation).await.unwrap();
    let Renewal::Renewed(lease) = registry.renew(&lease, &lease.attrs).await.unwrap() else { panic!("lost") };
    assert_eq!(lease.ttl, None);
    assert_eq!(registry.reservations().await.unwrap(), [reservation]);
}

#[tokio::test]
async fn what_cannot_be_reserved_says_why() {
    let registry = registry();
    put(&registry, "10.3.6.0-24", OTHER, Some(LEASE_TTL));
    put(&registry, "10.3.8.0-23", OTHER, Some(LEASE_TTL));
    for (subnet, expected) in [
        ("10.4.6.0-24", "a /24 subnet of 10.3.0.0/16"),
        ("10.3.40.0-24", "from 10.3.1.0 to 10.3.25.0"),
        ("10.3.6.0-25", "a /24 subnet"),
        ("10.3.6.0-24", "already taken by 1.1.1.1"),
        ("10.3.9.0-24", "already taken by 1.1.1.1 as 10.3.8.0-23"),
    ] {
        let error = registry.reserve(&Reservation { subnet: key(subnet), public_ip: OURS }).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn one_address_on_two_machines_is_refused() {
    let registry = registry();
    let lease = registry.acquire(&of_node(request(OURS, None), "machine-a")).await.unwrap();
    assert_eq!(registry.acquire(&of_node(request(OURS, None), "machine-a")).await.unwrap().subnet, lease.subnet);
    let before = registry.store.records().leases.clone();
    let error = registry.acquire(&of_node(request(OURS, None), "machine-b")).await.unwrap_err();
    assert!(matches!(error, RegistryError::DuplicatePublicIp { .. }), "{error}");
    // Two nodes, or one whose machine id has changed: both are told what to do.
    assert!(error.to_string().contains("--public-ip") && error.to_string().contains("--node-id=machine-a"), "{error}");
    assert_eq!(registry.store.records().leases, before);

    // Nor is a lease of another machine given back because the network changed.
    registry.put_config(r#"{"Network":"10.4.0.0/16"}"#).await.unwrap();
    registry.acquire(&of_node(request(OURS, None), "machine-b")).await.unwrap_err();
    assert_eq!(registry.store.records().leases, before);

    // A peer that notes nothing is adopted, as flannel does.
    registry.store.records().nodes.clear();
    registry.acquire(&of_node(request(OURS, None), "machine-b")).await.unwrap();
    assert_eq!(registry.store.records().nodes.values().collect::<Vec<_>>(), ["machine-b"]);
}

#[tokio::test]
async fn a_node_whose_address_changed_keeps_its_subnet() {
    let registry = registry();
    let lease = registry.acquire(&of_node(request(OURS, None), "machine-a")).await.unwrap();
    let previous = lease.subnet.v4.to_string();
    let elsewhere = Ipv4Addr::new(5, 5, 5, 5);
    let moved = registry.acquire(&of_node(request(elsewhere, Some(&previous)), "machine-a")).await.unwrap();
    assert_eq!((moved.subnet, moved.attrs.public_ip), (lease.subnet, elsewhere));

    let other = registry.acquire(&of_node(request(OURS, Some(&previous)), "machine-b")).await.unwrap();
    assert_ne!(other.subnet, lease.subnet);
}
