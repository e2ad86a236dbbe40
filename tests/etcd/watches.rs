//! What a watch tells, and what it survives.

use std::time::Instant;

use felt::control::registry::Registry;

use super::*;
use crate::proxy::{Proxy, Way};

fn added(event: &LeaseEvent) -> &Lease {
    match event {
        LeaseEvent::Added(lease) => lease,
        LeaseEvent::Removed(subnet) => panic!("expected an addition, found the removal of {subnet}"),
    }
}

#[tokio::test]
async fn additions_changes_and_removals_come_one_by_one() {
    let (etcd, registry) = start().await;
    let store = registry.store();
    create(store, "10.3.1.0-24", OTHER, Some(LEASE_TTL)).await;
    let mut updates = registry.watch_leases().await;
    let first = next(&mut updates, SOON).await;
    let Change::Snapshot(leases) = &first.change else { panic!("{first:?}") };
    assert_eq!(leases.iter().map(|lease| lease.subnet).collect::<Vec<_>>(), [key("10.3.1.0-24")]);

    let created = create(store, "10.3.30.0-24", OTHER, Some(LEASE_TTL)).await;
    let update = next(&mut updates, SOON).await;
    assert_eq!(update.revision, created.revision);
    let Change::Events(seen) = update.change else { panic!() };
    assert_eq!(seen.len(), 1);
    assert_eq!(added(&seen[0]).attrs, created.attrs);
    assert_eq!(added(&seen[0]).revision, created.revision);
    assert!(added(&seen[0]).ttl.unwrap() > NEARLY_WHOLE);

    let moved = LeaseAttrs::udp("5.5.5.5".parse().unwrap());
    let changed = store.replace(&created, &moved, None).await.unwrap().unwrap();
    let seen = events(&mut updates, SOON).await;
    assert_eq!(seen, [LeaseEvent::Added(changed)]);

    // An expiry and a deletion.
    create(store, "10.3.31.0-24", OTHER, Some(Duration::from_secs(1))).await;
    assert_eq!(added(&events(&mut updates, SOON).await[0]).subnet, key("10.3.31.0-24"));
    assert_eq!(events(&mut updates, Duration::from_secs(15)).await, [LeaseEvent::Removed(key("10.3.31.0-24"))]);
    etcd.client().await.delete(lease_key("10.3.1.0-24"), None).await.unwrap();
    assert_eq!(events(&mut updates, SOON).await, [LeaseEvent::Removed(key("10.3.1.0-24"))]);
}

#[tokio::test]
async fn the_config_is_told_now_and_when_it_changes() {
    let etcd = Etcd::start().await;
    let registry = registry_at(&etcd.url(), LEASE_TTL);
    let mut texts = registry.watch_config().await;
    // Absence is not told; a second writing of the same neither.
    for _ in 0..2 {
        registry.store().put_config(CONFIG).await.unwrap();
    }
    registry.store().put_config("other").await.unwrap();
    for expected in [CONFIG, "other"] {
        assert_eq!(timeout(SOON, texts.recv()).await.unwrap().as_deref(), Some(expected));
    }
    let mut late = registry.watch_config().await;
    assert_eq!(timeout(SOON, late.recv()).await.unwrap().as_deref(), Some("other"));
}

#[tokio::test]
async fn a_killed_server_is_found_again_with_what_changed_meanwhile() {
    logs::collect();
    let (mut etcd, registry) = start().await;
    create(registry.store(), "10.3.1.0-24", OTHER, Some(LEASE_TTL)).await;
    let mut updates = registry.watch_leases().await;
    let mut texts = registry.watch_config().await;
    assert_eq!(snapshot(&mut updates, SOON).await, ["10.3.1.0-24"]);
    texts.recv().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;

    etcd.kill();
    tokio::time::sleep(Duration::from_secs(6)).await;
    etcd.restart().await;
    let back = Instant::now();
    // Written behind the watch's back.
    etcd.put(&lease_key("10.3.2.0-24"), r#"{"PublicIP":"1.1.1.1"}"#).await;
    let seen = events(&mut updates, SOON).await;
    assert!(back.elapsed() < SOON);
    assert_eq!(added(&seen[0]).subnet, key("10.3.2.0-24"), "resumed without a snapshot");
    // The other watch takes its own pauses, and contact is back when both are.
    let two = async {
        while logs::about(&etcd.url()).len() < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    let _ = timeout(SOON, two).await;
    let lines = logs::about(&etcd.url());
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("watch lost") && lines[1].contains("watch is back"), "{lines:#?}");
}

#[tokio::test]
async fn a_server_that_ends_in_good_order_is_found_again() {
    let (mut etcd, registry) = start().await;
    let mut updates = registry.watch_leases().await;
    snapshot(&mut updates, SOON).await;
    etcd.terminate();
    etcd.restart().await;
    etcd.put(&lease_key("10.3.2.0-24"), r#"{"PublicIP":"1.1.1.1"}"#).await;
    assert_eq!(added(&events(&mut updates, SOON).await[0]).subnet, key("10.3.2.0-24"));
}

#[tokio::test]
async fn a_frozen_server_is_noticed_and_followed_again_when_it_goes_on() {
    logs::collect();
    let (etcd, registry) = start().await;
    let mut updates = registry.watch_leases().await;
    snapshot(&mut updates, SOON).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    etcd.freeze();
    let begin = Instant::now();
    let error = registry.config().await.unwrap_err();
    assert!(error.is_unreachable() && error.to_string().contains("no answer"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    tokio::time::sleep(Duration::from_secs(10).saturating_sub(begin.elapsed())).await;
    let lines = logs::about(&etcd.url());
    assert!(lines.len() == 1 && lines[0].contains("watch lost"), "{lines:#?}");

    etcd.thaw();
    etcd.put(&lease_key("10.3.2.0-24"), r#"{"PublicIP":"1.1.1.1"}"#).await;
    until_there(&mut updates, "10.3.2.0-24", SOON).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lines = logs::about(&etcd.url());
    assert!(lines.len() <= 3, "{lines:#?}");
}

#[tokio::test]
async fn compaction_past_the_watch_gives_a_snapshot_and_goes_on() {
    logs::collect();
    let (etcd, registry) = start().await;
    let proxy = Proxy::to(etcd.port()).await;
    let through = registry_at(&proxy.url(), LEASE_TTL);
    create(registry.store(), "10.3.1.0-24", OTHER, Some(LEASE_TTL)).await;
    let mut updates = through.watch_leases().await;
    assert_eq!(snapshot(&mut updates, SOON).await, ["10.3.1.0-24"]);

    // Out of contact, while a peer goes, others come, and history is forgotten.
    proxy.turn(Way::Closed);
    proxy.cut(false);
    registry.revoke(&key("10.3.1.0-24")).await.unwrap();
    for n in 2..6 {
        create(registry.store(), &format!("10.3.{n}.0-24"), OTHER, Some(LEASE_TTL)).await;
    }
    etcd.compact().await;
    proxy.turn(Way::Open);
    let expected = ["10.3.2.0-24", "10.3.3.0-24", "10.3.4.0-24", "10.3.5.0-24"];
    assert_eq!(snapshot(&mut updates, SOON).await, expected);
    create(registry.store(), "10.3.7.0-24", OTHER, Some(LEASE_TTL)).await;
    assert_eq!(added(&events(&mut updates, SOON).await[0]).subnet, key("10.3.7.0-24"));
    let lines = logs::about(&proxy.url());
    assert!(lines.len() <= 3, "{lines:#?}");
}

#[tokio::test]
async fn hang_ups_resets_and_silence_are_each_survived() {
    let (etcd, registry) = start().await;
    let proxy = Proxy::to(etcd.port()).await;
    let mut updates = registry_at(&proxy.url(), LEASE_TTL).watch_leases().await;
    snapshot(&mut updates, SOON).await;
    for (n, reset) in [(2, false), (3, true), (4, true), (5, false)] {
        proxy.cut(reset);
        create(registry.store(), &format!("10.3.{n}.0-24"), OTHER, Some(LEASE_TTL)).await;
        assert_eq!(added(&events(&mut updates, SOON).await[0]).subnet, key(&format!("10.3.{n}.0-24")));
    }

    // Silence: nothing is refused, nothing arrives. The old connection never speaks again.
    proxy.turn(Way::Silent);
    create(registry.store(), "10.3.6.0-24", OTHER, Some(LEASE_TTL)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(updates.try_recv().is_err());
    proxy.cut(true);
    proxy.turn(Way::Open);
    until_there(&mut updates, "10.3.6.0-24", SOON).await;
}

#[tokio::test]
async fn a_wiped_cluster_is_noticed_by_its_revision() {
    let (mut etcd, registry) = start().await;
    for n in 1..6 {
        create(registry.store(), &format!("10.3.{n}.0-24"), OTHER, Some(LEASE_TTL)).await;
    }
    let mut updates = registry.watch_leases().await;
    assert_eq!(snapshot(&mut updates, SOON).await.len(), 5);
    etcd.restart_empty().await;
    etcd.put(&lease_key("10.3.9.0-24"), r#"{"PublicIP":"1.1.1.1"}"#).await;
    assert_eq!(snapshot(&mut updates, Duration::from_secs(8)).await, ["10.3.9.0-24"]);
}

#[tokio::test]
async fn a_watch_begun_without_a_server_begins_when_there_is_one() {
    let (mut etcd, registry) = start().await;
    create(registry.store(), "10.3.1.0-24", OTHER, Some(LEASE_TTL)).await;
    etcd.kill();
    let mut updates = registry_at(&etcd.url(), LEASE_TTL).watch_leases().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(updates.try_recv().is_err());
    etcd.restart().await;
    assert_eq!(snapshot(&mut updates, SOON).await, ["10.3.1.0-24"]);
}

#[tokio::test]
async fn a_quiet_watch_is_left_alone() {
    logs::collect();
    let (etcd, registry) = start().await;
    let mut updates = registry.watch_leases().await;
    snapshot(&mut updates, SOON).await;
    // Longer than it takes to ask for a sign of life and to miss it, and several pings.
    tokio::time::sleep(Duration::from_secs(24)).await;
    create(registry.store(), "10.3.2.0-24", OTHER, Some(LEASE_TTL)).await;
    assert_eq!(added(&events(&mut updates, SOON).await[0]).subnet, key("10.3.2.0-24"));
    assert_eq!(logs::about(&etcd.url()), [""; 0]);
}

#[tokio::test]
async fn a_backlog_of_many_revisions_arrives_whole_and_in_order() {
    let (etcd, _) = start().await;
    let proxy = Proxy::to(etcd.port()).await;
    let mut updates = registry_at(&proxy.url(), LEASE_TTL).watch_leases().await;
    snapshot(&mut updates, SOON).await;
    proxy.turn(Way::Closed);
    proxy.cut(true);
    // More revisions than etcd puts in one response (1,000).
    let mut client = etcd.client().await;
    for n in 0..1500u32 {
        let value = format!(r#"{{"PublicIP":"9.9.{}.{}"}}"#, n / 250, n % 250 + 1);
        client.put(lease_key("10.3.1.0-24"), value, None).await.unwrap();
    }
    proxy.turn(Way::Open);
    let (mut seen, mut known) = (0, 0);
    while seen < 1500 {
        let update = next(&mut updates, Duration::from_secs(20)).await;
        let Change::Events(events) = update.change else { panic!("a snapshot") };
        for event in &events {
            let lease = added(event);
            assert_eq!(lease.attrs.public_ip.to_string(), format!("9.9.{}.{}", seen / 250, seen % 250 + 1));
            assert!(lease.revision > known && lease.revision <= update.revision);
            seen += 1;
        }
        known = update.revision;
    }
}
