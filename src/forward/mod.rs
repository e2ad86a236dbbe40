//! The data plane, sans-IO: packets, time and snapshots come in as arguments; packets, answers and drop reasons go out.
//!
//! One [`Forwarder`] belongs to one worker. Its loop is, with `now` read once per turn:
//!
//! ```text
//! tun.recv(from_tun)     egress(now, peers, from_tun, to_wire, answers)
//! udp.send(to_wire)      sent(now, to_wire, path_mtu, answers)
//! tun.send(answers)      answered(answers, refused)
//! udp.recv(from_wire)    ingress(peers, from_wire, to_tun)
//! tun.send(to_tun)       written(to_tun, refused)
//! ```
//!
//! * [`egress`] and [`ingress`] each hold the pure judgement of one packet (`judge`, also the entry for fuzzing) and the
//!   part of the forwarder that carries it out on a batch.
//! * Each packet that comes in ends in exactly one way: sent, delivered, or dropped under one [`DropReason`]. An ICMP answer
//!   goes beside a drop, never instead of it.
//! * Order within a batch is kept, so a flow that stays on one worker is never reordered.
//! * Packets move between batches by swapping memory. All batches of a worker therefore have slots of one size, and as many
//!   slots where packets go as where they come from. Whatever takes a batch's packets empties it.
//! * Inner addresses are never rewritten.
//!
//! Not here: sockets, devices, clocks; which node leases what ([`Peers`] is asked); the order of start and stop.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod answer;
mod counters;
mod drop_reason;
mod ecn;
pub mod egress;
pub mod encap;
mod forwarder;
pub mod ingress;
mod limiter;
pub mod merge;
mod peers;
#[cfg(test)]
mod testing;
mod train;
mod tunnel;

pub use counters::{Counters, Tally, Totals};
pub use drop_reason::DropReason;
pub use forwarder::Forwarder;
pub use limiter::Limiter;
pub use peers::Peers;
pub use tunnel::{SourceCheck, Tunnel};
