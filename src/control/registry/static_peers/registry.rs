//! The registry of peers that were named: hands out one subnet, without an end, and tells of the others.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::file::PeersFile;
use super::network::{StaticError, StaticNetwork, StaticPlan};
use super::shelf::Shelf;
use crate::control::registry::{AcquireRequest, Registry, RegistryAdmin, RegistryError, Renewal, Reservation};
use crate::lease::{Lease, LeaseAttrs, SubnetKey, Update};

/// See the module.
#[derive(Debug)]
pub struct StaticRegistry {
    name: String,
    network: StaticNetwork,
    shelf: Arc<Shelf>,
    end: CancellationToken,
    _ends_with_us: DropGuard,
}

impl StaticRegistry {
    /// The registry of `plan`; follows its file. Must be called within a runtime.
    ///
    /// # Errors
    /// When the plan makes no network, or its file is not there or not in order.
    pub fn open(plan: &StaticPlan) -> Result<Self, StaticError> {
        let network = StaticNetwork::new(plan)?;
        let typed: Vec<_> = plan.typed().collect();
        let file = plan.file.clone().map(PeersFile::open).transpose()?;
        let mut all = typed.clone();
        let file = file.map(|(file, peers)| {
            all.extend(peers);
            file
        });
        network.check(&all)?;
        let shelf = Arc::new(Shelf::new(&all));
        let end = CancellationToken::new();
        if let Some(file) = file {
            let following = file.follow(typed, network, Arc::clone(&shelf));
            tokio::spawn(end.clone().run_until_cancelled_owned(following));
        }
        let name = plan.file.as_ref().map_or_else(String::new, |file| format!(" and those in {}", file.display()));
        let name = format!("static peers{name}");
        Ok(Self { name, network, shelf, _ends_with_us: end.clone().drop_guard(), end })
    }

    fn unsupported<T>(&self, what: &str) -> Result<T, RegistryError> {
        Err(RegistryError::Unsupported(format!("{} {what}: change what the nodes are told instead", self.name)))
    }
}

#[async_trait]
impl Registry for StaticRegistry {
    fn describe(&self) -> String {
        self.name.clone()
    }

    async fn config(&self) -> Result<String, RegistryError> {
        Ok(self.network.config())
    }

    /// It is told once: nothing of it changes while we live.
    async fn watch_config(&self) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel(1);
        let config = self.network.config();
        tokio::spawn(async move {
            drop(sender.send(config).await);
            sender.closed().await;
        });
        receiver
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<Lease, RegistryError> {
        Ok(self.shelf.put_own(self.network.own, &request.attrs))
    }

    async fn renew(&self, lease: &Lease, attrs: &LeaseAttrs) -> Result<Renewal, RegistryError> {
        debug_assert_eq!(lease.subnet.v4, self.network.own);
        Ok(Renewal::Renewed(self.shelf.put_own(self.network.own, attrs)))
    }

    async fn revoke(&self, _subnet: &SubnetKey) -> Result<(), RegistryError> {
        self.unsupported("cannot be revoked")
    }

    async fn watch_leases(&self) -> mpsc::Receiver<Update> {
        self.shelf.feed.stream(self.end.clone())
    }
}

#[async_trait]
impl RegistryAdmin for StaticRegistry {
    async fn put_config(&self, _text: &str) -> Result<(), RegistryError> {
        self.unsupported("keep no network config")
    }

    async fn leases(&self) -> Result<Vec<Lease>, RegistryError> {
        Ok(self.shelf.leases())
    }

    async fn lease(&self, subnet: &SubnetKey) -> Result<Option<Lease>, RegistryError> {
        Ok(self.shelf.leases().into_iter().find(|lease| lease.subnet == *subnet))
    }

    async fn reserve(&self, _reservation: &Reservation) -> Result<(), RegistryError> {
        self.unsupported("keep no reservations")
    }

    async fn unreserve(&self, _subnet: &SubnetKey) -> Result<bool, RegistryError> {
        self.unsupported("keep no reservations")
    }

    /// Nothing here has an end, so each lease is one.
    async fn reservations(&self) -> Result<Vec<Reservation>, RegistryError> {
        let leases = self.shelf.leases().into_iter();
        Ok(leases.map(|lease| Reservation { subnet: lease.subnet, public_ip: lease.attrs.public_ip }).collect())
    }
}
