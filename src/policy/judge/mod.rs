//! The compiled form: what a verdict reads, and nothing else. Immutable, shared between snapshots where it did not change.
//!
//! Peers are sets of atoms. An atom is one distinct thing that rules ask of the other end: a selector of pods, or a block or a
//! selector of nodes. A pod carries the set of the selectors that match it, an address has the set of the blocks that cover it,
//! and each part of a rule set the atoms that it lets match; whether they meet is a few AND operations, however many rules there
//! are. Ports and addresses are cut into the [`intervals`] between which no rule makes a difference, so a binary search finds the
//! few parts to ask.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod atoms;
mod blocks;
mod ends;
mod intervals;
mod matcher;
mod ruleset;

pub use atoms::AtomSet;
pub use blocks::Blocks;
pub use ends::{Addresses, NodeView, Ours, PodView};
pub use matcher::{MatchRule, Peer, PeerAtoms, Target};
pub use ruleset::{DirectionRules, OrderedRule, Refusal, RuleSets, TierRules};
