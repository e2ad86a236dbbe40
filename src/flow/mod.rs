//! Flows that policy has judged, remembered so that it is asked once and replies find their way back.
//!
//! [`Tracker`] is the whole procedure, one per worker thread: what was inspected goes in, pass, refuse or drop comes out, and
//! policy is asked through a closure, for this room knows nothing of policies but their version. Beneath it lie the
//! [`FlowTable`], one for all threads, because replies may come by any of them, and a [`FragmentTable`] of each thread's own.
//!
//! Both tables are bounded from the start and never allocate, lock or wait. Losing an entry costs a question, not a
//! connection: TCP in mid-stream is picked up again if policy would let either end have opened it.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod ends;
mod fragments;
mod lifetime;
mod seed;
mod slot;
mod state;
mod table;
mod tracker;

pub use fragments::{DATAGRAMS, FRAGMENT_LIFETIME, FragmentTable, Later};
pub use lifetime::{Phase, lifetime};
pub use seed::Seed;
pub use state::Opening;
pub use table::{FlowTable, Hit, Inserted, MAX_FLOWS, NoTable, RememberedFlow, Spot};
pub use tracker::{Admission, Dropped, OnChange, Passed, Tracker};
