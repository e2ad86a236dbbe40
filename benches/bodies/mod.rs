//! What the benches run, the instruction counts run, and the allocation test counts: the same bodies.

#![allow(dead_code, reason = "each of them uses a part")]
#![allow(clippy::unwrap_used, reason = "of their own making")]

pub mod coalesce;
pub mod flow;
pub mod forward;
pub mod lease_table;
pub mod overlay;
pub mod policy;
pub mod ports;
pub mod wire;
