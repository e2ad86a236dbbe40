//! What `felt bench` measures and how it reports: paths between two containers side by side, on this machine, at this hour.
//!
//! A [`Plan`] says what to measure, a [`Ground`] gives two ends joined by the path asked for, [`run()`] goes through the plan
//! in interleaved rounds, and the [`Report`] that comes out is shown by [`show`] as a table, as JSON, as a chart, or beside
//! an older one.
//!
//! * The load generators ([`load`]) are our own and run on threads of this process, whose sockets are opened in the ends'
//!   namespaces; nothing need be installed. No packet of theirs is merged or split by them, so every path gets the same work.
//! * Machines are noisy. So each round measures everything once, paths next to each other and in another order each round;
//!   values are medians over the rounds with their extremes, and a ratio is the median of the rounds' ratios, in which
//!   slow drift cancels out.
//! * What could not be measured is told and left out; it is never shown as zero.
//!
//! Nothing here prints or knows how labs are built; a ground does the latter. Called by `cli` and by tests.

pub mod arena;
pub mod load;
pub mod show;

mod bare;
mod error;
mod ground;
mod host;
mod measure;
mod path;
mod plan;
mod progress;
mod report;
mod run;
mod samples;
mod stats;

pub use bare::BareGround;
pub use error::BenchError;
pub use ground::{Absent, End, Ends, Ground};
pub use host::Host;
pub use measure::{Job, Measure};
pub use path::{Path, Underlay};
pub use plan::{Plan, Timing};
pub use progress::{Progress, Silent, Step};
pub use report::{Report, Row, SCHEMA};
pub use run::run;
