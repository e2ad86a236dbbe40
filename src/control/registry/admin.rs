//! What is done to a registry from beside a node: by hand, or by the server that offers it to other nodes.

use async_trait::async_trait;

use super::{Registry, RegistryError, Reservation};
use crate::lease::{Lease, SubnetKey};

/// A registry that can be administered. Reservations follow flannel's reservation API.
#[async_trait]
pub trait RegistryAdmin: Registry {
    /// Puts the network config as it is; checking it is up to the caller.
    async fn put_config(&self, text: &str) -> Result<(), RegistryError>;

    /// All leases, with the time each has left.
    async fn leases(&self) -> Result<Vec<Lease>, RegistryError>;

    /// One lease, if there is one.
    async fn lease(&self, subnet: &SubnetKey) -> Result<Option<Lease>, RegistryError>;

    /// Keeps a subnet for a node. A lease the node has on it becomes the reservation, attributes untouched. Doing it twice is no
    /// error.
    ///
    /// # Errors
    /// [`RegistryError::Taken`] when another node holds the subnet or one overlapping it, [`RegistryError::Unsupported`] when the
    /// subnet is not one of the network's.
    async fn reserve(&self, reservation: &Reservation) -> Result<(), RegistryError>;

    /// Ends a reservation: its lease runs out after one TTL unless the node renews it. Whether there was one.
    async fn unreserve(&self, subnet: &SubnetKey) -> Result<bool, RegistryError>;

    /// Every reservation.
    async fn reservations(&self) -> Result<Vec<Reservation>, RegistryError>;
}
