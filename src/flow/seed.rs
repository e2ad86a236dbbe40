//! Where an entry lies: a keyed hash, so that nobody outside can choose flows that meet in one place.
//!
//! Multiply and fold, as in wyhash: fast, and unpredictable as long as the key is secret and the hashes are not shown to
//! anybody. It need not be stronger: what collisions gain an attacker is to displace entries, which costs a question each.

/// The key of a table's hash: random, one per process.
#[derive(Clone, Copy)]
pub struct Seed([u64; 6]);

/// Ways of a bucket: entries that lie next to each other and are looked at together.
pub(super) const WAYS: usize = 8;

/// The two buckets an entry may lie in, and what else its hash says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) buckets: [usize; 2],
    /// The way that is looked at first.
    pub(super) way: usize,
    /// 16 bits that tell entries of a bucket apart before their keys are compared.
    pub(super) fingerprint: u16,
}

impl Seed {
    /// A seed of 128 random bits.
    #[must_use]
    pub const fn new(random: [u64; 2]) -> Self {
        let [a, b] = random;
        // SplitMix64: six words that look nothing like each other, whatever the two are.
        let mut words = [a, b, a, b, a ^ b, !a];
        let mut at = 0;
        #[expect(clippy::indexing_slicing, reason = "below the length, and the compiler knows")]
        while at < words.len() {
            let step = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(at as u64 + 1);
            let mut word = words[at].wrapping_add(step);
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            words[at] = word ^ (word >> 31);
            at += 1;
        }
        Self(words)
    }

    /// The hash of five words.
    #[inline]
    pub(super) fn hash(&self, words: &[u64; 5]) -> u64 {
        let [k0, k1, k2, k3, k4, k5] = self.0;
        let [w0, w1, w2, w3, w4] = *words;
        let (low, high) = (fold(w0 ^ k0, w1 ^ k1), fold(w2 ^ k2, w3 ^ k3));
        fold(fold(low ^ w4 ^ k4, high ^ k5), k0 | 1)
    }
}

impl Place {
    /// The place of that hash among `buckets`, at most 2^32 and not 0. The two differ unless there is only one.
    #[inline]
    pub(super) fn of(hash: u64, buckets: usize) -> Self {
        let scaled = |half: u64| ((half * buckets as u64) >> 32) as usize;
        let (first, second) = (scaled(hash & 0xffff_ffff), scaled(hash >> 32));
        let after = if first + 1 == buckets { 0 } else { first + 1 };
        let second = if second == first { after } else { second };
        // A bucket's number is in the upper bits of each half; these are the lower ones.
        let fingerprint = (hash & 0xff) as u16 | ((hash >> 24) & 0xff00) as u16;
        Self { buckets: [first, second], way: (hash >> 8) as usize % WAYS, fingerprint }
    }
}

impl std::fmt::Debug for Seed {
    /// Secret, so not shown.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Seed")
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "folds the halves of a product")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-squared of `n` hashes over 256 values: about 255 for random ones, and beyond 400 once in many millions.
    fn chi_squared(hashes: &[u64], byte: usize) -> f64 {
        let mut counts = [0u32; 256];
        for hash in hashes {
            counts[usize::from(hash.to_le_bytes()[byte])] += 1;
        }
        let expected = f64::from(u32::try_from(hashes.len()).unwrap()) / 256.0;
        counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
    }

    type Kind = (&'static str, fn(u64) -> [u64; 5]);

    fn v4(host: u64) -> u64 {
        0xffff_0a00_0000 | host
    }

    #[test]
    fn neighbouring_flows_lie_anywhere() {
        for random in [[0, 0], [1, 0], [0, 1], [u64::MAX, u64::MAX], [0x1234, 0x5678]] {
            let seed = Seed::new(random);
            let flows: [Kind; 4] = [
                ("ports", |n| [0, v4(1), 0, v4(2), n << 32 | 80 << 16 | 6]),
                ("ports of the other end", |n| [0, v4(1), 0, v4(2), 80 << 32 | n << 16 | 6]),
                ("hosts", |n| [0, v4(n), 0, v4(0xff_ffff), 80 << 16 | 6]),
                ("hosts of IPv6", |n| [0xfd00_0000_0000_0000, n, 0xfd00_0000_0000_0000, n + 1, 58]),
            ];
            for (name, flow) in flows {
                let hashes: Vec<u64> = (0..0x1_0000).map(|n| seed.hash(&flow(n))).collect();
                for byte in 0..8 {
                    let found = chi_squared(&hashes, byte);
                    assert!((130.0..400.0).contains(&found), "{name}, byte {byte}, seed {random:x?}: {found}");
                }
            }
        }
    }

    #[test]
    fn seeds_matter() {
        let words = [1, 2, 3, 4, 5];
        assert_ne!(Seed::new([1, 2]).hash(&words), Seed::new([1, 3]).hash(&words));
        assert_ne!(Seed::new([1, 2]).hash(&words), Seed::new([2, 2]).hash(&words));
        assert_eq!(format!("{:?}", Seed::new([1, 2])), "Seed");
    }

    #[test]
    fn buckets_are_in_range_and_two() {
        for buckets in [1, 2, 3, 1000, 1 << 20] {
            for hash in [0, u64::MAX, 0x8000_0000, 0xffff_ffff, 0x1234_5678_9abc_def0] {
                let place = Place::of(hash, buckets);
                assert!(place.way < WAYS && place.buckets.iter().all(|bucket| *bucket < buckets), "{hash:x} {place:?}");
                assert!(buckets == 1 || place.buckets[0] != place.buckets[1]);
            }
        }
    }
}
