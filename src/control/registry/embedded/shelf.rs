//! The policy objects of a store, in memory: what reads and watches are served from.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::control::registry::{PolicyEntry, PolicyEvent, PolicyUpdate};
use crate::policy::model::ObjectId;

/// How many writes a watcher may be behind before it gets a snapshot instead.
const WRITES_KEPT: usize = 256;

/// How many updates may wait for a slow receiver.
const IN_FLIGHT: usize = 8;

/// Objects by what they are called, and who wants to know of changes.
#[derive(Debug)]
pub(super) struct Shelf {
    objects: Mutex<BTreeMap<ObjectId, String>>,
    writes: broadcast::Sender<Arc<Vec<PolicyEvent>>>,
}

impl Shelf {
    /// A shelf that starts with `entries`.
    pub(super) fn new(entries: Vec<PolicyEntry>) -> Self {
        let objects = entries.into_iter().map(|entry| (entry.id, entry.body)).collect();
        Self { objects: Mutex::new(objects), writes: broadcast::Sender::new(WRITES_KEPT) }
    }

    /// Takes in what has been written.
    pub(super) fn apply(&self, events: Vec<PolicyEvent>) {
        let mut objects = self.locked();
        for event in &events {
            match event {
                PolicyEvent::Put(entry) => drop(objects.insert(entry.id.clone(), entry.body.clone())),
                PolicyEvent::Deleted(id) => drop(objects.remove(id)),
            }
        }
        // With the lock held, so that a snapshot and what follows it fit together. Without watchers there is nobody to tell.
        let _ = self.writes.send(Arc::new(events));
    }

    /// Everything there is.
    pub(super) fn entries(&self) -> Vec<PolicyEntry> {
        entries(&self.locked())
    }

    /// Everything, then what changes. Ends with the receiver or with `end`.
    pub(super) fn watch(self: &Arc<Self>, end: CancellationToken) -> mpsc::Receiver<PolicyUpdate> {
        let (sender, receiver) = mpsc::channel(IN_FLIGHT);
        let objects = Arc::clone(self);
        tokio::spawn(async move {
            let (mut update, mut writes) = objects.begin();
            loop {
                tokio::select! {
                    sent = sender.send(update) => if sent.is_err() { return },
                    () = end.cancelled() => return,
                }
                let heard = tokio::select! {
                    heard = writes.recv() => heard,
                    () = sender.closed() => return,
                    () = end.cancelled() => return,
                };
                update = match heard {
                    Ok(events) => PolicyUpdate::Events(events.to_vec()),
                    Err(broadcast::error::RecvError::Closed) => return,
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        let (update, anew) = objects.begin();
                        writes = anew;
                        update
                    }
                };
            }
        });
        receiver
    }

    /// A snapshot, and whatever comes after it.
    fn begin(&self) -> (PolicyUpdate, broadcast::Receiver<Arc<Vec<PolicyEvent>>>) {
        let objects = self.locked();
        (PolicyUpdate::Snapshot(entries(&objects)), self.writes.subscribe())
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<ObjectId, String>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entries(objects: &BTreeMap<ObjectId, String>) -> Vec<PolicyEntry> {
    objects.iter().map(|(id, body)| PolicyEntry { id: id.clone(), body: body.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(name: &str, body: &str) -> PolicyEvent {
        PolicyEvent::Put(PolicyEntry { id: ObjectId::Namespace(name.into()), body: body.into() })
    }

    #[tokio::test]
    async fn a_watcher_far_behind_gets_a_snapshot() {
        let shelf = Arc::new(Shelf::new(Vec::new()));
        let mut watch = shelf.watch(CancellationToken::new());
        assert_eq!(watch.recv().await, Some(PolicyUpdate::Snapshot(Vec::new())));
        shelf.apply(vec![put("a", "1")]);
        assert_eq!(watch.recv().await, Some(PolicyUpdate::Events(vec![put("a", "1")])));
        // Without a pause for the watcher's task in between.
        for number in 0..=WRITES_KEPT {
            shelf.apply(vec![put("b", &number.to_string())]);
        }
        shelf.apply(vec![PolicyEvent::Deleted(ObjectId::Namespace("a".into()))]);
        let Some(PolicyUpdate::Snapshot(entries)) = watch.recv().await else { panic!("expected a snapshot") };
        assert_eq!(entries, [PolicyEntry { id: ObjectId::Namespace("b".into()), body: WRITES_KEPT.to_string() }]);
        shelf.apply(vec![put("c", "1")]);
        assert_eq!(watch.recv().await, Some(PolicyUpdate::Events(vec![put("c", "1")])));
    }
}
