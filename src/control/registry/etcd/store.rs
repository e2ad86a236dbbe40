//! The [`Store`] of an etcd cluster: each writing call is one transaction on exactly named keys.
//!
//! A try whose answer was lost may have been carried out, so every transaction that fails its comparison also reads the key back:
//! a key that hangs on the etcd lease we just made is our own doing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{
    Client, Compare, CompareOp, GetOptions, GetResponse, KvClient, LeaseTimeToLiveOptions, Txn, TxnOp, TxnResponse,
};
use tokio::sync::mpsc;

use super::client::{Cluster, Member};
use super::config::{EtcdConfig, EtcdConfigError};
use super::followers::{ConfigFollower, LeaseFollower};
use super::keys::Keys;
use super::notes::Notes;
use super::records::{Reader, Record};
use super::ttl::{Granted, with_time_left};
use super::txn::{Grant, hung_on, lease, put, replaced, written};
use super::watch::{Follower, follow};
use crate::control::contact::Contact;
use crate::control::registry::store::{Listing, Store};
use crate::control::registry::{PolicyStore, RegistryError};
use crate::lease::{Lease, LeaseAttrs, SubnetKey, Update};

/// Largest answer that is read. The library's 4 MiB are reached by some 20,000 leases.
pub(super) const LARGEST_ANSWER: usize = 256 << 20;

/// Reports a watch may be ahead of its receiver.
pub(super) const AHEAD: usize = 16;

/// Leases and the network config in etcd. Cloning gives another handle on the same connection.
#[derive(Clone, Debug)]
pub struct EtcdStore {
    cluster: Arc<Cluster>,
    keys: Keys,
    reader: Arc<Reader>,
    contact: Arc<Contact>,
    notes: Arc<Notes>,
    granted: Arc<Granted>,
}

impl EtcdStore {
    /// Checks the config and reads its files. Makes no contact: that is up to the first call.
    pub fn new(config: &EtcdConfig) -> Result<Self, EtcdConfigError> {
        let members = config.members()?;
        let keys = Keys::below(&config.prefix);
        let urls: Vec<&str> = members.iter().map(Member::url).collect();
        let name = format!("etcd at {}", urls.join(","));
        let contact = Contact::new(name.clone());
        let cluster = Arc::new(Cluster::new(name, members));
        let reader = Arc::new(Reader::new(keys.clone()));
        Ok(Self { cluster, reader, keys, contact, notes: Arc::default(), granted: Arc::default() })
    }

    pub(super) async fn get(&self, key: String, options: Option<GetOptions>) -> Result<GetResponse, RegistryError> {
        let get = |client: Client| {
            let (mut kv, key, options) = (kv(&client), key.clone(), options.clone());
            async move { kv.get(key, options).await }
        };
        self.cluster.call(get).await
    }

    pub(super) async fn txn(&self, txn: Txn) -> Result<TxnResponse, RegistryError> {
        let run = |client: Client| {
            let (mut kv, txn) = (kv(&client), txn.clone());
            async move { kv.txn(txn).await }
        };
        self.cluster.call(run).await
    }

    /// Every readable record, and the revision they were read at.
    async fn records(&self) -> Result<(Vec<Record>, i64), RegistryError> {
        let found = self.get(self.keys.leases(), Some(GetOptions::new().with_prefix())).await?;
        let revision = found.header().map_or(0, etcd_client::ResponseHeader::revision);
        Ok((found.kvs().iter().filter_map(|kv| self.reader.read(kv)).collect(), revision))
    }

    /// A new etcd lease; `None` where none is wanted.
    async fn grant(&self, ttl: Option<Duration>) -> Result<Option<Grant>, RegistryError> {
        let Some(ttl) = ttl else { return Ok(None) };
        let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX).max(1);
        let granted = self.cluster.call(|client| async move { client.lease_client().grant(seconds, None).await }).await?;
        let ttl = Duration::from_secs(u64::try_from(granted.ttl()).unwrap_or(0));
        self.granted.add(granted.id());
        Ok(Some(Grant { id: granted.id(), ttl }))
    }

    /// Gives an etcd lease back that no key hangs on, in its own time: nothing depends on it but tidiness.
    fn give_back(&self, id: i64) {
        self.granted.remove(id);
        let cluster = Arc::clone(&self.cluster);
        tokio::spawn(async move {
            let with_keys = Some(LeaseTimeToLiveOptions::new().with_keys());
            let ask = |client: Client| {
                let with_keys = with_keys.clone();
                async move { client.lease_client().time_to_live(id, with_keys).await }
            };
            // Somebody may have hung a key of theirs on it.
            if cluster.call(ask).await.is_ok_and(|lease| lease.ttl() > 0 && lease.keys().is_empty()) {
                revoke(&cluster, id).await;
            }
        });
    }

    /// Undoes a creation whose outcome is not known: revoking the etcd lease deletes the key if it was created.
    fn undo(&self, id: i64) {
        self.granted.remove(id);
        let cluster = Arc::clone(&self.cluster);
        tokio::spawn(async move { revoke(&cluster, id).await });
    }
}

#[async_trait]
impl Store for EtcdStore {
    fn describe(&self) -> String {
        format!("{}, prefix {}", self.cluster.name(), self.keys.prefix())
    }

    fn config_place(&self) -> String {
        format!("key {} in {} (v3 API)", self.keys.config(), self.cluster.name())
    }

    async fn config(&self) -> Result<Option<String>, RegistryError> {
        Ok(self.config_at().await?.0)
    }

    async fn put_config(&self, text: &str) -> Result<(), RegistryError> {
        let put = |client: Client| {
            let (key, text) = (self.keys.config(), text.to_owned());
            async move { kv(&client).put(key, text, None).await }
        };
        self.cluster.call(put).await.map(drop)
    }

    async fn watch_config(&self) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel(AHEAD);
        self.follow(ConfigFollower::new(self.clone(), self.keys.config(), sender));
        receiver
    }

    async fn list(&self) -> Result<Listing, RegistryError> {
        let (records, revision) = self.records().await?;
        let leases = with_time_left(&self.cluster, records, |_| true).await;
        Ok(Listing { leases, revision: u64::try_from(revision).unwrap_or_default() })
    }

    async fn holders(&self) -> Result<Listing, RegistryError> {
        let (records, revision) = self.records().await?;
        let leases = records.into_iter().map(|record| record.into_lease(super::super::LEASE_TTL)).collect();
        Ok(Listing { leases, revision: u64::try_from(revision).unwrap_or_default() })
    }

    async fn read(&self, subnet: &SubnetKey) -> Result<Option<Lease>, RegistryError> {
        let found = self.get(self.keys.lease(subnet), None).await?;
        let records = found.kvs().iter().filter_map(|kv| self.reader.read(kv)).collect();
        Ok(with_time_left(&self.cluster, records, |_| true).await.pop())
    }

    async fn create(
        &self,
        subnet: &SubnetKey,
        attrs: &LeaseAttrs,
        ttl: Option<Duration>,
    ) -> Result<Option<Lease>, RegistryError> {
        let grant = self.grant(ttl).await?;
        let key = self.keys.lease(subnet);
        let txn = |notes: bool| {
            // A note left from a former life of the key says nothing about its new holder.
            let stale = notes.then(|| TxnOp::delete(self.keys.node(subnet), None));
            Txn::new()
                .when([Compare::version(key.clone(), CompareOp::Equal, 0)])
                .and_then(Some(put(key.clone(), attrs, grant)).into_iter().chain(stale).collect::<Vec<_>>())
                .or_else([TxnOp::get(key.clone(), None)])
        };
        let outcome = match self.txn_with_notes(txn).await {
            Ok(outcome) => outcome,
            Err(error) => {
                if let Some(grant) = grant {
                    self.undo(grant.id);
                }
                return Err(error);
            }
        };
        let revision = written(&outcome, grant);
        if let (None, Some(grant)) = (revision, grant) {
            self.give_back(grant.id);
        }
        Ok(revision.map(|revision| lease(subnet, attrs, grant, revision)))
    }

    async fn replace(&self, known: &Lease, attrs: &LeaseAttrs, ttl: Option<Duration>) -> Result<Option<Lease>, RegistryError> {
        let grant = self.grant(ttl).await?;
        let (key, node) = (self.keys.lease(&known.subnet), self.keys.node(&known.subnet));
        let revision = i64::try_from(known.revision).unwrap_or(i64::MAX);
        let hang_over = || {
            Txn::new().when([Compare::version(node.clone(), CompareOp::Greater, 0)]).and_then([TxnOp::put(
                node.clone(),
                "",
                Some(hung_on(grant).with_ignore_value()),
            )])
        };
        let txn = |notes: bool| {
            let along = notes.then(|| TxnOp::txn(hang_over()));
            Txn::new()
                // Revision 0 means "absent" to etcd, and no lease of ours ever is.
                .when([
                    Compare::mod_revision(key.clone(), CompareOp::Equal, revision),
                    Compare::version(key.clone(), CompareOp::Greater, 0),
                ])
                .and_then(Some(put(key.clone(), attrs, grant)).into_iter().chain(along).collect::<Vec<_>>())
                .or_else([TxnOp::get(key.clone(), None)])
        };
        // If the outcome stays unknown, the new etcd lease is left alone: our key may hang on it.
        let outcome = self.txn_with_notes(txn).await?;
        let revision = written(&outcome, grant);
        match (revision, grant) {
            (None, Some(grant)) => self.give_back(grant.id),
            (Some(_), _) => {
                if let Some(old) = replaced(&outcome).map(|kv| kv.lease()).filter(|&id| id != 0) {
                    self.give_back(old);
                }
            }
            (None, None) => {}
        }
        Ok(revision.map(|revision| lease(&known.subnet, attrs, grant, revision)))
    }

    async fn delete(&self, subnet: &SubnetKey, revision: Option<u64>) -> Result<bool, RegistryError> {
        let key = self.keys.lease(subnet);
        let mut conditions = vec![Compare::version(key.clone(), CompareOp::Greater, 0)];
        if let Some(revision) = revision {
            let revision = i64::try_from(revision).unwrap_or(i64::MAX);
            conditions.push(Compare::mod_revision(key.clone(), CompareOp::Equal, revision));
        }
        let txn = |notes: bool| {
            let note = notes.then(|| TxnOp::delete(self.keys.node(subnet), None));
            let delete = TxnOp::delete(key.clone(), None);
            Txn::new().when(conditions.clone()).and_then(Some(delete).into_iter().chain(note).collect::<Vec<_>>())
        };
        Ok(self.txn_with_notes(txn).await?.succeeded())
    }

    async fn watch_leases(&self) -> mpsc::Receiver<Update> {
        let (sender, receiver) = mpsc::channel(AHEAD);
        self.follow(LeaseFollower::new(self.clone(), sender));
        receiver
    }

    async fn node_of(&self, subnet: &SubnetKey) -> Result<Option<String>, RegistryError> {
        self.noted_node(subnet).await
    }

    async fn note_node(&self, lease: &Lease, node: &str) -> Result<(), RegistryError> {
        self.write_note(lease, node).await
    }

    fn policy_store(&self) -> Result<Arc<dyn PolicyStore>, RegistryError> {
        Ok(Arc::new(self.clone()))
    }

    fn forget_connections(&self) {
        self.cluster.forget();
    }
}

impl EtcdStore {
    /// The config's text, and the revision it was read at.
    pub(super) async fn config_at(&self) -> Result<(Option<String>, i64), RegistryError> {
        let found = self.get(self.keys.config(), None).await?;
        let text = found.kvs().first().map(|kv| String::from_utf8_lossy(kv.value()).into_owned());
        Ok((text, found.header().map_or(0, etcd_client::ResponseHeader::revision)))
    }

    /// The leases as a watch tells them: the time left is that of [`told`](Self::told).
    pub(super) async fn watched(&self) -> Result<Listing, RegistryError> {
        let (records, revision) = self.records().await?;
        self.granted.prune(&records);
        Ok(Listing { leases: self.told(records).await, revision: u64::try_from(revision).unwrap_or_default() })
    }

    /// The leases of `records`, with the time left of those granted here, and a guess for all others.
    pub(super) async fn told(&self, records: Vec<Record>) -> Vec<Lease> {
        with_time_left(&self.cluster, records, |id| self.granted.contains(id)).await
    }

    /// Has `follower` hear of its key for as long as it wants to.
    pub(super) fn follow(&self, follower: impl Follower) {
        tokio::spawn(follow(Arc::clone(&self.cluster), self.contact.join(), follower));
    }

    pub(super) fn name(&self) -> &str {
        self.cluster.name()
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(super) fn notes(&self) -> &Notes {
        &self.notes
    }
}

fn kv(client: &Client) -> KvClient {
    client.kv_client().max_decoding_message_size(LARGEST_ANSWER)
}

async fn revoke(cluster: &Cluster, id: i64) {
    let revoked = cluster.call(|client| async move { client.lease_client().revoke(id).await }).await;
    if let Err(error) = revoked {
        tracing::debug!("etcd lease {id:x} is left to run out: {error}");
    }
}
