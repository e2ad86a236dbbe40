//! The embedded store: transactions, time, restarts, and files that are no good.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use felt::control::registry::embedded::EmbeddedStore;
use felt::control::registry::store::Store;
use felt::lease::{Change, Lease, LeaseAttrs, LeaseEvent, SubnetKey, Update};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use crate::support::LONG;

const HOUR: Option<Duration> = Some(Duration::from_hours(1));

fn subnet(third: u8) -> SubnetKey {
    format!("10.1.{third}.0-24").parse().unwrap()
}

fn attrs(last: u8) -> LeaseAttrs {
    LeaseAttrs::udp(Ipv4Addr::new(192, 0, 2, last))
}

async fn next(watch: &mut Receiver<Update>) -> Update {
    timeout(LONG, watch.recv()).await.unwrap().unwrap()
}

async fn leases(store: &EmbeddedStore) -> Vec<Lease> {
    store.list().await.unwrap().leases
}

#[tokio::test]
async fn records_change_only_as_asked() {
    let store = EmbeddedStore::in_memory().unwrap();
    let first = store.create(&subnet(1), &attrs(1), HOUR).await.unwrap().unwrap();
    assert_eq!(store.create(&subnet(1), &attrs(2), HOUR).await.unwrap(), None, "exists");
    let second = store.replace(&first, &attrs(3), None).await.unwrap().unwrap();
    assert!(second.revision > first.revision && second.is_reservation());
    assert_eq!(store.replace(&first, &attrs(4), HOUR).await.unwrap(), None, "changed since");
    assert!(!store.delete(&subnet(1), Some(first.revision)).await.unwrap(), "changed since");
    assert_eq!(leases(&store).await, std::slice::from_ref(&second));
    assert_eq!(store.read(&subnet(1)).await.unwrap(), Some(second.clone()));
    assert!(store.delete(&subnet(1), Some(second.revision)).await.unwrap());
    assert!(!store.delete(&subnet(1), None).await.unwrap());
    assert_eq!(store.replace(&second, &attrs(3), HOUR).await.unwrap(), None, "gone");
    assert!(leases(&store).await.is_empty());
}

#[tokio::test]
async fn the_node_is_noted_for_as_long_as_the_lease_lives() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = EmbeddedStore::open(&path).await.unwrap();
    let lease = store.create(&subnet(1), &attrs(1), HOUR).await.unwrap().unwrap();
    store.note_node(&lease, "n1").await.unwrap();
    let renewed = store.replace(&lease, &attrs(1), HOUR).await.unwrap().expect("the note is no change of the lease");
    store.note_node(&lease, "too late").await.unwrap();
    assert_eq!(store.node_of(&subnet(1)).await.unwrap().as_deref(), Some("n1"));
    drop(store);
    let store = EmbeddedStore::open(&path).await.unwrap();
    assert_eq!(store.node_of(&subnet(1)).await.unwrap().as_deref(), Some("n1"));
    assert!(store.delete(&renewed.subnet, None).await.unwrap());
    store.create(&subnet(1), &attrs(2), HOUR).await.unwrap().unwrap();
    assert_eq!(store.node_of(&subnet(1)).await.unwrap(), None);
}

#[tokio::test]
async fn watches_start_with_a_snapshot_and_see_every_change_in_order() {
    let store = EmbeddedStore::in_memory().unwrap();
    let one = store.create(&subnet(1), &attrs(1), None).await.unwrap().unwrap();
    let mut watch = store.watch_leases().await;
    let start = next(&mut watch).await;
    assert_eq!(start, Update { revision: one.revision, change: Change::Snapshot(vec![one.clone()]) });
    let two = store.create(&subnet(2), &attrs(2), None).await.unwrap().unwrap();
    assert_eq!(next(&mut watch).await.change, Change::Events(vec![LeaseEvent::Added(two)]));
    store.delete(&subnet(1), None).await.unwrap();
    assert_eq!(next(&mut watch).await.change, Change::Events(vec![LeaseEvent::Removed(subnet(1))]));
    drop(store);
    assert_eq!(timeout(LONG, watch.recv()).await.unwrap(), None, "the watch ends with the store");
}

#[tokio::test]
async fn leases_end_on_time_and_say_so() {
    let store = EmbeddedStore::in_memory().unwrap();
    let mut watch = store.watch_leases().await;
    next(&mut watch).await;
    store.create(&subnet(9), &attrs(9), HOUR).await.unwrap().unwrap();
    let short = store.create(&subnet(1), &attrs(1), Some(Duration::from_millis(300))).await.unwrap().unwrap();
    let mut removed = false;
    while !removed {
        removed = next(&mut watch).await.change == Change::Events(vec![LeaseEvent::Removed(subnet(1))]);
    }
    assert_eq!(store.replace(&short, &attrs(1), HOUR).await.unwrap(), None, "ended");
    assert_eq!(leases(&store).await.len(), 1);
    assert!(store.create(&subnet(1), &attrs(2), HOUR).await.unwrap().is_some(), "free again");
}

#[tokio::test]
async fn a_restart_keeps_everything_and_starts_new_revisions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/er/store");
    let store = EmbeddedStore::open(&path).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    store.put_config("{\"Network\":\"10.1.0.0/16\"}").await.unwrap();
    let kept = store.create(&subnet(1), &attrs(1), None).await.unwrap().unwrap();
    let timed = store.create(&subnet(2), &attrs(2), Some(Duration::from_hours(2))).await.unwrap().unwrap();
    store.create(&subnet(3), &attrs(3), None).await.unwrap().unwrap();
    store.delete(&subnet(3), None).await.unwrap();
    let before = store.list().await.unwrap().revision;
    drop(store);

    let store = EmbeddedStore::open(&path).await.unwrap();
    let listing = store.list().await.unwrap();
    assert!(listing.revision > before);
    assert_eq!(listing.leases.len(), 2);
    assert_eq!(listing.leases[0], kept);
    let left = listing.leases[1].ttl.unwrap();
    assert!(left <= Duration::from_hours(2) && left > Duration::from_secs(7100), "{left:?}");
    assert_eq!(store.config().await.unwrap().as_deref(), Some("{\"Network\":\"10.1.0.0/16\"}"));
    assert!(store.replace(&timed, &attrs(2), HOUR).await.unwrap().is_some(), "renewable with the revision from before");
}

/// The file as it would be after `kill -9`: every write was synced before its call returned, and nothing was closed.
#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("store"), directory.path().join("copy"));
    let store = EmbeddedStore::open(&path).await.unwrap();
    for third in 1..=30 {
        store.create(&subnet(third), &attrs(third), HOUR).await.unwrap().unwrap();
        fs::copy(&path, &copy).unwrap();
        let revived = EmbeddedStore::open(&copy).await.unwrap();
        assert_eq!(leases(&revived).await.len(), usize::from(third));
    }
    assert_eq!(leases(&store).await.len(), 30);
}

#[tokio::test]
async fn the_config_is_watched() {
    let store = EmbeddedStore::in_memory().unwrap();
    let mut watch = store.watch_config().await;
    assert_eq!(store.config().await.unwrap(), None);
    store.put_config("one").await.unwrap();
    assert_eq!(timeout(LONG, watch.recv()).await.unwrap().unwrap(), "one");
    store.put_config("one").await.unwrap();
    store.put_config("two").await.unwrap();
    assert_eq!(timeout(LONG, watch.recv()).await.unwrap().unwrap(), "two");
    assert_eq!(timeout(LONG, store.watch_config().await.recv()).await.unwrap().unwrap(), "two");
}

#[tokio::test]
async fn bad_files_are_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let open = async |path: &Path| EmbeddedStore::open(path).await.map(drop).unwrap_err().to_string();

    let text = directory.path().join("text");
    fs::write(&text, "this is not a database, and it is long enough to be looked at").unwrap();
    let error = open(&text).await;
    assert!(error.contains("not a readable store") && error.contains("text") && error.contains("backup"), "{error}");
    assert!(fs::read_to_string(&text).unwrap().starts_with("this is not"));

    let error = open(directory.path()).await;
    assert!(error.contains("directory"), "{error}");
    let error = open(&text.join("store")).await;
    assert!(error.contains("the directory could not be created"), "{error}");

    let path = directory.path().join("store");
    let store = EmbeddedStore::open(&path).await.unwrap();
    let error = open(&path).await;
    assert!(error.contains("in use by another process") && error.contains("--store"), "{error}");
    for third in 1..=100 {
        store.create(&subnet(third), &attrs(third), HOUR).await.unwrap().unwrap();
    }
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.windows(8).rposition(|window| window == b"PublicIP").unwrap();
    bytes[middle] ^= 0xff;
    fs::write(&path, &bytes).unwrap();
    let damaged = EmbeddedStore::open(&path).await;
    match damaged {
        Err(error) => assert!(error.to_string().contains("not a readable store"), "{error}"),
        // The damaged page may be one that is no longer in use.
        Ok(store) => assert_eq!(leases(&store).await.len(), 100),
    }
}
