//! A registry store inside this process: a redb file, or memory for labs and tests.
//!
//! Everything is kept twice: on disk, where a change is synced before anybody is told of it, and in a
//! [`LeaseLog`](super::log::LeaseLog), from which all reads and watches are served. One process owns the file.
//!
//! Time. While the store runs, leases end by the monotonic clock. The file holds the wall-clock end of each lease, for the next
//! start only. There the time left is what the wall clock says, but never more than the lease's TTL (a clock stepped back) and
//! never less than [`GRACE`] (a clock stepped forward, or a lease that ran out while the server was down): a node that is alive
//! retries its renewal every minute and so keeps its subnet; one that is gone frees it ten minutes later.
//!
//! Policy objects lie in a table of their own and are served from a copy in memory, too.
//!
//! Revisions. Each start begins at a revision never used before (the wall clock's microseconds, if that is higher than the last
//! one), so a watcher's revision from another life, or from before the file was restored from a backup, is recognised.

mod disk;
mod error;
mod policies;
mod record;
mod shelf;
mod store;

pub use error::OpenError;
pub use record::GRACE;
pub use store::EmbeddedStore;
