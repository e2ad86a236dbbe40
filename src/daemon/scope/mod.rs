//! Policy scope `node`: all traffic of local pods goes through the TUN, by policy routing alone.
//!
//! ```text
//!  99: from <pod subnet> iif lo lookup main    what the host itself sends to pods, and reverse-path checks
//!  99: to <pod subnet>   iif lo lookup main
//! 100: iif <tun>         lookup main    packets already judged
//! 101: from <pod subnet> lookup 8285    default dev <tun>, or else nowhere
//! 102: to <pod subnet>   lookup 8285
//! main: unreachable <pod subnet>        when no pod has the address
//! ```
//!
//! A pod's packet is so routed into the TUN, judged by a worker, written back to the TUN, and goes on by the main table. The
//! same rules for each family that has a pod subnet.
//!
//! * Local addresses are looked up before all of this, and what the host itself sends never matches: traffic between a pod
//!   and its own node is not judged, so the kubelet's probes pass.
//! * A judged packet's source is reached by another device than the TUN, so the TUN's reverse-path filter must be loose.
//! * The table ends with a blackhole. Should the TUN go away, the kernel drops the route by it, and the pods would fall
//!   through to the main table, past the policy.
//! * The main table ends with an unreachable pod subnet. The overlay's route leads into the TUN as well, and a judged packet for
//!   an address that no pod has would come back until its TTL is used up.
//! * Ours is what carries our protocol number. Everything else stays, also in between and in our table.
//! * Everything outlives the process, like the device: a daemon killed and started again takes over, and meanwhile pods are
//!   cut off, not open.
//!
//! Priorities and table are fixed. Rules of others that come before ours go round the policy and those after cannot, so the
//! place is part of what the scope promises; and one namespace has one TUN that may do this. Where pods hang on a bridge they
//! talk to each other past all routing: [`bypass()`] finds out.

mod bypass;
mod ground;
mod keeping;
mod node_scope;

pub use bypass::bypass;
pub use ground::{FIRST_PRIORITY, PROTOCOL, TABLE};
pub use keeping::Keeping;
pub use node_scope::{NodeScope, ScopeError};
