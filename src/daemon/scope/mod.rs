//! Policy scope `node`: all traffic of local pods goes through the TUN, by policy routing alone.
//!
//! ```text
//!  97: to <former subnet> iif <tun> lookup main suppress_prefixlength <overlay>    judged packets for pods of former subnets
//!  98: to <former subnet> iif <tun> unreachable    or for nobody
//!  99: from <pod subnet> iif lo lookup main    what the host itself sends to pods, and reverse-path checks
//!  99: to <pod subnet>   iif lo lookup main
//!  99: iif <tun>         lookup main    packets already judged
//! 100: iif <tun>         unreachable    or what has no way on
//! 101: from <pod subnet> lookup 8285    default dev <tun>, or else nowhere
//! 102: to <pod subnet>   lookup 8285
//! 103: from <pod subnet> blackhole      should the table be empty
//! 103: to <pod subnet>   blackhole
//! main: unreachable <pod subnet>        when no pod has the address; not for former subnets
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
//! * A rule whose table has no answer is followed by the next one. So behind those that lead to a table there is one that
//!   leads nowhere: else a judged packet without a way would go into the TUN again, and pods would be open while the table is empty.
//! * Pods keep their addresses when the node comes to hold another subnet, or starts with another. They stay judged: the rules
//!   in the kernel tell which subnets were ours ([`Keeping`]). Another node may lease such a subnet by then, so the main table
//!   leaves it to the overlay's route, and the forwarder decides by the lease table whose a packet is.
//! * Ours is what carries our protocol number. Everything else stays, also in between and in our table.
//! * Everything outlives the process, like the device: a daemon killed and started again takes over, and meanwhile pods are
//!   cut off, not open.
//!
//! Priorities and table are fixed. Rules of others that come before ours go round the policy and those after cannot, so the
//! place is part of what the scope promises; and one namespace has one TUN that may do this. Where pods hang on a bridge they
//! talk to each other past all routing: [`bypass()`] finds out.

mod bypass;
mod forging;
mod ground;
mod keeping;
mod node_scope;

pub use bypass::bypass;
pub use ground::{FIRST_PRIORITY, PROTOCOL, TABLE, is_news};
pub use keeping::{FORMER_MAX, Keeping};
pub use node_scope::{NodeScope, ScopeError};
