//! Policy at a node: where its objects come from, when they are compiled, and what the workers go by.
//!
//! | file | what |
//! |---|---|
//! | `options` | what was asked for |
//! | `control` | the handle that the node holds; starting it all |
//! | `board` | the view in force, and which addresses are ours |
//! | `task`, `desk` | the task that hears of objects and of this host, and what it makes of them |
//! | `enforcement` | what each worker is given of it |
//! | `host` | which addresses the host has |
//! | `refusals`, `words` | refused flows, logged and counted; how that is said |
//!
//! Until every source has said what it has, pods are closed; and so they are for the moment between another subnet being ours
//! and the snapshot that judges by it. A worker takes the node's snapshot first and the view after it, so it never forwards
//! for a subnet by a view that does not know that subnet.

mod board;
mod control;
mod desk;
mod enforcement;
mod host;
mod options;
mod refusals;
mod task;
mod words;

pub use board::PolicyView;
pub use control::{PolicyControl, PolicyError};
pub use enforcement::Enforcement;
pub use options::{Established, PolicyOptions, PolicyScope, UntilSynced};
