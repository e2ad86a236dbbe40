//! Reservations and the rest of [`RegistryAdmin`], over any store.

use async_trait::async_trait;

use super::range::range_of;
use super::{REWRITE_ATTEMPTS, RegistryError, Store, StoreRegistry};
use crate::control::registry::{Registry, RegistryAdmin, Reservation};
use crate::lease::{Lease, LeaseAttrs, SubnetKey};

#[async_trait]
impl<S: Store> RegistryAdmin for StoreRegistry<S> {
    async fn put_config(&self, text: &str) -> Result<(), RegistryError> {
        self.store.put_config(text).await
    }

    async fn leases(&self) -> Result<Vec<Lease>, RegistryError> {
        Ok(self.store.list().await?.leases)
    }

    async fn lease(&self, subnet: &SubnetKey) -> Result<Option<Lease>, RegistryError> {
        self.store.read(subnet).await
    }

    async fn reserve(&self, reservation: &Reservation) -> Result<(), RegistryError> {
        let Reservation { subnet, public_ip } = reservation;
        let range = range_of(&self.config().await?)?;
        // One outside the limits, which flannel takes, would be given back by its own node.
        if subnet.v6.is_some() || !range.admits(&subnet.v4) {
            return Err(RegistryError::Unsupported(format!(
                "expected a /{} subnet of {} from {} to {} to reserve, found {}",
                range.subnet_len, range.network, range.min, range.max, subnet
            )));
        }
        let taken = |lease: &Lease| RegistryError::Taken {
            subnet: subnet.to_string(),
            holder: format!("{} as {}", lease.attrs.public_ip, lease.subnet),
        };
        for _ in 0..REWRITE_ATTEMPTS {
            let leases = self.store.holders().await?.leases;
            let done = match leases.iter().find(|lease| lease.subnet.v4.overlaps(&subnet.v4)) {
                None => self.store.create(subnet, &LeaseAttrs::udp(*public_ip), None).await?,
                Some(lease) if lease.subnet != *subnet || lease.attrs.public_ip != *public_ip => return Err(taken(lease)),
                Some(lease) if lease.is_reservation() => return Ok(()),
                Some(lease) => self.store.replace(lease, &lease.attrs, None).await?,
            };
            if done.is_some() {
                return Ok(());
            }
        }
        Err(RegistryError::Raced { attempts: REWRITE_ATTEMPTS })
    }

    async fn unreserve(&self, subnet: &SubnetKey) -> Result<bool, RegistryError> {
        for _ in 0..REWRITE_ATTEMPTS {
            let Some(lease) = self.store.read(subnet).await?.filter(Lease::is_reservation) else { return Ok(false) };
            if self.store.replace(&lease, &lease.attrs, Some(self.ttl)).await?.is_some() {
                return Ok(true);
            }
        }
        Err(RegistryError::Raced { attempts: REWRITE_ATTEMPTS })
    }

    async fn reservations(&self) -> Result<Vec<Reservation>, RegistryError> {
        let leases = self.store.holders().await?.leases;
        let reserved = leases.iter().filter(|lease| lease.is_reservation());
        Ok(reserved.map(|lease| Reservation { subnet: lease.subnet, public_ip: lease.attrs.public_ip }).collect())
    }
}
