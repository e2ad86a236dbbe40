//! The lease routes: acquire, renew, reserve, revoke, and the watches that wait.

use std::future::Future;
use std::net::Ipv4Addr;
use std::time::SystemTime;

use hyper::StatusCode;

use super::answer::{self, Answer, Refusal};
use super::handler::{Handler, Params};
use crate::control::registry::{AcquireRequest, Renewal, Reservation};
use crate::control::v1::{AttrsBody, LeaseBody, NetworkWatchBody, ReservationBody, WatchBody};
use crate::lease::{Change, LeaseAttrs, SubnetKey, Update, check_public_ip};

/// The longest machine id taken; those of systemd have 32 characters.
const NODE_LIMIT: usize = 128;

impl Handler {
    pub(super) async fn acquire(&self, attrs: AttrsBody, params: Params) -> Result<Answer, Refusal> {
        let previous = match params.previous.as_deref().map(str::parse::<SubnetKey>) {
            None => None,
            Some(Ok(subnet)) => Some(subnet.v4),
            Some(Err(error)) => return Err(Refusal::bad_request(format!("previous: {error}"))),
        };
        if params.node.as_ref().is_some_and(|node| node.is_empty() || node.len() > NODE_LIMIT) {
            let complaint = format!("node: expected a machine id of 1 to {NODE_LIMIT} bytes");
            return Err(Refusal::bad_request(complaint));
        }
        let attrs: LeaseAttrs = attrs.into();
        reachable(attrs.public_ip)?;
        let request = AcquireRequest { attrs, previous, node: params.node };
        let lease = self.registry.acquire(&request).await?;
        self.upstream.echo(|log| log.heard() >= lease.revision).await;
        Ok(answer::json(&LeaseBody::of(&lease, SystemTime::now())))
    }

    /// The body says what is to be written; the record's node is known by its address in there, or by `former` if that changes.
    pub(super) async fn renew(&self, body: LeaseBody, former: Option<Ipv4Addr>) -> Result<Answer, Refusal> {
        let now = SystemTime::now();
        let undecodable = |error| Refusal::bad_request(format!("JSON decoding error: {error}"));
        let mut lease = body.into_lease(now).map_err(undecodable)?;
        reachable(lease.attrs.public_ip)?;
        let attrs = lease.attrs.clone();
        lease.attrs.public_ip = former.unwrap_or(attrs.public_ip);
        match self.registry.renew(&lease, &attrs).await? {
            Renewal::Renewed(lease) => {
                self.upstream.echo(|log| log.heard() >= lease.revision).await;
                Ok(answer::json(&LeaseBody::of(&lease, SystemTime::now())))
            }
            Renewal::Lost => Err(Refusal::lost(lease.subnet)),
        }
    }

    pub(super) async fn reserve(&self, body: ReservationBody) -> Result<Answer, Refusal> {
        let reservation = body.into();
        let Reservation { subnet, public_ip } = reservation;
        reachable(public_ip)?;
        let done = self.registry.reserve(&reservation).await;
        done.map_err(|error| Refusal::from(error).prefixed("internal error: "))?;
        self.upstream.echo(|log| log.holds(&subnet)).await;
        Ok(answer::empty())
    }

    pub(super) async fn revoke(&self, subnet: SubnetKey) -> Result<Answer, Refusal> {
        self.registry.revoke(&subnet).await?;
        self.upstream.echo(|log| !log.holds(&subnet)).await;
        Ok(answer::empty())
    }

    /// As in [`watch_leases`](crate::control::registry::Registry::watch_leases), expirations of leases that others granted may be
    /// too late. No client goes by them: flannel's takes that of its own lease from the answer to its own calls.
    pub(super) async fn watch(&self, next: Option<String>) -> Result<Answer, Refusal> {
        let cursor = cursor(next)?;
        let feed = self.upstream.feed().await?;
        let update = self.hold(feed.after(cursor)).await?;
        Ok(watched(&update))
    }

    pub(super) async fn watch_one(&self, subnet: SubnetKey, next: Option<String>) -> Result<Answer, Refusal> {
        let cursor = cursor(next)?;
        let feed = self.upstream.feed().await?;
        if let Some(cursor) = cursor {
            return Ok(watched(&self.hold(feed.after_of(&subnet, cursor)).await?));
        }
        let (lease, revision) = feed.read(|log, now| (log.lease(&subnet, now), log.revision()));
        let absent = || Refusal::failed(format!("lease {subnet} not found"));
        let lease = lease.ok_or_else(absent)?;
        Ok(watched(&Update { revision, change: Change::Snapshot(vec![lease]) }))
    }

    /// No named networks are there, and none ever come: a client that waits for one waits until it leaves.
    pub(super) async fn networks(&self, next: Option<String>) -> Result<Answer, Refusal> {
        let cursor = cursor(next)?;
        let feed = self.upstream.feed().await?;
        if cursor.is_some() {
            return self.hold(std::future::pending()).await;
        }
        let cursor = feed.read(|log, _| log.revision()).to_string();
        Ok(answer::json(&NetworkWatchBody { events: None, snapshot: Vec::new(), cursor }))
    }

    /// Waits for `news`, as long as client and server stay.
    pub(super) async fn hold<T>(&self, news: impl Future<Output = T>) -> Result<T, Refusal> {
        let _waiting = self.upstream.wait();
        tokio::select! {
            news = news => Ok(news),
            () = self.stop.cancelled() => Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down")),
        }
    }
}

/// Refuses an address under which no peer could reach the lease's node: what is written is read by everybody.
fn reachable(public_ip: Ipv4Addr) -> Result<(), Refusal> {
    check_public_ip(public_ip).map_err(|error| Refusal::bad_request(error.to_string()))
}

/// The revision a watch goes on from.
pub(super) fn cursor(next: Option<String>) -> Result<Option<u64>, Refusal> {
    let complaint = |text: &str| format!("failed to parse cursor: expected a decimal number, found {text:?}");
    next.map(|text| text.parse().map_err(|_| Refusal::failed(complaint(&text)))).transpose()
}

fn watched(update: &Update) -> Answer {
    debug_assert!(!matches!(&update.change, Change::Events(events) if events.is_empty()));
    answer::json(&WatchBody::of(update, SystemTime::now()))
}
