//! The policy routes: everything, what has changed, and writing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::answer::{self, Answer, Refusal};
use super::handler::{Asker, Handler, Params};
use super::journal::{Change, Journal, News};
use super::leases::cursor;
use super::upstream::ECHO;
use crate::control::registry::{CALL_TIMEOUT, PolicyEntry, PolicyEvent, PolicyStore, PolicyUpdate, RegistryError, policy_key};
use crate::control::v1::{ANSWER_LIMIT, PolicyBody, PolicyChangeBody, PolicyWatchBody};
use crate::policy::model::ObjectId;

/// The longest a client may ask to wait: what is between us may forget connections that are silent for longer.
const LONGEST_WAIT: u64 = 300;

/// The policy objects of a registry, followed for all clients.
pub(super) struct Policies {
    store: Arc<dyn PolicyStore>,
    journal: Arc<Journal<ObjectId, Arc<str>>>,
    /// The last snapshot made, by its cursor: after a start of this server every client asks for the same one.
    snapshot: Mutex<Option<(u64, Bytes)>>,
}

impl Policies {
    /// Follows the objects in `store` until `stop`.
    async fn follow(store: Arc<dyn PolicyStore>, stop: CancellationToken) -> Self {
        let journal = Arc::new(Journal::new(weight));
        let mut updates = store.watch_policies().await;
        let target = Arc::clone(&journal);
        let taking = async move {
            while let Some(update) = updates.recv().await {
                match update {
                    PolicyUpdate::Snapshot(entries) => target.replace(entries.into_iter().map(named)),
                    PolicyUpdate::Events(events) => target.apply(events.into_iter().map(|event| match event {
                        PolicyEvent::Put(entry) => {
                            let (id, body) = named(entry);
                            (id, Some(body))
                        }
                        PolicyEvent::Deleted(id) => (id, None),
                    })),
                }
            }
        };
        tokio::spawn(stop.run_until_cancelled_owned(taking));
        Self { store, journal, snapshot: Mutex::default() }
    }

    fn answer(&self, news: &News<ObjectId, Arc<str>>) -> Result<Answer, Refusal> {
        let cursor = news.cursor.to_string();
        let key = |id: &ObjectId| policy_key(id).ok();
        match &news.change {
            Change::Snapshot(things) => {
                if let Some(body) = self.kept(news.cursor) {
                    return Ok(answer::json_bytes(body));
                }
                let object = |(id, body): &(ObjectId, Arc<str>)| Some(PolicyBody { key: key(id)?, body: body.to_string() });
                let snapshot = Some(things.iter().filter_map(object).collect());
                let body = text(&PolicyWatchBody { events: None, snapshot, cursor })?;
                if body.len() > ANSWER_LIMIT {
                    let (count, size) = (things.len(), body.len() >> 20);
                    let text = format!("{count} policy objects of {size} MiB in all are more than an answer holds, 64 MiB");
                    return Err(Refusal::failed(text));
                }
                let body = Bytes::from(body);
                *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Some((news.cursor, body.clone()));
                Ok(answer::json_bytes(body))
            }
            Change::Events(events) => {
                let change = |(id, body): &(ObjectId, Option<Arc<str>>)| {
                    let key = key(id)?;
                    Some(match body {
                        Some(body) => PolicyChangeBody::Put { key, body: body.to_string() },
                        None => PolicyChangeBody::Deleted { key },
                    })
                };
                let events = Some(events.iter().filter_map(change).collect());
                Ok(answer::json_bytes(text(&PolicyWatchBody { events, snapshot: None, cursor })?.into()))
            }
        }
    }

    fn kept(&self, cursor: u64) -> Option<Bytes> {
        let kept = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(at, _)| *at == cursor).map(|(_, body)| body.clone())
    }

    /// Waits, not for long, until the watch has shown what was written, so that a client reads it.
    async fn echo(&self, written: &[PolicyEvent]) {
        let wanted: BTreeMap<&ObjectId, Option<&str>> = written
            .iter()
            .map(|event| match event {
                PolicyEvent::Put(entry) => (&entry.id, Some(entry.body.as_str())),
                PolicyEvent::Deleted(id) => (id, None),
            })
            .collect();
        let shown =
            |there: &BTreeMap<ObjectId, Arc<str>>| wanted.iter().all(|(id, body)| there.get(*id).map(AsRef::as_ref) == *body);
        // Without the echo what was written stands all the same.
        let _ = timeout(ECHO, self.journal.until(shown)).await;
    }
}

impl Handler {
    /// All objects, or what has changed since a cursor.
    pub(super) async fn tell_policies(&self, params: Params) -> Result<Answer, Refusal> {
        let cursor = cursor(params.next)?;
        let policies = self.policies().await?;
        let journal = &policies.journal;
        if timeout(CALL_TIMEOUT, journal.started()).await.is_err() {
            let registry = policies.store.policy_place();
            return Err(RegistryError::Unreachable { registry, reason: "no policy objects heard of yet".into() }.into());
        }
        let news = match (cursor, params.wait) {
            (None, _) => journal.snapshot().await,
            (Some(cursor), None) => self.hold(journal.after(cursor)).await?,
            (Some(cursor), Some(seconds)) => {
                let longest = Duration::from_secs(seconds.min(LONGEST_WAIT));
                let nothing = News { cursor, change: Change::Events(Vec::new()) };
                timeout(longest, self.hold(journal.after(cursor))).await.unwrap_or(Ok(nothing))?
            }
        };
        policies.answer(&news)
    }

    /// Writes what a list of changes asks for; nothing if one of them makes no sense.
    pub(super) async fn write_policies(&self, body: Bytes, asker: Asker) -> Result<Answer, Refusal> {
        let undecodable = |error| Refusal::bad_request(format!("JSON decoding error: {error}"));
        let changes: Vec<PolicyChangeBody> = serde_json::from_slice(&body).map_err(undecodable)?;
        let mut events = Vec::with_capacity(changes.len());
        for (number, change) in changes.into_iter().enumerate() {
            let key = change.key().to_owned();
            events.push(change.into_event().ok_or_else(|| {
                let expected = "expected a key of the form <kind>/<namespace or _>/<name>, such as networkpolicy/web/deny";
                Refusal::bad_request(format!("change {number}: {expected}, found {key:?}"))
            })?);
        }
        let policies = self.policies().await?;
        policies.store.write_policies(&events).await?;
        info!(by = %asker.address, changes = events.len(), "policy objects written");
        policies.echo(&events).await;
        Ok(answer::empty())
    }

    async fn policies(&self) -> Result<&Policies, RegistryError> {
        let follow = async || Ok(Policies::follow(self.registry.policy_store()?, self.stop.clone()).await);
        self.policies.get_or_try_init(follow).await
    }
}

fn named(entry: PolicyEntry) -> (ObjectId, Arc<str>) {
    (entry.id, entry.body.into())
}

fn weight(_: &ObjectId, body: Option<&Arc<str>>) -> usize {
    // A key, and what is around it.
    100 + body.map_or(0, |body| body.len())
}

fn text(body: &PolicyWatchBody) -> Result<String, Refusal> {
    let text = serde_json::to_string(body).map_err(|error| Refusal::failed(error.to_string()))?;
    Ok(text + "\n")
}
