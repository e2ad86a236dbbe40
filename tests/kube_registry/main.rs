//! Nodes of a real Kubernetes cluster: a real API server, real daemons in a lab, and the rights that the manifest gives them and no
//! other. Needs root.
#![cfg(feature = "kube")]

#[path = "../e2e_support/daemon.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod daemon;
#[path = "../e2e_support/http.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod http;
#[path = "../kube_support/mod.rs"]
mod kube_support;
#[path = "../e2e_support/lab.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod lab;

mod absence;
mod access;
mod address;
mod cluster;
mod leases;
mod manifest;
mod node;
