//! Notes of which node holds which lease, beside the leases where flannel does not look.
//!
//! A note hangs on the same etcd lease as its lease's key; one that does not was left by a former holder and says nothing. A user
//! whose role covers flannel's keys only may not write notes: then there are none, and everything else goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use etcd_client::{Compare, CompareOp, Txn, TxnOp, TxnResponse};
use tracing::warn;

use super::store::EtcdStore;
use super::txn::{Grant, gets, hung_on};
use crate::control::registry::RegistryError;
use crate::lease::{Lease, SubnetKey};

/// Whether this user may touch notes.
#[derive(Debug)]
pub(super) struct Notes {
    allowed: AtomicBool,
}

impl Default for Notes {
    fn default() -> Self {
        Self { allowed: AtomicBool::new(true) }
    }
}

impl Notes {
    fn are_allowed(&self) -> bool {
        self.allowed.load(Ordering::Relaxed)
    }

    fn forbid(&self, place: &str) {
        if self.allowed.swap(false, Ordering::Relaxed) {
            warn!(
                "no access to {place} in etcd: two nodes with one public IP will not be told apart; grant this user read and \
                 write there too"
            );
        }
    }
}

impl EtcdStore {
    /// Runs the transaction that `build` makes, with operations on notes if they are allowed.
    pub(super) async fn txn_with_notes<B>(&self, build: B) -> Result<TxnResponse, RegistryError>
    where
        B: Fn(bool) -> Txn + Send + Sync,
    {
        if !self.notes().are_allowed() {
            return self.txn(build(false)).await;
        }
        match self.txn(build(true)).await {
            Err(RegistryError::Denied { .. }) => {
                let outcome = self.txn(build(false)).await?;
                self.notes().forbid(&self.keys().nodes());
                Ok(outcome)
            }
            outcome => outcome,
        }
    }

    /// See [`Store::node_of`](crate::control::registry::store::Store::node_of).
    pub(super) async fn noted_node(&self, subnet: &SubnetKey) -> Result<Option<String>, RegistryError> {
        let lease = TxnOp::get(self.keys().lease(subnet), None);
        let both = |notes: bool| {
            let note = notes.then(|| TxnOp::get(self.keys().node(subnet), None));
            Txn::new().and_then(Some(lease.clone()).into_iter().chain(note).collect::<Vec<_>>())
        };
        let found = gets(&self.txn_with_notes(both).await?);
        let (Some(Some(lease)), Some(Some(note))) = (found.first(), found.get(1)) else { return Ok(None) };
        let belongs = lease.lease() == note.lease();
        Ok(belongs.then(|| String::from_utf8_lossy(note.value()).into_owned()))
    }

    /// See [`Store::note_node`](crate::control::registry::store::Store::note_node).
    pub(super) async fn write_note(&self, lease: &Lease, node: &str) -> Result<(), RegistryError> {
        if !self.notes().are_allowed() {
            return Ok(());
        }
        let key = self.keys().lease(&lease.subnet);
        let found = self.get(key.clone(), None).await?;
        let revision = i64::try_from(lease.revision).unwrap_or(i64::MAX);
        let Some(kv) = found.kvs().first().filter(|kv| kv.mod_revision() == revision) else { return Ok(()) };
        let grant = (kv.lease() != 0).then_some(Grant { id: kv.lease(), ttl: Duration::ZERO });
        let txn = Txn::new().when([Compare::mod_revision(key, CompareOp::Equal, revision)]).and_then([TxnOp::put(
            self.keys().node(&lease.subnet),
            node,
            Some(hung_on(grant)),
        )]);
        self.txn(txn).await.map(drop)
    }
}
