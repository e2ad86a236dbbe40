//! Packet memory: packets with headroom, and batches of them that are filled, worked on and emptied without allocating.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod batch;
mod datagram;
mod gather;
mod packet;

pub use batch::Batch;
pub use datagram::{Datagram, Refusal, Refused, TRAIN_DATAGRAMS, TrainLimit};
pub use gather::{GATHERED_HEADER, Gather, Gathered, Piece};
pub use packet::{HEADROOM, Packet};
