//! Policy objects in the embedded store, and the source that follows them.

use std::sync::Arc;
use std::time::Duration;

use felt::control::registry::embedded::EmbeddedStore;
use felt::control::registry::{PolicyEntry, PolicyEvent, PolicyStore, Registry as _, StoreRegistry};
use felt::control::source::{PolicySource as _, RegistrySource, SourceNews};
use felt::policy::Change;
use felt::policy::model::ObjectId;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(5);

fn put(name: &str) -> PolicyEvent {
    let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
    PolicyEvent::Put(PolicyEntry { id: ObjectId::Namespace(name.into()), body })
}

fn deleted(name: &str) -> PolicyEvent {
    PolicyEvent::Deleted(ObjectId::Namespace(name.into()))
}

#[tokio::test]
async fn objects_outlive_the_process_and_a_source_follows_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("registry.redb");
    {
        let store = EmbeddedStore::open(&file).await.unwrap();
        store.write_policies(&[put("a"), put("b"), put("c"), deleted("c"), deleted("nobody")]).await.unwrap();
    }
    let registry = StoreRegistry::with_default_ttl(EmbeddedStore::open(&file).await.unwrap());
    let store = registry.policy_store().unwrap();
    assert_eq!(store.policies().await.unwrap().len(), 2);
    let mut reports = Box::new(RegistrySource::new(Arc::clone(&store))).follow();
    let mut next = async || timeout(SOON, reports.recv()).await.expect("in time").expect("it lives").news;
    let SourceNews::Snapshot(objects) = next().await else { panic!("expected a snapshot") };
    assert_eq!(objects.len(), 2);
    store.write_policies(&[put("d"), deleted("a")]).await.unwrap();
    let SourceNews::Changes(changes) = next().await else { panic!("expected changes") };
    assert!(matches!(&changes[..], [Change::Put(object), Change::Delete(id)]
        if object.id() == ObjectId::Namespace("d".into()) && *id == ObjectId::Namespace("a".into())));
}
