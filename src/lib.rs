//! Felt: a container network made entirely in user space.
//!
//! Each host runs one daemon. It reads packets from a TUN device, finds the node that leases the destination subnet in a
//! lock-free lease table fed by registry watches, and sends them to that node over UDP.
//!
//! The rooms, from the ground up; a module imports only from rooms above it in this list (`tests/layering.rs` keeps that):
//!
//! | room | what lives there |
//! |---|---|
//! | [`net`] | values: prefixes, endpoints, moments |
//! | [`sync`] | how control and workers talk without locks: published snapshots, counters |
//! | [`wire`], [`buf`] | packet formats as checked views; packet memory |
//! | [`lease`] | leases as a state machine: config, allocation, keeper, view, table |
//! | [`policy`] | the policy engine: what is known of a cluster, compiled, and the verdict on a flow |
//! | [`flow`] | flows that were judged, and fragments of their packets |
//! | [`forward`] | the sans-IO data plane |
//! | [`sys`] | the only unsafe code: system calls, thin and without decisions |
//! | [`port`] | what a worker reads and writes |
//! | [`control`] | adapters to the outside: registries and the registry server |
//! | [`obs`] | health and counters as people and probes read them |
//! | [`lab`] | test networks on one machine |
//! | [`bench`](mod@bench) | paths measured side by side |
//! | [`daemon`] | one node, running |
//! | [`cli`] | what was typed, and what is printed |

pub mod bench;
pub mod buf;
pub mod cli;
pub mod control;
pub mod daemon;
pub mod flow;
pub mod forward;
pub mod lab;
pub mod lease;
pub mod net;
pub mod obs;
pub mod policy;
pub mod port;
pub mod sync;
pub mod sys;
pub mod wire;
