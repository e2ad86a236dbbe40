//! Where leases live. A [`Registry`] is flannel's subnet manager as a node sees it; a [`Store`](store::Store) is the little a key-value
//! store has to offer so that [`StoreRegistry`] can be one. [`RegistryAdmin`] is what people and the registry server do beside.
//!
//! Watches never end and never fail: they reconnect, resume, and after a gap send a snapshot. Logs of that are one line
//! when contact is lost and one when it is back.

mod admin;
pub mod embedded;
mod error;
pub mod etcd;
pub mod feed;
pub mod kube;
pub mod log;
mod networks;
mod policies;
pub mod remote;
pub mod static_peers;
pub mod store;
mod store_registry;

pub use admin::RegistryAdmin;
pub use error::RegistryError;
pub use networks::{NetworkEvent, NetworkName, NetworkNameError, Networks, NetworksUpdate};
pub use policies::{PolicyEntry, PolicyEvent, PolicyKeyError, PolicyStore, PolicyUpdate, kind_of, policy_id, policy_key};
pub use store_registry::StoreRegistry;

use std::net::Ipv4Addr;
use std::sync::Arc;
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
    pub public_ip: Ipv4Addr,
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

    /// The policy objects kept beside the leases.
    ///
    /// # Errors
    /// [`RegistryError::Unsupported`] where none are kept.
    fn policy_store(&self) -> Result<Arc<dyn PolicyStore>, RegistryError> {
        Err(no_policies(&self.describe()))
    }

    /// Whether nodes cut their subnets from the network by the rules of its config. Where they are given to them, any inside of
    /// the network is right.
    fn cuts_subnets(&self) -> bool {
        true
    }

    /// The underlay address that somebody wants this node to publish instead of its own choice, if anybody does. Asked once,
    /// before the node starts.
    async fn wanted_address(&self) -> Result<Option<Ipv4Addr>, RegistryError> {
        Ok(None)
    }

    /// The network is up on this node, for the first time since it started. Nothing waits for what the registry does about it.
    fn network_is_up(&self) {}

    /// This host's address or way out has changed: no call is to wait for a connection made before. Watches find out
    /// themselves.
    fn forget_connections(&self) {}
}

/// The answer of a registry without policy objects.
fn no_policies(registry: &str) -> RegistryError {
    RegistryError::Unsupported(format!(
        "{registry} keeps no policy objects; name the etcd cluster or the store behind it, or give nodes manifests with --policy-dir"
    ))
}

/// Whether the record found where `known` was is still its node's: under the address known, or under the one in `attrs`, where a
/// renewal was carried out whose answer was lost.
fn is_still_ours(found: &Lease, known: &Lease, attrs: &LeaseAttrs) -> bool {
    let addresses = [known.attrs.public_ip, attrs.public_ip];
    found.subnet == known.subnet && addresses.contains(&found.attrs.public_ip)
}
