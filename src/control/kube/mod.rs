//! The way to a Kubernetes API server: who and where it is ([`KubeAccess`]), and calls that fail in few, distinct ways.
//!
//! Nothing is tried again here, and nothing waits for ever: back-off is the business of whoever calls.

mod access;
#[cfg(feature = "kube")]
mod api;
#[cfg(feature = "kube")]
mod config;
#[cfg(feature = "kube")]
mod patch;

pub use access::KubeAccess;
#[cfg(feature = "kube")]
pub use api::{KubeApi, KubeFailure, Lines};
#[cfg(feature = "kube")]
pub use config::KubeAccessError;
