//! The fast path end to end: real daemons, real devices, offloads on and off, and every byte compared. Needs root.
//!
//! What goes through by default, some 4 GB in all, is what a machine with two cores carries in a minute or two. With
//! `FELT_SOAK_GB=10` it is 10 GB for each of the eight combinations of offloads, half of it each way, over underlays that
//! carry trains and underlays that do not in equal parts; other numbers do as they say. Better with `--release` then:
//!
//! ```text
//! FELT_SOAK_GB=10 cargo test --release --test e2e_fastpath integrity -- --nocapture
//! ```
//!
//! Loss is allowed where queues are short, and told; disorder and damage are not. Flows of datagrams are pinned to a processor
//! with all that carries them, as a kernel on several does reorder by itself (see `pin_to_one_cpu`).

#[path = "../e2e_support/mod.rs"]
mod support;

mod burst;
mod capture;
mod datagrams;
mod ground;
mod integrity;
mod noise;
mod sizes;
mod streams;
mod wire;
