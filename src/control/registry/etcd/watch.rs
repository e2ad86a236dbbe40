//! A watch that never ends: list, watch from the next revision on, and start over when anything breaks.
//!
//! | what happens | what is done |
//! |---|---|
//! | error, end of stream, silence | reconnect with back-off, resume after the last revision seen |
//! | compacted beyond our revision | list again, a snapshot goes out |
//! | the cluster's revision is behind ours (wiped or restored) | list again |
//! | every ten minutes | list again, in case all of the above was not enough |
//!
//! Silence is noticed by HTTP/2 pings where the server is gone, and by progress requests where something between us keeps the
//! connection alive without it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Event, WatchOptions, WatchResponse, WatchStream};
use rand::RngExt;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::client::{Cluster, Failure, Session, TRY_TIMEOUT};
use super::error::Remedy;
use super::store::LARGEST_ANSWER;
use crate::control::contact::Link;
use crate::control::registry::RegistryError;

/// Pauses between attempts double from the first to the last; each is then cut by up to a half at random, so that the nodes of a
/// cluster do not come back in step. With the longest one and a slow connection, news is still heard within 5 s of etcd's return.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

/// After so much silence the server is asked for a sign of life.
const QUIET: Duration = Duration::from_secs(10);

/// How long that sign may take. Generous: connections that are dead show in the pings long before; this is for a server that answers
/// those and has forgotten the watch.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// A stream that has lasted so long counts as contact; one that breaks sooner does not, or a server that hangs up at once would
/// fill the log.
const SETTLED: Duration = Duration::from_millis(500);

/// How often everything is listed again without a cause; up to a quarter more, at random.
const RESYNC: Duration = Duration::from_mins(10);

/// The receiver is gone.
#[derive(Debug)]
pub(super) struct Closed;

/// Whoever wants to know.
#[async_trait]
pub(super) trait Follower: Send + Sync + 'static {
    /// The key watched, or the prefix of keys if `true`.
    fn key(&self) -> (String, bool);
    /// Returns once nobody wants to know any more.
    async fn closed(&self);
    /// Reads and passes on everything; the revision it was read at.
    async fn snapshot(&mut self) -> Result<Result<i64, Closed>, RegistryError>;
    /// Passes on what happened up to `revision`, inclusive.
    async fn events(&mut self, revision: i64, events: &[Event]) -> Result<(), Closed>;
}

/// Why one round of watching ended.
enum End {
    /// Nobody wants to know any more.
    Closed,
    /// The revisions between ours and now are not to be had: list again.
    Gap(&'static str),
    /// Time to list again without a cause.
    Resync,
    /// No contact.
    Lost(String),
}

/// Follows until the follower is closed.
pub(super) async fn follow(cluster: Arc<Cluster>, link: Link, follower: impl Follower) {
    let mut watch = Watch { cluster, link, follower, known: None, pause: PAUSES.0 };
    loop {
        match watch.round().await {
            End::Closed => return,
            End::Resync => watch.known = None,
            End::Gap(what) => {
                tracing::info!("{}: {what}: reading everything again", watch.cluster.name());
                watch.known = None;
                if watch.rest().await.is_err() {
                    return;
                }
            }
            End::Lost(reason) => {
                watch.link.lost(&reason);
                if watch.rest().await.is_err() {
                    return;
                }
            }
        }
    }
}

struct Watch<F> {
    cluster: Arc<Cluster>,
    link: Link,
    follower: F,
    /// The revision up to which the follower knows everything; `None` before the first listing and after a gap.
    known: Option<i64>,
    pause: Duration,
}

impl<F: Follower> Watch<F> {
    /// Lists if need be and watches until something breaks.
    async fn round(&mut self) -> End {
        if self.known.is_none() {
            match self.follower.snapshot().await {
                Ok(Ok(revision)) => self.known = Some(revision),
                Ok(Err(Closed)) => return End::Closed,
                Err(RegistryError::Unreachable { reason, .. } | RegistryError::Denied { reason, .. }) => {
                    return End::Lost(reason);
                }
                Err(error) => return End::Lost(error.to_string()),
            }
        }
        let session = match self.cluster.session().await {
            Ok(session) => session,
            Err(failure) => return End::Lost(failure.reason),
        };
        let end = match self.open(&session).await {
            Ok(stream) => self.read(&session, stream).await,
            Err(failure) => Err(failure),
        };
        end.unwrap_or_else(|failure| {
            self.cluster.discard(&session, failure.remedy);
            End::Lost(failure.reason)
        })
    }

    async fn open(&self, session: &Session) -> Result<WatchStream, Failure> {
        let (key, prefix) = self.follower.key();
        let next = self.known.unwrap_or_default().saturating_add(1);
        let options = WatchOptions::new().with_start_revision(next).with_progress_notify();
        let options = if prefix { options.with_prefix() } else { options };
        let mut client = session.client.watch_client().max_decoding_message_size(LARGEST_ANSWER);
        match timeout(TRY_TIMEOUT, client.watch(key, Some(options))).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(session.failure(&error)),
            Err(_) => Err(session.silence(TRY_TIMEOUT)),
        }
    }

    /// Reads an open stream. Both its halves live here: dropping either one ends the watch.
    async fn read(&mut self, session: &Session, mut stream: WatchStream) -> Result<End, Failure> {
        let resync = Instant::now() + rand::rng().random_range(RESYNC..RESYNC + RESYNC / 4);
        let mut settled = Instant::now() + SETTLED;
        let mut has_settled = false;
        let mut created = false;
        // When the stream has been silent for too long, and what is done about it then.
        let mut silent = Instant::now() + TRY_TIMEOUT;
        let mut asked = true;
        loop {
            let message = tokio::select! {
                message = stream.message() => message,
                () = self.follower.closed() => return Ok(End::Closed),
                () = sleep_until(resync) => return Ok(End::Resync),
                () = sleep_until(settled), if created && !has_settled => {
                    has_settled = true;
                    self.settle();
                    continue;
                }
                () = sleep_until(silent), if !asked => {
                    asked = true;
                    silent = Instant::now() + SIGN_OF_LIFE;
                    // The answer is what counts, and what a refusal to take the request leads to is silence.
                    let _ = timeout(SIGN_OF_LIFE, stream.request_progress()).await;
                    continue;
                }
                () = sleep_until(silent), if asked => {
                    return Err(session.silence(if created { SIGN_OF_LIFE } else { TRY_TIMEOUT }));
                }
            };
            let response = match message {
                Ok(Some(response)) => response,
                Ok(None) => return Err(ended(session, "the watch was ended by the other side")),
                Err(error) => return Err(session.failure(&error)),
            };
            if response.canceled() {
                if response.compact_revision() > 0 {
                    return Ok(End::Gap("the watch fell behind compaction"));
                }
                let refused = Failure { remedy: Remedy::Authenticate, ..ended(session, response.cancel_reason()) };
                return Err(refused);
            }
            if response.created() {
                created = true;
                settled = Instant::now() + SETTLED;
                if revision_of(&response) < self.known.unwrap_or_default() {
                    return Ok(End::Gap("the cluster's revision went back"));
                }
            }
            if let Err(Closed) = self.take(&response).await {
                return Ok(End::Closed);
            }
            (asked, silent) = (false, Instant::now() + QUIET);
        }
    }

    /// Passes a response's events on and moves the revision known forward.
    async fn take(&mut self, response: &WatchResponse) -> Result<(), Closed> {
        let Some(last) = response.events().last().and_then(Event::kv) else {
            // A notification for this watch, not the answer to a question about the whole stream (watch id -1), which before etcd
            // 3.4.25 may overtake events.
            if !response.created() && response.watch_id() >= 0 {
                self.known = self.known.max(Some(revision_of(response)));
            }
            return Ok(());
        };
        // Not the header's revision: a watch that catches up gets several responses under one.
        let revision = last.mod_revision();
        self.follower.events(revision, response.events()).await?;
        self.known = self.known.max(Some(revision));
        Ok(())
    }

    fn settle(&mut self) {
        self.link.regained();
        self.pause = PAUSES.0;
    }

    /// Pauses before the next attempt.
    async fn rest(&mut self) -> Result<(), Closed> {
        let pause = rand::rng().random_range(self.pause / 2..=self.pause);
        self.pause = (self.pause * 2).min(PAUSES.1);
        tokio::select! {
            () = sleep(pause) => Ok(()),
            () = self.follower.closed() => Err(Closed),
        }
    }
}

fn revision_of(response: &WatchResponse) -> i64 {
    response.header().map_or(0, etcd_client::ResponseHeader::revision)
}

fn ended(session: &Session, reason: &str) -> Failure {
    Failure { remedy: Remedy::OtherMember, reason: format!("{}: {reason}", session.url()) }
}
