//! Policy objects behind a server: read, written in portions, and watched by long polls.
//!
//! A watch keeps its cursor through every failure. What the server cannot tell from there on, because it was restarted or has forgotten,
//! it tells as a snapshot. While contact is lost it is asked for an answer at once, so that its return is noticed at once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hyper::{Method, StatusCode};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::client::{Client, Failure};
use super::registry::{RemoteRegistry, encode, text};
use crate::control::contact::Link;
use crate::control::registry::{PolicyEntry, PolicyEvent, PolicyStore, PolicyUpdate, RegistryError, no_policies};
use crate::control::v1::{PolicyBody, PolicyChangeBody, PolicyWatchBody};

const POLICY: &str = "/_/policy";

/// How long a poll waits on the server before it is answered without news: that answer is the sign of life.
const WAIT: Duration = Duration::from_secs(45);

/// How long an answer may take beyond what it was asked to wait. Everything there is may be some MiB, over a slow path.
const GRACE: Duration = Duration::from_secs(15);

/// Most changes written at a time, and most bytes of manifests, unless a single one has more: far below what a server takes.
const AT_ONCE: (usize, usize) = (500, 1 << 20);

/// Pauses between attempts: the first, doubling up to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

#[async_trait]
impl PolicyStore for RemoteRegistry {
    fn policy_place(&self) -> String {
        format!("policies of {}", self.client.name())
    }

    async fn policies(&self) -> Result<Vec<PolicyEntry>, RegistryError> {
        let body = ask(&self.client, None, Duration::ZERO).await?;
        let objects = body.snapshot.ok_or_else(|| self.client.nonsense("no list of policy objects"))?;
        Ok(objects.into_iter().filter_map(PolicyBody::into_entry).collect())
    }

    async fn write_policies(&self, events: &[PolicyEvent]) -> Result<(), RegistryError> {
        // All of them first, so that nothing is written if one cannot be.
        let changes = events.iter().map(PolicyChangeBody::of).collect::<Result<Vec<_>, _>>();
        let changes = changes.map_err(RegistryError::Unsupported)?;
        for portion in portions(&changes) {
            let done = self.client.call(Method::POST, POLICY, Some(text(&portion))).await;
            done.map_err(|failure| without_policy(&self.client, failure))?;
        }
        Ok(())
    }

    async fn watch_policies(&self) -> mpsc::Receiver<PolicyUpdate> {
        let (sender, receiver) = mpsc::channel(8);
        let (client, link) = (Arc::clone(&self.client), self.contact.join());
        tokio::spawn(async move {
            let mut watch = Watch { client: &client, link, sender: &sender, cursor: None, lost: false, told: Told::default() };
            tokio::select! {
                () = sender.closed() => {}
                () = watch.run() => {}
            }
        });
        receiver
    }
}

/// A watch, as far as it has come.
struct Watch<'a> {
    client: &'a Client,
    link: Link,
    sender: &'a mpsc::Sender<PolicyUpdate>,
    /// Up to where the receiver knows everything; `None` at first.
    cursor: Option<String>,
    /// Whether the last attempt failed.
    lost: bool,
    told: Told,
}

/// What the log was told once.
#[derive(Default)]
struct Told {
    unsupported: bool,
    unknown: bool,
}

impl Watch<'_> {
    /// Until the receiver is gone.
    async fn run(&mut self) {
        let mut pause = PAUSES.0;
        loop {
            let asked = Instant::now();
            let wait = if self.lost { Duration::ZERO } else { WAIT };
            let done = match ask(self.client, self.cursor.as_deref(), wait).await {
                Ok(body) => self.take(body).await,
                Err(error) => Err(error),
            };
            let advanced = match done {
                Ok(Step::End) => return,
                Ok(Step::Known { advanced }) => {
                    self.link.regained();
                    (self.lost, self.told.unsupported) = (false, false);
                    advanced || asked.elapsed() >= PAUSES.1
                }
                Err(error) => {
                    self.fail(&error);
                    false
                }
            };
            // Also where the server answers at once and says nothing new: whatever is wrong there, it is not to be hammered.
            if advanced {
                pause = PAUSES.0;
            } else {
                // A random part keeps the nodes of a restarted server apart.
                sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
                pause = if self.lost { (pause * 2).min(PAUSES.1) } else { PAUSES.0 };
            }
        }
    }

    async fn take(&mut self, body: PolicyWatchBody) -> Result<Step, RegistryError> {
        let update = match (body.snapshot, body.events) {
            (Some(objects), _) => {
                let count = objects.len();
                let entries: Vec<_> = objects.into_iter().filter_map(PolicyBody::into_entry).collect();
                self.skipped(count - entries.len());
                Some(PolicyUpdate::Snapshot(entries))
            }
            (None, Some(events)) => {
                let count = events.len();
                let events: Vec<_> = events.into_iter().filter_map(PolicyChangeBody::into_event).collect();
                self.skipped(count - events.len());
                (!events.is_empty()).then_some(PolicyUpdate::Events(events))
            }
            (None, None) => return Err(self.client.nonsense("an answer about policy with neither snapshot nor events")),
        };
        let cursor = Some(body.cursor);
        let advanced = self.cursor.is_none() || (cursor != self.cursor && matches!(update, Some(PolicyUpdate::Events(_)) | None));
        self.cursor = cursor;
        if let Some(update) = update
            && self.sender.send(update).await.is_err()
        {
            return Ok(Step::End);
        }
        Ok(Step::Known { advanced })
    }

    fn fail(&mut self, error: &RegistryError) {
        self.lost = true;
        if !matches!(error, RegistryError::Unsupported(_)) {
            self.link.lost(&error.reason());
        } else if !std::mem::replace(&mut self.told.unsupported, true) {
            warn!("{error}; trying again");
        }
    }

    fn skipped(&mut self, count: usize) {
        if count > 0 && !std::mem::replace(&mut self.told.unknown, true) {
            warn!("{}: {count} policy objects of a kind unknown to this version are skipped", self.client.name());
        }
    }
}

/// What came of an answer.
enum Step {
    /// Nobody listens any more.
    End,
    /// Its news, if any, were passed on; whether there were some.
    Known { advanced: bool },
}

/// Everything, or what has changed since `cursor`, waiting for that if need be.
async fn ask(client: &Client, cursor: Option<&str>, wait: Duration) -> Result<PolicyWatchBody, RegistryError> {
    let (path, limit) = match cursor {
        None => (POLICY.to_owned(), GRACE),
        Some(cursor) => (format!("{POLICY}?next={}&wait={}", encode(cursor), wait.as_secs()), wait + GRACE),
    };
    let reply = client.call_within(limit, Method::GET, &path, None).await.map_err(|failure| without_policy(client, failure))?;
    client.read(&reply)
}

/// A server without these routes knows nothing of policy.
fn without_policy(client: &Client, failure: Failure) -> RegistryError {
    if failure.status == Some(StatusCode::NOT_FOUND) { no_policies(client.name()) } else { failure.error }
}

/// The changes in portions that a server takes.
fn portions(changes: &[PolicyChangeBody]) -> Vec<&[PolicyChangeBody]> {
    let mut portions = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (at, change) in changes.iter().enumerate() {
        let size = match change {
            PolicyChangeBody::Put { key, body } => key.len() + body.len(),
            PolicyChangeBody::Deleted { key } => key.len(),
        };
        if at > begin && (at - begin == AT_ONCE.0 || bytes + size > AT_ONCE.1) {
            portions.extend(changes.get(begin..at));
            (begin, bytes) = (at, 0);
        }
        bytes += size;
    }
    portions.extend(changes.get(begin..).filter(|rest| !rest.is_empty()));
    portions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: usize) -> PolicyChangeBody {
        PolicyChangeBody::Put { key: String::new(), body: "x".repeat(bytes) }
    }

    #[test]
    fn portions_are_bounded_and_nothing_is_left_out() {
        let lengths = |changes: &[PolicyChangeBody]| portions(changes).iter().map(|portion| portion.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&vec![put(1); 1200]), [500, 500, 200]);
        assert_eq!(lengths(&[put(AT_ONCE.1), put(1), put(1), put(2 * AT_ONCE.1), put(1)]), [1, 2, 1, 1]);
    }
}
