//! Reading lease records: a key and a value of etcd's become a lease, or a warning given once.

use std::time::Duration;

use dashmap::DashMap;
use etcd_client::KeyValue;
use tracing::warn;

use super::keys::Keys;
use crate::lease::{Lease, LeaseAttrs, SubnetKey};

/// How many unreadable records are remembered as warned of; beyond that they are no longer told apart.
const REMEMBERED: usize = 4096;

/// A lease as it lies in etcd.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) subnet: SubnetKey,
    pub(super) attrs: LeaseAttrs,
    /// The etcd lease the key hangs on; 0 for none, which makes a reservation.
    pub(super) etcd_lease: i64,
    pub(super) revision: u64,
}

impl Record {
    /// The lease this is, with `left` to go unless it is a reservation.
    pub(super) fn into_lease(self, left: Duration) -> Lease {
        let ttl = (self.etcd_lease != 0).then_some(left);
        Lease { subnet: self.subnet, attrs: self.attrs, ttl, revision: self.revision }
    }
}

/// Reads records, warning once of each that cannot be read.
#[derive(Debug)]
pub(super) struct Reader {
    keys: Keys,
    /// Unreadable records warned of, by key, with the revision that was.
    warned: DashMap<Vec<u8>, i64>,
}

impl Reader {
    pub(super) fn new(keys: Keys) -> Self {
        Self { keys, warned: DashMap::new() }
    }

    /// The record, if it makes sense.
    pub(super) fn read(&self, kv: &KeyValue) -> Option<Record> {
        match self.parse(kv) {
            Ok(record) => {
                self.forget(kv.key());
                Some(record)
            }
            Err(problem) => {
                if self.remember(kv) {
                    let key = String::from_utf8_lossy(kv.key());
                    let key: String = key.chars().take(200).collect();
                    warn!("etcd key {key:?} is no lease and is skipped: {problem}");
                }
                None
            }
        }
    }

    /// The subnet a deleted record was about, if it was about one.
    pub(super) fn deleted(&self, key: &[u8]) -> Option<SubnetKey> {
        self.forget(key);
        self.keys.subnet(key).ok()
    }

    fn parse(&self, kv: &KeyValue) -> Result<Record, String> {
        let subnet = self.keys.subnet(kv.key()).map_err(|error| error.to_string())?;
        let attrs: LeaseAttrs = serde_json::from_slice(kv.value())
            .map_err(|error| format!("expected a value such as {{\"PublicIP\":\"10.0.0.1\"}}, found {error}"))?;
        let revision = u64::try_from(kv.mod_revision()).unwrap_or_default();
        Ok(Record { subnet, attrs, etcd_lease: kv.lease(), revision })
    }

    fn forget(&self, key: &[u8]) {
        self.warned.remove(key);
    }

    /// Whether this very record is new among the unreadable ones.
    fn remember(&self, kv: &KeyValue) -> bool {
        if self.warned.len() >= REMEMBERED && !self.warned.contains_key(kv.key()) {
            return false;
        }
        self.warned.insert(kv.key().to_vec(), kv.mod_revision()) != Some(kv.mod_revision())
    }
}
