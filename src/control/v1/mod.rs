//! The bodies of flannel's `/v1` lease API, as server and client share them. Not the routes: those are `server::route`.
//!
//! Byte for byte flannel 0.6's, so that its clients read them; reading is as lenient as its servers' and clients' differences ask.
//! What is added (the `felt-error` header, `IPv6Subnet`) is invisible to clients that do not know it.
//!
//! Policy objects have bodies of our own (`policy`).
//!
//! Source: flannel.md §5.3.

mod error;
mod json;
mod lease;
mod moment;
mod policy;
mod watch;

/// The largest answer, in bytes: a snapshot of a hundred thousand leases has some 15 MiB.
pub const ANSWER_LIMIT: usize = 64 << 20;

pub use error::{ERROR_HEADER, ErrorDetail};
pub use lease::{AttrsBody, LeaseBody, ReservationBody};
pub use moment::{expiration, remaining};
pub use policy::{POLICY_WRITE_LIMIT, PolicyBody, PolicyChangeBody, PolicyWatchBody};
pub use watch::{EventBody, EventKind, NetworkWatchBody, WatchBody};
