//! Policy where it counts: real packets between real pods, with a daemon on each node.

#[path = "../e2e_support/mod.rs"]
mod support;

mod etcd;
mod floods;
mod ground;
mod matrix;
mod probes;
mod registry;
mod standing;
mod talk;
