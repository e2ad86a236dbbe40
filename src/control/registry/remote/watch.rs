//! The two watches: leases by long poll, the config by asking again.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use super::client::Client;
use super::registry::{LEASES, config as read_config, encode, list};
use crate::control::contact::Link;
use crate::control::registry::RegistryError;
use crate::control::v1::WatchBody;
use crate::lease::{Change, Update};

/// How often the config is asked for: the API has no watch for it.
const CONFIG_INTERVAL: Duration = Duration::from_secs(10);

/// How long one poll waits before the server is asked for a sign of life and polled again. TCP does not notice one that is frozen:
/// its kernel acknowledges keep-alive for it.
const POLL_LIMIT: Duration = Duration::from_secs(50);

/// Pauses between attempts: the first, doubling up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// A poll that held this long shows that the server is well.
const WELL_AFTER: Duration = Duration::from_secs(5);

/// See [`Registry::watch_leases`](crate::control::registry::Registry::watch_leases).
pub(super) fn leases(client: Arc<Client>, link: Link) -> mpsc::Receiver<Update> {
    let (sender, receiver) = mpsc::channel(8);
    tokio::spawn(async move {
        let mut watch = Watch::new(&client, link, &sender);
        tokio::select! {
            () = sender.closed() => {}
            () = watch.run() => {}
        }
    });
    receiver
}

/// See [`Registry::watch_config`](crate::control::registry::Registry::watch_config).
pub(super) fn config(client: Arc<Client>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut last = None;
        let mut complained = false;
        loop {
            match read_config(&client).await {
                Ok(text) => {
                    complained = false;
                    if last.as_ref() != Some(&text) {
                        last = Some(text.clone());
                        if sender.send(text).await.is_err() {
                            return;
                        }
                    }
                }
                // Loss of contact is told by the lease watch; absence is no change.
                Err(error @ (RegistryError::Unreachable { .. } | RegistryError::NoConfig { .. })) => debug!(%error, "no config"),
                Err(error) => {
                    if !complained {
                        warn!(%error, "the network config cannot be read");
                    }
                    complained = true;
                }
            }
            tokio::select! {
                () = sleep(CONFIG_INTERVAL) => {}
                () = sender.closed() => return,
            }
        }
    });
    receiver
}

struct Watch<'a> {
    client: &'a Client,
    link: Link,
    sender: &'a mpsc::Sender<Update>,
    poll_limit: Duration,
    pause: Duration,
    trouble: Trouble,
}

/// What the log was last told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// No contact.
    Silence,
    /// Contact, but polls are refused.
    Refusal,
}

impl<'a> Watch<'a> {
    fn new(client: &'a Client, link: Link, sender: &'a mpsc::Sender<Update>) -> Self {
        Self { client, link, sender, poll_limit: POLL_LIMIT, pause: FIRST_PAUSE, trouble: Trouble::None }
    }

    /// Until the receiver is gone.
    async fn run(&mut self) {
        loop {
            let error = match list(self.client).await {
                Ok(listed) => {
                    self.better(Trouble::Silence);
                    if !self.send(listed.cursor.as_deref(), Change::Snapshot(listed.leases)).await {
                        return;
                    }
                    match listed.cursor {
                        Some(cursor) => self.poll(cursor).await,
                        None => Err(self.client.nonsense("a list of leases without a cursor")),
                    }
                }
                Err(error) => Err(error),
            };
            match error {
                Ok(Next::List) => {}
                Ok(Next::End) => return,
                Err(error) => self.lose(&error),
            }
            // A random part keeps the nodes of a restarted server apart.
            sleep(self.pause.mul_f64(rand::random_range(0.5..1.0))).await;
            self.pause = (self.pause * 2).min(LAST_PAUSE);
        }
    }

    /// Follows the server's events from `cursor` on, until something is wrong.
    async fn poll(&mut self, mut cursor: String) -> Result<Next, RegistryError> {
        loop {
            let asked = Instant::now();
            let path = format!("{LEASES}?next={}", encode(&cursor));
            let done = timeout(self.poll_limit, self.client.exchange(Method::GET, &path, None)).await;
            if asked.elapsed() >= WELL_AFTER {
                self.pause = FIRST_PAUSE;
            }
            let Ok(reply) = done else {
                match read_config(self.client).await {
                    Err(error) if error.is_unreachable() => return Err(error),
                    _ => continue,
                }
            };
            let reply = reply?;
            self.better(Trouble::Refusal);
            let body: WatchBody = self.client.read(&reply)?;
            let Some(next) = body.cursor() else { return Err(self.client.nonsense("a watch answer without a cursor")) };
            let Some(change) = body.into_change(false, reply.clock).map_err(|reason| self.client.nonsense(reason))? else {
                return Ok(Next::List);
            };
            let advanced = next != cursor && matches!(change, Change::Events(_));
            cursor = next;
            if !self.send(Some(&cursor), change).await {
                return Ok(Next::End);
            }
            if advanced {
                self.pause = FIRST_PAUSE;
            } else {
                // Snapshot upon snapshot, or the same again: whatever is wrong there, do not hammer it.
                sleep(FIRST_PAUSE).await;
            }
        }
    }

    async fn send(&self, cursor: Option<&str>, change: Change) -> bool {
        let revision = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        self.sender.send(Update { revision, change }).await.is_ok()
    }

    fn lose(&mut self, error: &RegistryError) {
        if self.trouble == Trouble::None {
            self.link.lost(&error.reason());
            self.trouble = if error.is_unreachable() { Trouble::Silence } else { Trouble::Refusal };
        }
    }

    /// What ended `trouble` has happened. A list ends silence, only an answered poll ends refusal.
    fn better(&mut self, trouble: Trouble) {
        if self.trouble == trouble {
            self.link.regained();
            self.trouble = Trouble::None;
        }
    }
}

/// What to do after a poll that ended without error.
enum Next {
    /// The answer was ambiguous: look at everything.
    List,
    /// Nobody listens any more.
    End,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::control::contact::Contact;
    use crate::control::tls::TlsFiles;

    /// A server that lets polls wait for ever and answers all else, or, frozen, nothing; and how many polls it has seen.
    async fn server(frozen: bool) -> (Client, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let polls = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&polls);
        tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let length = stream.read(&mut request).await.unwrap();
                if request[..length].starts_with(b"GET /v1/_/leases?next=7 ") {
                    seen.fetch_add(1, Ordering::Relaxed);
                } else if !frozen {
                    let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
                    stream.write_all(answer).await.unwrap();
                }
                held.push(stream);
            }
        });
        (Client::new(&address, &TlsFiles::default()).unwrap(), polls)
    }

    fn link() -> Link {
        Contact::new("server".into()).join()
    }

    #[tokio::test]
    async fn a_quiet_server_is_polled_on_and_a_frozen_one_is_noticed() {
        let (sender, _receiver) = mpsc::channel(1);
        let (client, polls) = server(false).await;
        let mut watch = Watch { poll_limit: Duration::from_millis(20), ..Watch::new(&client, link(), &sender) };
        let polled = async {
            while polls.load(Ordering::Relaxed) < 3 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            ended = watch.poll("7".into()) => panic!("given up: {:?}", ended.err()),
            () = polled => {}
        }

        let (client, polls) = server(true).await;
        let mut watch = Watch { poll_limit: Duration::from_millis(20), ..Watch::new(&client, link(), &sender) };
        let Err(error) = watch.poll("7".into()).await else { panic!("not noticed") };
        assert!(error.is_unreachable(), "{error}");
        assert_eq!(polls.load(Ordering::Relaxed), 1);
    }
}
