//! The [`Registry`] and [`RegistryAdmin`] traits over the `/v1` API.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use hyper::{Method, StatusCode};
use tokio::sync::mpsc;

use super::client::{Client, Failure, RemoteError};
use super::watch;
use crate::control::contact::Contact;
use crate::control::registry::{
    AcquireRequest, PolicyStore, Registry, RegistryAdmin, RegistryError, Renewal, Reservation, is_still_ours,
};
use crate::control::tls::TlsFiles;
use crate::control::v1::{AttrsBody, LeaseBody, ReservationBody, WatchBody};
use crate::lease::{Change, Lease, LeaseAttrs, LeaseEvent, SubnetKey, Update};

const CONFIG: &str = "/_/config";
pub(super) const LEASES: &str = "/_/leases";
const RESERVATIONS: &str = "/_/reservations";

/// A registry server's client. Cloning gives another handle on the same connections.
#[derive(Clone, Debug)]
pub struct RemoteRegistry {
    pub(super) client: Arc<Client>,
    /// Shared by all watches.
    pub(super) contact: Arc<Contact>,
}

impl RemoteRegistry {
    /// A client of the server at `address` (`HOST:PORT`). TLS is spoken when there are any `files`, or for `https://HOST:PORT`; without a
    /// CA file the system's authorities are trusted. Nothing is sent yet.
    pub fn new(address: &str, files: &TlsFiles) -> Result<Self, RemoteError> {
        let client = Client::new(address, files)?;
        let contact = Contact::new(client.name().to_owned());
        Ok(Self { client: Arc::new(client), contact })
    }

    /// Writes `lease`, whose record so far says that its node is at `former`.
    async fn put(&self, lease: &Lease, former: Ipv4Addr) -> Result<Renewal, Failure> {
        let moved = if former == lease.attrs.public_ip { String::new() } else { format!("?former={former}") };
        let path = format!("{LEASES}/{}{moved}", lease.subnet);
        let body = text(&LeaseBody::of(lease, SystemTime::now()));
        let reply = self.client.call(Method::PUT, &path, Some(body)).await?;
        let understood = self.client.read::<LeaseBody>(&reply).and_then(|body| self.lease_of(body, reply.clock));
        let answer = understood.map_err(|error| Failure { error, status: None, lost: false })?;
        // Of the answer only the time counts: old servers garble backend data here.
        Ok(Renewal::Renewed(Lease { ttl: answer.ttl, ..lease.clone() }))
    }

    fn lease_of(&self, body: LeaseBody, clock: SystemTime) -> Result<Lease, RegistryError> {
        body.into_lease(clock).map_err(|reason| self.client.nonsense(reason))
    }

    /// What the server holds for `lease.subnet`, if that is this node's.
    async fn still_ours(&self, lease: &Lease, attrs: &LeaseAttrs) -> Result<Option<Lease>, RegistryError> {
        Ok(list(&self.client).await?.leases.into_iter().find(|held| is_still_ours(held, lease, attrs)))
    }

    /// A failure on a path that a server may not have.
    fn unsupported(&self, failure: Failure, what: &str) -> RegistryError {
        if failure.status == Some(StatusCode::NOT_FOUND) {
            return RegistryError::Unsupported(format!("{} is too old to {what}", self.client.name()));
        }
        failure.error
    }
}

#[async_trait]
impl Registry for RemoteRegistry {
    fn describe(&self) -> String {
        self.client.name().to_owned()
    }

    async fn config(&self) -> Result<String, RegistryError> {
        config(&self.client).await
    }

    async fn watch_config(&self) -> mpsc::Receiver<String> {
        watch::config(Arc::clone(&self.client))
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<Lease, RegistryError> {
        let mut query = Vec::new();
        if let Some(previous) = request.previous {
            query.push(format!("previous={}", SubnetKey::from(previous)));
        }
        if let Some(node) = &request.node {
            query.push(format!("node={}", encode(node)));
        }
        let separator = if query.is_empty() { "" } else { "?" };
        let path = format!("{LEASES}{separator}{}", query.join("&"));
        let reply = self.client.call(Method::POST, &path, Some(text(&AttrsBody::from(&request.attrs)))).await?;
        self.lease_of(self.client.read(&reply)?, reply.clock)
    }

    async fn renew(&self, lease: &Lease, attrs: &LeaseAttrs) -> Result<Renewal, RegistryError> {
        // Looked up first: a flanneld would let us overwrite another node's record.
        let Some(held) = self.still_ours(lease, attrs).await? else { return Ok(Renewal::Lost) };
        if held.is_reservation() && held.attrs == *attrs {
            // Nothing to write; and a flanneld would turn the reservation into a lease that ends.
            return Ok(Renewal::Renewed(held));
        }
        let former = held.attrs.public_ip;
        match self.put(&Lease { ttl: held.ttl, attrs: attrs.clone(), ..lease.clone() }, former).await {
            Ok(renewal) => Ok(renewal),
            Err(failure) if failure.lost => Ok(Renewal::Lost),
            Err(failure) if failure.status.is_some() && self.still_ours(lease, attrs).await?.is_none() => Ok(Renewal::Lost),
            Err(failure) => Err(failure.error),
        }
    }

    async fn revoke(&self, subnet: &SubnetKey) -> Result<(), RegistryError> {
        let done = self.client.call(Method::DELETE, &format!("{LEASES}/{subnet}"), None).await;
        match done {
            Ok(_) => Ok(()),
            Err(failure) if failure.status == Some(StatusCode::INTERNAL_SERVER_ERROR) && self.lease(subnet).await?.is_none() => {
                Ok(())
            }
            Err(failure) => Err(self.unsupported(failure, "revoke leases")),
        }
    }

    async fn watch_leases(&self) -> mpsc::Receiver<Update> {
        watch::leases(Arc::clone(&self.client), self.contact.join())
    }

    fn policy_store(&self) -> Result<Arc<dyn PolicyStore>, RegistryError> {
        Ok(Arc::new(self.clone()))
    }

    fn forget_connections(&self) {
        self.client.forget_connections();
    }
}

#[async_trait]
impl RegistryAdmin for RemoteRegistry {
    async fn put_config(&self, text: &str) -> Result<(), RegistryError> {
        let done = self.client.call(Method::PUT, CONFIG, Some(text.to_owned())).await;
        done.map(drop).map_err(|failure| self.unsupported(failure, "set the network config: set it in its etcd"))
    }

    async fn leases(&self) -> Result<Vec<Lease>, RegistryError> {
        Ok(list(&self.client).await?.leases)
    }

    async fn lease(&self, subnet: &SubnetKey) -> Result<Option<Lease>, RegistryError> {
        Ok(self.leases().await?.into_iter().find(|lease| lease.subnet == *subnet))
    }

    async fn reserve(&self, reservation: &Reservation) -> Result<(), RegistryError> {
        let body = text(&ReservationBody::from(reservation));
        let done = self.client.call(Method::POST, RESERVATIONS, Some(body)).await;
        done.map(drop).map_err(|failure| self.unsupported(failure, "keep reservations"))
    }

    async fn unreserve(&self, subnet: &SubnetKey) -> Result<bool, RegistryError> {
        if !self.reservations().await?.iter().any(|reservation| reservation.subnet == *subnet) {
            return Ok(false);
        }
        let done = self.client.call(Method::DELETE, &format!("{RESERVATIONS}/{subnet}"), None).await;
        done.map(|_| true).map_err(|failure| self.unsupported(failure, "keep reservations"))
    }

    async fn reservations(&self) -> Result<Vec<Reservation>, RegistryError> {
        let reply = self.client.call(Method::GET, RESERVATIONS, None).await;
        let reply = reply.map_err(|failure| self.unsupported(failure, "keep reservations"))?;
        Ok(self.client.read::<Vec<ReservationBody>>(&reply)?.into_iter().map(Reservation::from).collect())
    }
}

/// The leases a server lists, and where a watch goes on from there.
pub(super) struct Listed {
    pub(super) leases: Vec<Lease>,
    pub(super) cursor: Option<String>,
}

pub(super) async fn list(client: &Client) -> Result<Listed, RegistryError> {
    let reply = client.call(Method::GET, LEASES, None).await?;
    let body: WatchBody = client.read(&reply)?;
    let cursor = body.cursor();
    let leases = match body.into_change(true, reply.clock).map_err(|reason| client.nonsense(reason))? {
        Some(Change::Snapshot(leases)) => leases,
        // No server is known to list by events; they would say the same.
        Some(Change::Events(events)) => events.into_iter().filter_map(added).collect(),
        None => Vec::new(),
    };
    Ok(Listed { leases, cursor })
}

pub(super) async fn config(client: &Client) -> Result<String, RegistryError> {
    match client.call(Method::GET, CONFIG, None).await {
        Ok(reply) => {
            let text = std::str::from_utf8(&reply.body).map_err(|error| client.nonsense(error.to_string()))?;
            Ok(text.trim_end().to_owned())
        }
        // A flanneld's way to say it, in etcd's words.
        Err(Failure { error: RegistryError::Refused { reason, .. }, .. }) if reason.contains("Key not found") => {
            Err(RegistryError::NoConfig { place: client.url(CONFIG) })
        }
        Err(failure) => Err(failure.error),
    }
}

fn added(event: LeaseEvent) -> Option<Lease> {
    match event {
        LeaseEvent::Added(lease) => Some(lease),
        LeaseEvent::Removed(_) => None,
    }
}

pub(super) fn text<T: serde::Serialize>(body: &T) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

/// A query value, percent-encoded; also used for cursors, which are the server's text.
pub(super) fn encode(value: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    value.bytes().map(encoded).collect()
}
