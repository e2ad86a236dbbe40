//! How long records have left: one question to etcd for each etcd lease, a bounded number at a time.
//!
//! A watch asks about its own records only. If every node asked about every peer at each resync, a thousand nodes would ask a
//! million questions, and no node goes by how long another one's lease lasts.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashSet;
use tokio::task::JoinSet;

use super::client::Cluster;
use super::records::Record;
use crate::control::registry::LEASE_TTL;
use crate::lease::Lease;

/// How many questions are under way at a time.
const AT_A_TIME: usize = 16;

/// How many etcd leases that no record hangs on are remembered.
const FORGOTTEN: usize = 1024;

/// The etcd leases granted by this store and its clones: what hangs on them is its own.
#[derive(Debug, Default)]
pub(super) struct Granted(DashSet<i64>);

impl Granted {
    pub(super) fn add(&self, id: i64) {
        self.0.insert(id);
    }

    pub(super) fn remove(&self, id: i64) {
        self.0.remove(&id);
    }

    pub(super) fn contains(&self, id: i64) -> bool {
        self.0.contains(&id)
    }

    /// Forgets those that ended unseen, once they are many: none of `records` hangs on them.
    pub(super) fn prune(&self, records: &[Record]) {
        if self.0.len() > records.len() + FORGOTTEN {
            let there: BTreeSet<i64> = records.iter().map(|record| record.etcd_lease).collect();
            self.0.retain(|id| there.contains(id));
        }
    }
}

/// The leases of `records` with the time each has left, as far as `is_asked` about.
///
/// Without an answer, be it that nobody asked or that the question failed, a whole [`LEASE_TTL`] is taken to be left: what ends
/// sooner is reported by the watch anyway.
pub(super) async fn with_time_left(cluster: &Arc<Cluster>, records: Vec<Record>, is_asked: impl Fn(i64) -> bool) -> Vec<Lease> {
    let ids = records.iter().map(|record| record.etcd_lease);
    let mut ids: BTreeSet<i64> = ids.filter(|&id| id != 0 && is_asked(id)).collect();
    let mut left = HashMap::new();
    let mut asked = JoinSet::new();
    while !ids.is_empty() || !asked.is_empty() {
        while asked.len() < AT_A_TIME
            && let Some(id) = ids.pop_first()
        {
            let cluster = Arc::clone(cluster);
            asked.spawn(async move { (id, time_left(&cluster, id).await) });
        }
        match asked.join_next().await {
            Some(Ok((id, Some(time)))) => {
                left.insert(id, time);
            }
            // No contact: asking on would only take longer.
            Some(Ok((_, None))) => ids.clear(),
            _ => {}
        }
    }
    records
        .into_iter()
        .map(|record| {
            let time = left.get(&record.etcd_lease).copied().unwrap_or(LEASE_TTL);
            record.into_lease(time)
        })
        .collect()
}

async fn time_left(cluster: &Cluster, id: i64) -> Option<Duration> {
    let answer = cluster.call(|client| async move { client.lease_client().time_to_live(id, None).await }).await.ok()?;
    // -1: the etcd lease is gone and the key about to follow.
    Some(Duration::from_secs(u64::try_from(answer.ttl()).unwrap_or(0)))
}
