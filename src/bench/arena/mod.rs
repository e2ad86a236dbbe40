//! The ground that `felt bench` stands on: for each path a lab of its own with two nodes joined back to back.
//!
//! ```text
//!  client: node1 or its pod                             server: node2 or its pod
//!     veth        eth0 172.30.1.1 ════════════════════ eth0 172.30.1.2
//!     vxlan       flannel.1 10.98.1.0 ══ over eth0 ══ flannel.1 10.98.2.0     as flannel programs it
//!     felt        TUN 10.99.x.0 ── felt run ── eth0 ══ eth0 ── felt run ── TUN 10.99.y.0
//!     felt-policy the same between pods, each flow judged by as many policies as were asked for
//!     felt-plain  the same, one packet a system call
//! ```
//!
//! Labs of their own, so that no path finds the devices, routes or daemons of another in its way. The [`Arena`] builds those it
//! is asked for and switches the offloads of both ends of the wire as each measurement wants them.
//!
//! Everything goes when the arena does, also while a panic unwinds; what a killed process left behind, the next one of the
//! same name removes first. Two of one name cannot stand at once.

mod claim;
mod plan;
mod policies;
mod raise;
mod stand;
mod vxlan;
mod wire;

pub use plan::{ArenaPlan, EndKind, PLAIN_ARGS};
pub use raise::Arena;
