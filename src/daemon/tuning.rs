//! The numbers a worker runs by.

/// Packets moved per turn and direction. 64 drains bursts without keeping the other direction waiting.
pub const BATCH: usize = 64;

/// Bytes of a packet slot to begin with: what an underlay of 1,500 carries, and some slack so that a peer with a larger
/// MTU is told apart from one within it. Grows with the device's MTU.
pub const SLOT_BYTES: usize = 2_048;

/// Bytes of a slot beyond the device's MTU.
pub const SLOT_SLACK: usize = 576;
