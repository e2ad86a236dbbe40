//! Taking a subnet: carries out what [`allocation`](crate::lease::allocation) chooses, until something holds.

use std::net::Ipv4Addr;
use std::time::Duration;

use rand::RngExt;
use tracing::{info, warn};

use super::range::range_of;
use super::{AcquireRequest, RegistryError, Store, StoreRegistry};
use crate::lease::allocation::{Choice, Origin, Wish, choose};
use crate::lease::{Lease, SubnetKey, SubnetRange};

/// How many races may be lost. Each lost race means that another node got its subnet, so a crowd starting at once needs about as
/// many as it has members in the worst case; flannel gives up after 10.
const ATTEMPTS: u32 = 100;

/// Longest pause between two attempts; the pause is random and grows, so that a crowd spreads out.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

impl<S: Store> StoreRegistry<S> {
    /// [`Registry::acquire`](super::Registry::acquire).
    pub(super) async fn take(&self, request: &AcquireRequest) -> Result<Lease, RegistryError> {
        let range = range_of(&super::Registry::config(self).await?)?;
        let public_ip = request.attrs.public_ip;
        let mut avoid = Vec::new();
        let mut looked_again = false;
        // Leases of ours that the config does not admit any more: given back once there is another, so that this node is not
        // without one meanwhile.
        let mut outdated: Vec<Lease> = Vec::new();
        for attempt in 0..ATTEMPTS {
            let mut leases = self.store.holders().await?.leases;
            leases.retain(|lease| !outdated.iter().any(|old| old.subnet == lease.subnet));
            if let Some(lease) = self.moved_here(&range, &leases, request).await? {
                info!("lease {}: public IP changes from {} to {public_ip}", lease.subnet, lease.attrs.public_ip);
                if let Some(lease) = self.adopt(&lease, request).await? {
                    return Ok(lease);
                }
                continue;
            }
            let taken: Vec<_> = avoid.iter().copied().chain(outdated.iter().map(|old| old.subnet.v4)).collect();
            let wish = Wish { public_ip, previous: request.previous, avoid: &taken };
            let choice = choose(&range, &leases, &wish, &mut rand::rng());
            let taken = match choice {
                Choice::Adopt(lease) => {
                    self.refuse_duplicate(&lease, request).await?;
                    self.adopt(&lease, request).await?
                }
                Choice::Discard(lease) => {
                    self.refuse_duplicate(&lease, request).await?;
                    warn!("lease {} of this node does not fit the network config any more: giving it back", lease.subnet);
                    outdated.push(lease);
                    continue;
                }
                Choice::Create(subnet, origin) => {
                    if origin == Origin::Random {
                        say_why_not_previous(&leases, request);
                    }
                    let taken = self.create(&subnet, request).await?;
                    if taken.is_none() {
                        avoid.push(subnet.v4);
                    }
                    taken
                }
                // The addresses of an old lease are needed for the new one.
                Choice::Exhausted if outdated.iter().any(|old| range.touches(&old.subnet.v4)) => {
                    for old in outdated.extract_if(.., |old| range.touches(&old.subnet.v4)) {
                        self.store.delete(&old.subnet, Some(old.revision)).await?;
                    }
                    continue;
                }
                // What was avoided may have become free since; look once more before giving up.
                Choice::Exhausted if !avoid.is_empty() && !looked_again => {
                    looked_again = true;
                    avoid.clear();
                    None
                }
                Choice::Exhausted => {
                    return Err(RegistryError::OutOfSubnets {
                        range: format!("{} to {} in {}", range.min, range.max, range.network),
                    });
                }
            };
            match taken {
                Some(lease) => {
                    self.give_back(&outdated).await;
                    return Ok(lease);
                }
                None => pause(attempt).await,
            }
        }
        Err(RegistryError::Raced { attempts: ATTEMPTS })
    }

    /// Gives leases back that are of no use any more. One that cannot be deleted ends by itself.
    async fn give_back(&self, outdated: &[Lease]) {
        for old in outdated {
            if let Err(error) = self.store.delete(&old.subnet, Some(old.revision)).await {
                warn!("lease {} cannot be given back: {error}", old.subnet);
            }
        }
    }

    /// The lease this node held under another address, told by the node noted beside it.
    async fn moved_here(
        &self,
        range: &SubnetRange<Ipv4Addr>,
        leases: &[Lease],
        request: &AcquireRequest,
    ) -> Result<Option<Lease>, RegistryError> {
        let (Some(previous), Some(node)) = (request.previous, &request.node) else { return Ok(None) };
        if leases.iter().any(|lease| lease.attrs.public_ip == request.attrs.public_ip) {
            return Ok(None);
        }
        let is_previous = |lease: &&Lease| lease.subnet == SubnetKey::from(previous) && range.admits(&lease.subnet.v4);
        let Some(lease) = leases.iter().find(is_previous) else { return Ok(None) };
        let noted = self.store.node_of(&lease.subnet).await?;
        Ok((noted.as_ref() == Some(node)).then(|| lease.clone()))
    }

    /// An error if the lease under our public IP belongs to another machine.
    async fn refuse_duplicate(&self, lease: &Lease, request: &AcquireRequest) -> Result<(), RegistryError> {
        let Some(node) = &request.node else { return Ok(()) };
        match self.store.node_of(&lease.subnet).await? {
            Some(other) if other != *node => Err(RegistryError::DuplicatePublicIp {
                public_ip: request.attrs.public_ip,
                other,
                subnet: lease.subnet.to_string(),
            }),
            _ => Ok(()),
        }
    }

    async fn adopt(&self, lease: &Lease, request: &AcquireRequest) -> Result<Option<Lease>, RegistryError> {
        let adopted = self.rewrite(lease, &request.attrs).await?;
        self.note(adopted.as_ref(), request).await;
        Ok(adopted)
    }

    async fn create(&self, subnet: &SubnetKey, request: &AcquireRequest) -> Result<Option<Lease>, RegistryError> {
        let created = self.store.create(subnet, &request.attrs, Some(self.ttl)).await?;
        self.note(created.as_ref(), request).await;
        Ok(created)
    }

    /// Notes who holds the lease. The note only guards against a misconfiguration, so failing to write it fails nothing.
    async fn note(&self, lease: Option<&Lease>, request: &AcquireRequest) {
        if let (Some(lease), Some(node)) = (lease, &request.node)
            && let Err(error) = self.store.note_node(lease, node).await
        {
            warn!("lease {}: cannot note the node beside it: {error}", lease.subnet);
        }
    }
}

fn say_why_not_previous(leases: &[Lease], request: &AcquireRequest) {
    let Some(previous) = request.previous else { return };
    let holder = leases.iter().find(|lease| lease.subnet.v4.overlaps(&previous));
    let why = holder.map_or_else(
        || "cannot be taken in this network".to_owned(),
        |lease| format!("is now leased to {} as {}", lease.attrs.public_ip, lease.subnet),
    );
    warn!("previous subnet {previous} {why}: taking another");
}

async fn pause(attempt: u32) {
    let longest = LONGEST_PAUSE.min(Duration::from_millis(20) * (attempt + 1));
    let pause = rand::rng().random_range(Duration::ZERO..=longest);
    tokio::time::sleep(pause).await;
}
