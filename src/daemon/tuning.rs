//! The numbers a worker runs by, and what chose them.
//!
//! Gigabits a second of one TCP stream are medians of three interleaved runs on two busy processors, on an underlay that keeps
//! super-packets: compare them within one line only. Flat is a finding, too: the number then goes by other reasons.

use std::time::Duration;

/// Packets moved per turn and direction, unless asked for otherwise; also the messages of one `sendmmsg` or `recvmmsg`.
///
/// With a slot for each datagram of a wire that carries single segments, 64 of them come in one call. Fewer slots changed
/// nothing where trains are kept: 4 slots 19.8 Gb/s, 8 17.4, 16 19.8, 64 18.9.
pub const BATCH: usize = 64;

/// Bytes of a slot: the largest super-packet, the largest train.
pub const SLOT_BYTES: usize = 65_536;

/// Bytes read from the TUN per turn at most: a few super-packets, which are still in the cache when they leave.
///
/// 64 KiB 18.6 Gb/s, 128 KiB 19.1, 256 KiB 18.9, 512 KiB 20.3, 2 MiB 15.5: flat up to where the cache ends.
pub const TURN_BYTES: usize = 256 << 10;

/// Bytes of an ICMP error: the headers, and as much of the offender as is quoted.
pub const ANSWER_BYTES: usize = 128;

/// Packets written to the TUN at once at most. More are written in several goes, so this only bounds memory.
pub const GATHERED: usize = 1_024;

/// Pieces of received packets in them: every datagram of a batch of the longest trains.
pub const PIECES: usize = 8_192;

/// How long a thread may go on looking for packets before it sleeps, unless asked for otherwise.
///
/// Round trips back to back, medians on two quiet processors, where kernel vxlan takes 56 to 62 us: 91 us with 0, 93 to 107 with
/// 50, 35 to 63 with 100, 47 to 55 with 200. A gap that is longer than this is slept through, and 50 us is shorter than what the rest of
/// such a round trip takes. Throughput does not depend on it.
pub const SPIN: Duration = Duration::from_micros(100);

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
