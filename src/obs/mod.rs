//! A running node as people and probes see it: liveness, readiness, counters. Reads, never decides.

mod families;
mod health;
mod http;
mod metrics;
mod policy;

pub use health::{Health, Pulse};
pub use http::{HealthServer, HealthServerError};
pub use metrics::{Gauges, Metrics};
pub use policy::PolicyGauges;
