//! Policy objects from a registry, as `felt policy apply` puts them there.
//!
//! What names an object is its key. One whose body cannot be read keeps the form it had before, if it had one: a typing error
//! opens nothing that was closed.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::reading::{closed, read_body};
use super::{AHEAD, Complaint, PolicySource, SourceNews, SourceReport};
use crate::control::registry::{PolicyEntry, PolicyEvent, PolicyStore, PolicyUpdate};
use crate::policy::Change;
use crate::policy::model::{Object, ObjectId};

/// The policy objects of a registry.
pub struct RegistrySource {
    store: Arc<dyn PolicyStore>,
}

impl RegistrySource {
    /// Follows what `store` keeps.
    #[must_use]
    pub fn new(store: Arc<dyn PolicyStore>) -> Self {
        Self { store }
    }
}

impl PolicySource for RegistrySource {
    fn describe(&self) -> String {
        self.store.policy_place()
    }

    fn follow(self: Box<Self>) -> mpsc::Receiver<SourceReport> {
        let (sender, receiver) = mpsc::channel(AHEAD);
        tokio::spawn(async move {
            let mut updates = self.store.watch_policies().await;
            let mut known = Known { place: self.store.policy_place(), held: HashMap::new() };
            loop {
                let update = tokio::select! {
                    update = updates.recv() => update,
                    () = sender.closed() => return,
                };
                // A watch never ends; if it does all the same, whoever hears us is told by our silence.
                let Some(update) = update else { return };
                if sender.send(known.take(update)).await.is_err() {
                    return;
                }
            }
        });
        receiver
    }
}

/// What lies in the registry, as it was understood.
struct Known {
    place: String,
    held: HashMap<ObjectId, Held>,
}

#[derive(Default)]
struct Held {
    body: String,
    /// `None`: it could never be read.
    object: Option<Object>,
}

impl Known {
    fn take(&mut self, update: PolicyUpdate) -> SourceReport {
        let mut complaints = Vec::new();
        let news = match update {
            PolicyUpdate::Snapshot(entries) => {
                let mut before = std::mem::take(&mut self.held);
                for entry in entries {
                    // Kept, if it is there still: what was understood once need not be read again, nor complained of.
                    if let Some(held) = before.remove(&entry.id) {
                        self.held.insert(entry.id.clone(), held);
                    }
                    self.put(entry, &mut complaints);
                }
                SourceNews::Snapshot(self.held.values().filter_map(|held| held.object.clone()).collect())
            }
            PolicyUpdate::Events(events) => {
                let changes = events.into_iter().filter_map(|event| match event {
                    PolicyEvent::Put(entry) => self.put(entry, &mut complaints).map(Change::Put),
                    PolicyEvent::Deleted(id) => self.held.remove(&id).and_then(|held| held.object).map(|_| Change::Delete(id)),
                });
                SourceNews::Changes(changes.collect())
            }
        };
        SourceReport { news, complaints }
    }

    /// Takes in an entry; the object if it is new.
    fn put(&mut self, entry: PolicyEntry, complaints: &mut Vec<Complaint>) -> Option<Object> {
        let PolicyEntry { id, body } = entry;
        let held = self.held.entry(id.clone()).or_default();
        if held.body == body {
            return None;
        }
        let read = read_body(&id, &body);
        held.body = body;
        match read {
            Ok((object, remarks)) => {
                complaints.extend(remarks.iter().map(|remark| Complaint::remark(&self.place, remark)));
                held.object = Some(object.clone());
                Some(object)
            }
            Err(error) => {
                let stays = held.object.is_some();
                // Its key names a policy that somebody has put there: without it, pods would be open that it may close.
                let instead = if stays { None } else { closed(&id) };
                let follows = match (stays, &instead) {
                    (true, _) => "as it was before stays in force",
                    (false, Some(_)) => "closes whatever it may be about",
                    (false, None) => "is not in force",
                };
                complaints.push(Complaint::error(&self.place, format!("{error}; {id} {follows}")));
                held.object = held.object.take().or_else(|| instead.clone());
                instead
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::PolicyKind;

    fn entry(name: &str, body: &str) -> PolicyEntry {
        PolicyEntry { id: ObjectId::Namespace(name.into()), body: body.into() }
    }

    fn namespace(name: &str, label: &str) -> PolicyEntry {
        let labels = format!(r#"{{"is":"{label}"}}"#);
        entry(name, &format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}","labels":{labels}}}}}"#))
    }

    fn known() -> Known {
        Known { place: "store".into(), held: HashMap::new() }
    }

    fn label(news: &SourceNews, at: usize) -> String {
        let object = match news {
            SourceNews::Snapshot(objects) => &objects[at],
            SourceNews::Changes(changes) => match &changes[at] {
                Change::Put(object) => object,
                Change::Delete(id) => panic!("{id} deleted"),
            },
        };
        let Object::Namespace(namespace) = object else { panic!("{object:?}") };
        namespace.labels["is"].clone()
    }

    #[test]
    fn an_unreadable_body_leaves_the_object_as_it_was() {
        let mut known = known();
        let first = known.take(PolicyUpdate::Snapshot(vec![namespace("a", "1"), entry("b", "{")]));
        assert_eq!((label(&first.news, 0).as_str(), first.complaints.len()), ("1", 1));
        assert!(first.complaints[0].text.ends_with("Namespace b is not in force"), "{:?}", first.complaints);
        let broken = known.take(PolicyUpdate::Events(vec![PolicyEvent::Put(entry("a", "nonsense"))]));
        assert_eq!((broken.news, broken.complaints.len()), (SourceNews::none(), 1));
        assert!(broken.complaints[0].text.ends_with("stays in force"), "{:?}", broken.complaints);
        // After a gap it is still as it was, and nothing is complained of again.
        let again = known.take(PolicyUpdate::Snapshot(vec![entry("b", "{"), entry("a", "nonsense")]));
        assert_eq!((label(&again.news, 0).as_str(), again.complaints), ("1", vec![]));
        let mended = known.take(PolicyUpdate::Events(vec![PolicyEvent::Put(namespace("a", "2"))]));
        assert_eq!(label(&mended.news, 0), "2");
    }

    #[test]
    fn a_policy_that_was_never_read_closes_until_it_is() {
        let id = ObjectId::Policy { kind: PolicyKind::NetworkPolicy, namespace: "web".into(), name: "p".into() };
        let mut known = known();
        let report = known.take(PolicyUpdate::Snapshot(vec![PolicyEntry { id: id.clone(), body: "{".into() }]));
        let SourceNews::Snapshot(objects) = &report.news else { panic!() };
        assert!(objects.len() == 1 && objects[0].id() == id, "{objects:?}");
        assert!(report.complaints[0].text.ends_with("closes whatever it may be about"), "{:?}", report.complaints);
        let report = known.take(PolicyUpdate::Events(vec![PolicyEvent::Deleted(id.clone())]));
        assert_eq!(report.news, SourceNews::Changes(vec![Change::Delete(id)]));
    }

    #[test]
    fn what_is_not_in_a_snapshot_is_gone_and_what_was_never_there_goes_unsaid() {
        let mut known = known();
        known.take(PolicyUpdate::Snapshot(vec![namespace("a", "1"), namespace("b", "1")]));
        let report = known.take(PolicyUpdate::Snapshot(vec![namespace("b", "2")]));
        let SourceNews::Snapshot(objects) = &report.news else { panic!() };
        assert_eq!((objects.len(), label(&report.news, 0).as_str()), (1, "2"));
        let deleted = |name: &str| PolicyEvent::Deleted(ObjectId::Namespace(name.into()));
        let report = known.take(PolicyUpdate::Events(vec![deleted("a"), deleted("b")]));
        assert_eq!(report.news, SourceNews::Changes(vec![Change::Delete(ObjectId::Namespace("b".into()))]));
    }
}
