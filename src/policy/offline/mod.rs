//! Questions asked of the engine without a network: who may talk to whom, why, and whether that is what was wanted.
//!
//! A [`World`] is a cluster read from files, and its ends: pods, nodes, and addresses outside that somebody gave a name. A
//! [`Matrix`] is the verdict on every ordered pair of them. [`Expectations`] are what somebody wrote down about such pairs.

mod contest;
mod end;
mod expect;
mod expect_read;
mod matrix;
mod probe;
mod probes;
mod world;

pub use end::{End, EndKind, Family};
pub use expect::{Difference, Expectation, Expectations, Outcome, Who};
pub use expect_read::ExpectError;
pub use matrix::{Letter, Matrix, Table};
pub use probe::{Probe, ProbeError};
pub use probes::usual_probes;
pub use world::{UnknownEnd, World};
