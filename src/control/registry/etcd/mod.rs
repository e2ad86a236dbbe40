//! The etcd registry (API v3): flannel's keys and values in an etcd cluster, as a [`Store`](super::store::Store).
//!
//! | file | what |
//! |---|---|
//! | `config` | which cluster and how it is entered, checked |
//! | `client` | one connection at a time to one member, replaced when it fails; deadlines, re-authentication |
//! | `diagnose` | why a TLS server will not have us |
//! | `error` | what went wrong: move to another member, authenticate again, or give up |
//! | `keys`, `records` | where things are kept and what their bytes say |
//! | `store`, `txn` | the transactions, and the parts they are made of |
//! | `notes` | which node holds a lease, beside it |
//! | `policies` | policy objects, beside the leases |
//! | `ttl` | how long records have left |
//! | `watch` | a watch that never ends, whatever the cluster does |
//! | `followers` | what is watched: the config, the leases |
//!
//! Three facts of etcd 3.4 and its clients shape all this: a frozen server hangs calls for ever unless something sets a deadline,
//! a dead watch gives the same error on every read, and compaction shows only in `compact_revision`.

mod client;
mod config;
mod diagnose;
mod error;
mod followers;
mod keys;
mod notes;
mod policies;
mod records;
mod store;
mod ttl;
mod txn;
mod watch;

pub use config::{EtcdConfig, EtcdConfigError};
pub use store::EtcdStore;
