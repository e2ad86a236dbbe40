//! Policy objects in etcd: how they lie there, and what a watch of them survives.

use std::sync::Arc;

use felt::control::registry::{PolicyEntry, PolicyEvent, PolicyUpdate, Registry as _};
use felt::control::source::{PolicySource as _, RegistrySource, SourceNews, SourceReport};
use felt::policy::Change as Known;
use felt::policy::model::{Object, ObjectId};

use super::*;

fn id(name: &str) -> ObjectId {
    ObjectId::Namespace(name.into())
}

fn put(name: &str, label: &str) -> PolicyEvent {
    let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"labels":{{"is":"{label}"}},"name":"{name}"}}}}"#);
    PolicyEvent::Put(PolicyEntry { id: id(name), body })
}

fn key_of(name: &str) -> String {
    format!("{PREFIX}/policy/namespace/_/{name}")
}

async fn news(reports: &mut Receiver<SourceReport>) -> SourceReport {
    timeout(SOON, reports.recv()).await.expect("a report in time").expect("the source lives")
}

fn names(news: &SourceNews) -> Vec<String> {
    match news {
        SourceNews::Snapshot(objects) => {
            let mut names: Vec<_> = objects.iter().map(|object| format!("has {}", name(object))).collect();
            names.sort();
            names
        }
        SourceNews::Changes(changes) => changes
            .iter()
            .map(|change| match change {
                Known::Put(object) => format!("put {}", name(object)),
                Known::Delete(id) => format!("delete {id}"),
            })
            .collect(),
    }
}

fn name(object: &Object) -> String {
    match object {
        Object::Namespace(namespace) => format!("{}={}", namespace.name, namespace.labels["is"]),
        other => other.id().to_string(),
    }
}

#[tokio::test]
async fn objects_lie_beside_the_leases_and_are_told_as_they_change() {
    let (etcd, registry) = start().await;
    let store = registry.policy_store().unwrap();
    let mut reports = Box::new(RegistrySource::new(Arc::clone(&store))).follow();
    assert_eq!(news(&mut reports).await.news, SourceNews::Snapshot(Vec::new()));

    store.write_policies(&[put("a", "1"), put("b", "1")]).await.unwrap();
    assert_eq!(names(&news(&mut reports).await.news), ["put a=1", "put b=1"]);
    let kept = etcd.client().await.get(key_of("a"), None).await.unwrap();
    assert!(kept.kvs()[0].value_str().unwrap().starts_with(r#"{"apiVersion":"v1","kind":"Namespace""#));
    store.write_policies(&[PolicyEvent::Deleted(id("a")), PolicyEvent::Deleted(id("nobody"))]).await.unwrap();
    assert_eq!(names(&news(&mut reports).await.news), ["delete Namespace a"]);
    assert_eq!(store.policies().await.unwrap().into_iter().map(|entry| entry.id).collect::<Vec<_>>(), [id("b")]);

    // Put there by somebody else: no object's key, and no object.
    etcd.put(&format!("{PREFIX}/policy/secret/x/y"), "{}").await;
    etcd.put(&key_of("b"), "nonsense").await;
    let report = news(&mut reports).await;
    assert_eq!((report.news, report.complaints.len()), (SourceNews::none(), 1));
    assert!(report.complaints[0].text.ends_with("stays in force"), "{:?}", report.complaints);
    // Leases are none of these, nor are these leases.
    create(registry.store(), "10.3.1.0-24", OTHER, Some(LEASE_TTL)).await;
    assert_eq!(registry.store().list().await.unwrap().leases.len(), 1);
}

#[tokio::test]
async fn more_than_one_transaction_takes_is_written_all_the_same() {
    let (_etcd, registry) = start().await;
    let store = registry.policy_store().unwrap();
    let large = "x".repeat(300_000);
    let many: Vec<_> = (0..250).map(|number| put(&format!("n{number}"), "1")).collect();
    let heavy: Vec<_> = (0..9).map(|number| put(&format!("h{number}"), &large)).collect();
    store.write_policies(&[many, heavy].concat()).await.unwrap();
    assert_eq!(store.policies().await.unwrap().len(), 259);
}

#[tokio::test]
async fn a_watch_goes_on_after_a_restart_and_after_compaction() {
    let (mut etcd, registry) = start().await;
    let store = registry.policy_store().unwrap();
    let mut updates = store.watch_policies().await;
    let first = timeout(SOON, updates.recv()).await.unwrap();
    assert_eq!(first, Some(PolicyUpdate::Snapshot(Vec::new())));
    etcd.kill();
    etcd.restart().await;
    // Meanwhile, and before the watch is back: deleted, written twice, and the way there forgotten.
    for text in ["1", "2"] {
        etcd.put(&key_of("a"), text).await;
    }
    etcd.compact().await;
    let there = async {
        loop {
            let entries = match updates.recv().await.expect("the watch lives") {
                PolicyUpdate::Snapshot(entries) => entries,
                PolicyUpdate::Events(events) => events
                    .into_iter()
                    .filter_map(|event| match event {
                        PolicyEvent::Put(entry) => Some(entry),
                        PolicyEvent::Deleted(_) => None,
                    })
                    .collect(),
            };
            if entries.iter().any(|entry| entry.id == id("a") && entry.body == "2") {
                return;
            }
        }
    };
    timeout(Duration::from_secs(15), there).await.expect("the last state is told");
}
