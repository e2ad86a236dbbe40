//! The data plane, sans-IO: packets, time and snapshots come in as arguments; packets, answers and drop reasons go out.
//!
//! One [`Forwarder`] belongs to one thread. A turn of it is, with `now` read once; what is indented is repeated while `egress`
//! or `ingress` says that something is left:
//!
//! ```text
//! tun.recv(from_tun)
//!     egress(now, peers, udp.train(), from_tun, outgoing)
//!     udp.send(to_wire)                           sent(now, to_wire, path_mtu, answers)
//! tun.send_back(back)                             returned(back, refused)
//! tun.send(answers)                               answered(answers, refused)
//!
//! udp.recv(from_wire)
//!     ingress(now, peers, tun.supers(), from_wire, to_tun)
//!     tun.send_gathered(to_tun, from_wire)        written(to_tun, refused)
//! ```
//!
//! * [`egress`] and [`ingress`] each hold the pure judgement of one packet (`judge`, also the entry for fuzzing); the forwarder
//!   carries it out on a batch, and asks the [`Gate`] for policy's word on the packet's flow where there is one.
//! * Each packet that comes in ends in exactly one way: sent, delivered, or dropped under one [`DropReason`]. An ICMP answer
//!   goes beside a drop, never instead of it.
//! * Order within a batch is kept, so a flow that stays on one worker is never reordered.
//! * On the way out packets are copied once, segment by segment, into trains; on the way in they stay where they were received,
//!   and what is written is gathered from there. A batch that is full is sent and gone on with, so nothing is lost for want
//!   of slots as long as each slot has room for a datagram.
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
mod gate;
pub mod ingress;
mod limiter;
pub mod merge;
mod outward;
mod peers;
#[cfg(test)]
mod testing;
mod train;
mod tunnel;

pub use counters::{Counters, Tally, Totals};
pub use drop_reason::DropReason;
pub use forwarder::Forwarder;
pub use gate::{Gate, Rules, Scope};
pub use limiter::Limiter;
pub use outward::Outgoing;
pub use peers::Peers;
pub use tunnel::{SourceCheck, Tunnel};
