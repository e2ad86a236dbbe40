//! A running node as people and probes see it: liveness, readiness, counters. Reads, never decides.

mod health;
mod http;
mod metrics;

pub use health::{Health, Pulse};
pub use http::{HealthServer, HealthServerError};
pub use metrics::{Gauges, Metrics};
