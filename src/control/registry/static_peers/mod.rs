//! Peers that were named one by one, and no store at all: who holds which subnet is what was typed or written into a file.
//!
//! | file | what |
//! |---|---|
//! | `peer` | one peer, as it is typed or stands in a line |
//! | `network` | the network they make, and which peers fit into it |
//! | `shelf` | all leases, as watches are told of them |
//! | `file` | the file, read and followed |
//! | `registry` | the registry of all that |
//!
//! A lease has no end here, and nobody hands any out: each node is told its own subnet. A set of peers is taken whole or not at
//! all; a broken file changes nothing.

mod file;
mod network;
mod peer;
mod registry;
mod shelf;

pub use network::{StaticError, StaticPlan};
pub use peer::{Peer, PeerError};
pub use registry::StaticRegistry;
