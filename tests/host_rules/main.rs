//! What a node does on its host beside the tunnel: masquerading, accepting in FORWARD, a blackhole route, and how all that is
//! removed; with real packets, real nft and iptables. Needs root.

#[path = "../e2e_support/mod.rs"]
mod support;

mod blackhole;
mod cleanup;
mod forward;
mod ground;
mod refusal;
mod rules;
mod traffic;
