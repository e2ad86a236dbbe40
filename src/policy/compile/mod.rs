//! From what is known to what a verdict reads, doing again only what a change touches.
//!
//! Objects have numbers ([`objects`]). Distinct selectors and blocks are atoms with numbers ([`selectors`], [`catalogue`]). Pods
//! that look the same to selectors share an [identity](identities), which knows the atoms that match it; pods that the same
//! policies select share their rule sets ([`classes`]). The [`compiler`] follows a change along these: from a pod to its identity,
//! from a policy to the rule sets of those it selects, and to the addresses of the pods that are touched.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod catalogue;
mod classes;
mod compiler;
mod identities;
mod interned;
mod objects;
mod selectors;
mod slab;

pub use compiler::{Compiler, Numbers};
pub use objects::{News, Objects};
