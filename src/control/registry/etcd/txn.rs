//! Parts of the transactions: what is written, and what their answers mean.

use std::time::Duration;

use etcd_client::{KeyValue, PutOptions, TxnOp, TxnOpResponse, TxnResponse};

use crate::lease::{Lease, LeaseAttrs, SubnetKey};

/// An etcd lease just made.
#[derive(Clone, Copy)]
pub(super) struct Grant {
    pub(super) id: i64,
    pub(super) ttl: Duration,
}

/// Makes a key end with an etcd lease, or with none.
pub(super) fn hung_on(grant: Option<Grant>) -> PutOptions {
    grant.map_or_else(PutOptions::new, |grant| PutOptions::new().with_lease(grant.id))
}

/// Writes a lease's value; the answer brings what was there before.
pub(super) fn put(key: String, attrs: &LeaseAttrs, grant: Option<Grant>) -> TxnOp {
    TxnOp::put(key, attrs.to_json(), Some(hung_on(grant).with_prev_key()))
}

/// The lease that a write has made.
pub(super) fn lease(subnet: &SubnetKey, attrs: &LeaseAttrs, grant: Option<Grant>, revision: i64) -> Lease {
    let revision = u64::try_from(revision).unwrap_or_default();
    Lease { subnet: *subnet, attrs: attrs.clone(), ttl: grant.map(|grant| grant.ttl), revision }
}

/// The revision our write has, if it is ours that is there.
pub(super) fn written(outcome: &TxnResponse, grant: Option<Grant>) -> Option<i64> {
    if outcome.succeeded() {
        return outcome.header().map(etcd_client::ResponseHeader::revision);
    }
    let there = gets(outcome).into_iter().flatten().next()?;
    grant.filter(|grant| grant.id == there.lease()).map(|_| there.mod_revision())
}

/// What the put of a transaction replaced.
pub(super) fn replaced(outcome: &TxnResponse) -> Option<KeyValue> {
    outcome.op_responses().into_iter().find_map(|answer| match answer {
        TxnOpResponse::Put(mut put) => put.take_prev_key(),
        _ => None,
    })
}

/// What each get of a transaction found.
pub(super) fn gets(outcome: &TxnResponse) -> Vec<Option<KeyValue>> {
    let answers = outcome.op_responses().into_iter();
    answers
        .filter_map(|answer| match answer {
            TxnOpResponse::Get(mut get) => Some(get.take_kvs().into_iter().next()),
            _ => None,
        })
        .collect()
}
