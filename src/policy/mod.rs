//! The policy engine: who may talk to whom, judged in the process that carries the packet.
//!
//! [`model`] is what is known of a cluster. [`Cluster`] takes it in, change by change and in any order, and compiles it into an
//! immutable [`Policies`], which answers [`Policies::verdict`] for the first packet of each flow. Pure: no clock, no file, no
//! Kubernetes types. It knows nothing of flows; `crate::flow` remembers what was answered here.
//!
//! A flow is allowed if the source pod's egress and the destination pod's ingress both allow it; each is decided alone, tier by
//! tier: Admin, NetworkPolicy, Baseline. An end that is no pod has no say.

pub mod manifest;
pub mod model;
pub mod offline;

mod cluster;
mod compile;
mod explain;
mod judge;
mod refusal;
mod verdict;

pub use cluster::{Change, Cluster, Scope, UnknownPods};
pub use explain::{Direction, End, Explanation, PolicyStep, RuleOutcome, RuleStep, Selected, Side, Step};
pub use refusal::{RefusalEvent, RefusalQueue};
pub use verdict::{Cause, Policies, Refused, Verdict};
