//! One connection at a time to one member of the cluster, replaced when it fails.
//!
//! The etcd library could balance over all members, but then a black-holed one takes its share of the calls for ever and no error
//! says which member it came from. So each client here has one endpoint, every try has a deadline, and a failure moves on to the
//! next. A client that was given out stays usable: those who hold it (watches) find out themselves.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use etcd_client::{Client, ConnectOptions, Error};
use tokio::time::timeout;

use super::diagnose::{TlsPeer, advice, is_about_tls, is_refusal};
use super::error::{Remedy, describe, is_auth_disabled, remedy};
use crate::control::registry::{CALL_TIMEOUT, RegistryError};

/// Deadline of one try at one member, connecting included: a call gets at least two of them.
pub(super) const TRY_TIMEOUT: Duration = Duration::from_millis(2500);

/// How long a TCP connection may take: longer than one lost SYN (1 s).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Pings on connections with open streams, which is how a frozen or vanished server is noticed. Servers of the Go library hang up
/// on clients that ping more often than every 5 s, or without streams.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_millis(5500), Duration::from_secs(3));

/// What every client is made with.
pub(super) fn connect_options() -> ConnectOptions {
    ConnectOptions::new()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_keep_alive(KEEP_ALIVE.0, KEEP_ALIVE.1)
        .with_keep_alive_while_idle(false)
        .with_require_leader(true)
}

/// One member of the cluster, and how it is entered.
#[derive(Clone)]
pub(super) struct Member {
    url: String,
    options: ConnectOptions,
    login: Option<(String, String)>,
    tls: Option<TlsPeer>,
}

impl Member {
    /// `options` without user; `tls` if the URL is `https`.
    pub(super) fn new(url: String, options: ConnectOptions, login: Option<(String, String)>, tls: Option<TlsPeer>) -> Self {
        Self { url, options, login, tls }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// A client of this member, authenticated if there is a user; only that makes it connect at once.
    async fn connect(&self) -> Result<Client, Error> {
        if let Some((user, password)) = &self.login {
            let options = self.options.clone().with_user(user, password);
            match Client::connect([&self.url], Some(options)).await {
                Err(error) if is_auth_disabled(&error) => {}
                connected => return connected,
            }
        }
        Client::connect([&self.url], Some(self.options.clone())).await
    }
}

/// The way into the cluster.
pub(super) struct Cluster {
    name: String,
    members: Vec<Member>,
    state: Mutex<State>,
    /// Held while connecting, so that a crowd of callers authenticates once.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Index of the member in use.
    member: usize,
    /// Counts replacements, so that of many who saw one client fail only the first replaces it.
    generation: u64,
    client: Option<Client>,
}

/// A client as given out.
pub(super) struct Session {
    pub(super) client: Client,
    /// The member's URL, for messages.
    url: String,
    generation: u64,
}

/// Why there is no answer: what it asks for, and the reason with the member's URL.
pub(super) struct Failure {
    pub(super) remedy: Remedy,
    pub(super) reason: String,
}

impl Session {
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// What `error`, met with this client, means.
    pub(super) fn failure(&self, error: &Error) -> Failure {
        Failure { remedy: remedy(error), reason: format!("{}: {}", self.url, describe(error)) }
    }

    /// Silence on this client.
    pub(super) fn silence(&self, length: Duration) -> Failure {
        Failure { remedy: Remedy::OtherMember, reason: format!("{}: no answer within {:.1} s", self.url, length.as_secs_f64()) }
    }
}

impl Cluster {
    pub(super) fn new(name: String, members: Vec<Member>) -> Self {
        Self { name, members, state: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The client in use, or a new one.
    pub(super) async fn session(&self) -> Result<Session, Failure> {
        // Waiting for others to connect counts as trying: a queue before a member that does not answer must not add up.
        let Ok(_connecting) = timeout(TRY_TIMEOUT, self.connecting.lock()).await else {
            return Err(Failure { remedy: Remedy::OtherMember, reason: "no member answers".into() });
        };
        let (index, generation) = {
            let state = self.state();
            let url = self.member(state.member).map(|member| member.url.clone()).unwrap_or_default();
            if let Some(client) = &state.client {
                return Ok(Session { client: client.clone(), url, generation: state.generation });
            }
            (state.member, state.generation)
        };
        let none = || Failure { remedy: Remedy::GiveUp, reason: "no members".into() };
        let member = self.member(index).ok_or_else(none)?;
        let failure = match timeout(TRY_TIMEOUT, member.connect()).await {
            Ok(Ok(client)) => {
                let mut state = self.state();
                if state.generation == generation {
                    state.client = Some(client.clone());
                }
                return Ok(Session { client, url: member.url.clone(), generation });
            }
            Ok(Err(error)) => Failure { remedy: remedy(&error), reason: format!("{}: {}", member.url, describe(&error)) },
            Err(_) => Failure {
                remedy: Remedy::OtherMember,
                reason: format!("{}: no answer within {:.1} s", member.url, TRY_TIMEOUT.as_secs_f64()),
            },
        };
        self.replace(generation, failure.remedy);
        Err(failure)
    }

    /// This client failed: the next session is with a new one, of the next member if that may help.
    pub(super) fn discard(&self, session: &Session, remedy: Remedy) {
        self.replace(session.generation, remedy);
    }

    /// The next session is with a new client, whatever the one in use is worth.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.client = None;
        state.generation += 1;
    }

    /// Makes a call, at least twice if that may help. `call` must bear being repeated after it was carried out unseen.
    pub(super) async fn call<T, F, A>(&self, call: F) -> Result<T, RegistryError>
    where
        F: Fn(Client) -> A + Send + Sync,
        A: Future<Output = Result<T, Error>> + Send,
        T: Send,
    {
        let begin = Instant::now();
        let tries = self.members.len().max(2);
        let mut last = None;
        for _ in 0..tries {
            let failure = match self.try_call(&call).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let hopeless = matches!(failure.remedy, Remedy::Denied | Remedy::GiveUp);
            last = Some(failure);
            if hopeless || begin.elapsed() >= CALL_TIMEOUT.saturating_mul(2).saturating_sub(TRY_TIMEOUT) {
                break;
            }
        }
        Err(self.error(match last {
            Some(failure) => Some(self.explain(failure).await),
            None => None,
        }))
    }

    /// Finds out what the HTTP/2 client could not say about a failure.
    async fn explain(&self, mut failure: Failure) -> Failure {
        if failure.remedy == Remedy::OtherMember
            && !is_about_tls(&failure.reason)
            && let Some(member) = self.members.iter().find(|member| failure.reason.starts_with(&member.url))
            && let Some(peer) = &member.tls
            && let Some(complaint) = peer.complaint().await
        {
            failure.reason = format!("{}: {complaint}", member.url);
        }
        failure.reason.push_str(advice(&failure.reason));
        failure
    }

    /// The registry error for a failure.
    pub(super) fn error(&self, failure: Option<Failure>) -> RegistryError {
        let registry = self.name.clone();
        let Some(Failure { remedy, reason }) = failure else {
            return RegistryError::Unreachable { registry, reason: "not tried".into() };
        };
        match remedy {
            Remedy::Denied | Remedy::Authenticate => RegistryError::Denied { registry, reason },
            Remedy::OtherMember if is_refusal(&reason) => RegistryError::Denied { registry, reason },
            Remedy::OtherMember => RegistryError::Unreachable { registry, reason },
            Remedy::GiveUp => RegistryError::Protocol { registry, reason },
        }
    }

    async fn try_call<T, F, A>(&self, call: &F) -> Result<T, Failure>
    where
        F: Fn(Client) -> A + Send + Sync,
        A: Future<Output = Result<T, Error>> + Send,
    {
        let session = self.session().await?;
        let failure = match timeout(TRY_TIMEOUT, call(session.client.clone())).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => session.failure(&error),
            Err(_) => session.silence(TRY_TIMEOUT),
        };
        self.discard(&session, failure.remedy);
        Err(failure)
    }

    fn replace(&self, generation: u64, remedy: Remedy) {
        let mut state = self.state();
        if state.generation != generation || remedy == Remedy::GiveUp {
            return;
        }
        state.client = None;
        state.generation += 1;
        if remedy == Remedy::OtherMember {
            state.member = (state.member + 1) % self.members.len().max(1);
        }
    }

    fn member(&self, index: usize) -> Option<&Member> {
        self.members.get(index)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("name", &self.name).finish_non_exhaustive()
    }
}
