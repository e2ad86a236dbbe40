//! Bytes to send and to compare with: each is known from its position, so a stream is checked without being kept.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Positions that far apart are alike. A prime, so that no size of packets or buffers divides it.
const PERIOD: usize = 4_194_301;

/// Longest stretch that can be had at once.
pub const LONGEST: usize = 256 << 10;

/// Noise without end.
pub struct Noise(Vec<u8>);

impl Noise {
    /// The same for the same seed.
    pub fn new(seed: u64) -> Self {
        let mut bytes = vec![0; PERIOD];
        StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
        bytes.extend_from_within(..LONGEST);
        Self(bytes)
    }

    /// `len` bytes from `position` on.
    pub fn at(&self, position: u64, len: usize) -> &[u8] {
        let from = usize::try_from(position % PERIOD as u64).unwrap();
        &self.0[from..from + len]
    }
}
