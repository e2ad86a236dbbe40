//! The numbers a worker runs by.

use std::time::Duration;

/// Packets moved per turn and direction, unless asked for otherwise. 64 drains bursts without keeping the other direction
/// waiting.
pub const BATCH: usize = 64;

/// Bytes of a slot: the largest super-packet, the largest train.
pub const SLOT_BYTES: usize = 65_536;

/// Bytes read from the TUN per turn at most: a few super-packets that the cache holds until they have left.
pub const TURN_BYTES: usize = 256 << 10;

/// Bytes of an ICMP error: the headers, and as much of the offender as is quoted.
pub const ANSWER_BYTES: usize = 128;

/// Packets written to the TUN per turn at most, and the pieces they are made of.
pub const GATHERED: usize = 1_024;
/// See [`GATHERED`].
pub const PIECES: usize = 8_192;

/// How long a worker may go on looking for packets before it sleeps, unless asked for otherwise.
pub const SPIN: Duration = Duration::from_micros(50);

/// How a worker runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Its packet memory.
    pub sizes: Sizes,
    /// How long it may go on looking for packets before it sleeps.
    pub spin: Duration,
}

/// How much memory a worker has for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Slots for packets, per direction.
    pub batch: usize,
    /// Bytes of each.
    pub slot_bytes: usize,
    /// Bytes of a slot for an ICMP error.
    pub answer_bytes: usize,
    /// Packets that one write to the TUN may consist of.
    pub gathered: usize,
    /// Pieces of received packets in them.
    pub pieces: usize,
}

impl Sizes {
    /// For `batch` packets per turn and direction.
    #[must_use]
    pub fn for_batch(batch: usize) -> Self {
        Self { batch, ..Self::default() }
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self { batch: BATCH, slot_bytes: SLOT_BYTES, answer_bytes: ANSWER_BYTES, gathered: GATHERED, pieces: PIECES }
    }
}
