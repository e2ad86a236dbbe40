//! Where leases live. A [`Registry`] is flannel's subnet manager as a node sees it; a [`Store`](store::Store) is the little a key-value
//! store has to offer so that [`StoreRegistry`] can be one. [`RegistryAdmin`] is what people and the registry server do beside.
//!
//! Watches never end and never fail: they reconnect, resume, and after a gap send a snapshot. Logs of that are one line
//! when contact is lost and one when it is back.

mod admin;
pub mod embedded;
pub mod etcd;
pub mod feed;
pub mod log;
pub mod remote;
pub mod store;
mod store_registry;

pub use admin::RegistryAdmin;
pub use store_registry::StoreRegistry;

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::lease::{Lease, LeaseAttrs, SubnetKey, Update};
use crate::net::Prefix4;

/// How long a lease lasts unless renewed. Source: flannel (86,400 s).
pub const LEASE_TTL: Duration = Duration::from_hours(24);

/// Deadline of any single call to a registry.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// What a node asks for when it wants a subnet.
#[derive(Clone, Debug)]
pub struct AcquireRequest {
    /// What is published in the lease.
    pub attrs: LeaseAttrs,
    /// The subnet held before (from subnet.env or until a moment ago), wanted again if nobody else has it.
    pub previous: Option<Prefix4>,
    /// Who this node is (its machine id), to tell two nodes announcing one address apart; `None` if it cannot know.
    pub node: Option<String>,
}

/// How a renewal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Still ours, for another TTL.
    Renewed(Lease),
    /// The record is gone or belongs to somebody else; nothing was written.
    Lost,
}

/// A reservation: a subnet kept for a node without an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// What is kept.
    pub subnet: SubnetKey,
    /// For whom.
    pub public_ip: std::net::Ipv4Addr,
}

/// The registry as a node uses it. Every call ends within [`CALL_TIMEOUT`] or a small multiple of it.
#[async_trait]
pub trait Registry: Send + Sync + 'static {
    /// Which registry this is, for messages: kind, address, prefix.
    fn describe(&self) -> String;

    /// The network config's JSON text, unparsed.
    async fn config(&self) -> Result<String, RegistryError>;

    /// The config text now and at every change. Absence is not sent. Never ends while the receiver lives.
    async fn watch_config(&self) -> mpsc::Receiver<String>;

    /// Takes a subnet: own lease, reservation, previous subnet, or a random one of the first hundred free.
    async fn acquire(&self, request: &AcquireRequest) -> Result<Lease, RegistryError>;

    /// Renews `lease`, as it was last known, if it is still ours, and writes `attrs`, which may announce another address than
    /// before; reservations stay reservations.
    async fn renew(&self, lease: &Lease, attrs: &LeaseAttrs) -> Result<Renewal, RegistryError>;

    /// Gives a subnet back. Absence is no error.
    async fn revoke(&self, subnet: &SubnetKey) -> Result<(), RegistryError>;

    /// All leases, our own included: first a snapshot, then events. Never ends while the receiver lives.
    ///
    /// Whether a lease ends is right. The time left of leases that were not granted through this registry may be a guess, a whole
    /// [`LEASE_TTL`].
    async fn watch_leases(&self) -> mpsc::Receiver<Update>;

    /// This host's address or way out has changed: no call is to wait for a connection made before. Watches find out
    /// themselves.
    fn forget_connections(&self) {}
}

/// Whether the record found where `known` was is still its node's: under the address known, or under the one in `attrs`, where a
/// renewal was carried out whose answer was lost.
fn is_still_ours(found: &Lease, known: &Lease, attrs: &LeaseAttrs) -> bool {
    let addresses = [known.attrs.public_ip, attrs.public_ip];
    found.subnet == known.subnet && addresses.contains(&found.attrs.public_ip)
}

/// Why a registry did not do as asked.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum RegistryError {
    /// No contact: refused, timed out, closed. Worth trying again.
    #[error("{registry} cannot be reached: {reason}")]
    Unreachable { registry: String, reason: String },
    /// The other side refuses us: certificate, user, password.
    #[error("{registry} refused access: {reason}")]
    Denied { registry: String, reason: String },
    /// No network config under the key named.
    #[error("no network config at {place}; put one there with `felt config set FILE`")]
    NoConfig { place: String },
    /// The config does not make a network.
    #[error("network config: {0}")]
    BadConfig(String),
    /// Every subnet between SubnetMin and SubnetMax is held.
    #[error("out of subnets: every subnet of {range} is leased; enlarge the network or revoke leases of nodes that are gone")]
    OutOfSubnets { range: String },
    /// Somebody else has it.
    #[error("subnet {subnet} is already taken by {holder}")]
    Taken { subnet: String, holder: String },
    /// Two nodes announce one address.
    #[error(
        "public IP {public_ip} is announced by another node (machine id {other}), which leases {subnet}; give this node its own with --public-ip, revoke that lease if the node is gone, or, if this is that node and its machine id has changed, start it with --node-id={other}"
    )]
    DuplicatePublicIp { public_ip: std::net::Ipv4Addr, other: String, subnet: String },
    /// Lost every race.
    #[error("max retries reached trying to acquire a subnet: {attempts} attempts lost to other nodes")]
    Raced { attempts: u32 },
    /// This registry cannot do that.
    #[error("{0}")]
    Unsupported(String),
    /// The registry understood, and said no; its own words.
    #[error("{registry} answered: {reason}")]
    Refused { registry: String, reason: String },
    /// The registry answered something that makes no sense.
    #[error("{registry} answered what could not be understood: {reason}")]
    Protocol { registry: String, reason: String },
}

impl RegistryError {
    /// Whether the same call may succeed later without anybody changing anything here.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}
