//! Networks of nodes and pods on one machine, in network namespaces: what `felt lab`, `felt bench` and the tests run in.
//!
//! ```text
//!                     hub (registry)
//!             ┌───────── bridge ─────────┐        underlay 172.30.0.0/16
//!          node1        node2  …       nodeN      each with a real `felt run` and its TUN
//!          /   \        /   \          /   \
//!       pod1  pod2   pod1  pod2     pod1  pod2    overlay addresses out of the node's lease
//! ```
//!
//! For measurements two nodes may be joined directly, `eth0` to `eth0`; the hub then carries the registry alone:
//!
//! ```text
//!            ┌── node1 ctl0 ──┐
//!     hub (bridge, registry)  │  172.30.1.1 eth0 ═══ eth0 172.30.1.2
//!            └── node2 ctl0 ──┘
//! ```
//!
//! With a [`LabPolicy`] the daemons also enforce network policy, out of a folder that describes the lab as a cluster.
//!
//! A lab is described by a [`LabPlan`], built by [`Lab::up`], found again by [`Lab::open`] and removed by [`down`]. Daemons and
//! registry are real processes of the same binary, so that they can be killed and frozen as such. [`probe`] looks at a lab
//! from inside.
//!
//! Invariants: nothing outside the lab's own namespaces and its directory under `/run/felt/lab` is changed; only processes
//! that the lab started are ever signalled; whatever fails half-way is taken down again; labs of different names do not
//! touch.

mod build;
mod demo;
mod ephemeral;
mod error;
mod exec;
mod interrupt;
#[allow(clippy::module_inception, reason = "the room and its main type are one word")]
mod lab;
mod name;
mod node;
mod plan;
mod policy;
pub mod probe;
mod process;
mod registry;
mod requirements;
mod state;
mod status;
mod subnet_env;
mod teardown;
mod wiring;

pub use build::{Progress, Silent};
pub use demo::{Stage, demo};
pub use ephemeral::EphemeralLab;
pub use error::LabError;
pub use interrupt::Interrupt;
pub use lab::Lab;
pub use name::{LabName, Place};
pub use node::{HEALTH_PORT, Node, READY_PATIENCE};
pub use plan::{HUB_ADDRESS, LabPlan, Link, MAX_NODES, MAX_PODS, RegistryKind, UNDERLAY_LEN};
pub use policy::{LabPolicy, NAMESPACE, PolicyScope};
pub use process::MARK;
pub use registry::RegistryHandle;
pub use state::ROOT;
pub use status::{LabStatus, NodeStatus, PodStatus, PolicyStatus, RegistryStatus};
pub use subnet_env::SubnetEnv;
pub use teardown::{Removed, down};
pub use wiring::{CONTROL_LINE, UPLINK};
