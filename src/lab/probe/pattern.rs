//! The bytes a transfer consists of: each is known from its position, so that loss, repetition, exchange and damage
//! anywhere in a stream show.

/// Words of a block are told apart by multiples of this. Odd, so that no two of 2⁶⁴ words are alike; its bits are those of
/// the golden ratio, so that neighbours differ in many. Source: Knuth, TAOCP vol. 3, 6.4.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;
const WORD_BYTES: usize = size_of::<u64>();

/// How many bytes are made and compared at a time; a multiple of a word.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

/// The bytes from `block` × [`BLOCK_BYTES`] on, as many as go into `bytes`.
pub(super) fn fill(block: u64, bytes: &mut [u8]) {
    let first_word = block.wrapping_mul((BLOCK_BYTES / WORD_BYTES) as u64);
    let (words, _) = bytes.as_chunks_mut::<WORD_BYTES>();
    for (word, number) in words.iter_mut().zip(first_word..) {
        *word = number.wrapping_mul(STRIDE).to_le_bytes();
    }
}

/// Checks a stream as it comes in, in pieces of any size.
#[derive(Debug)]
pub(super) struct Checker {
    /// Bytes seen and found right.
    position: u64,
    expected: Vec<u8>,
}

impl Checker {
    pub(super) fn new() -> Self {
        let mut expected = vec![0; BLOCK_BYTES];
        fill(0, &mut expected);
        Self { position: 0, expected }
    }

    /// How many bytes were right so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Checks the next bytes.
    ///
    /// # Errors
    /// The position of the first wrong byte.
    pub(super) fn check(&mut self, mut bytes: &[u8]) -> Result<(), u64> {
        while !bytes.is_empty() {
            let within = usize::try_from(self.position % BLOCK_BYTES as u64).unwrap_or_default();
            let expected = &self.expected[within..];
            let (now, later) = bytes.split_at(bytes.len().min(expected.len()));
            if now != &expected[..now.len()] {
                let right = now.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
                return Err(self.position + right as u64);
            }
            self.position += now.len() as u64;
            if self.position.is_multiple_of(BLOCK_BYTES as u64) {
                fill(self.position / BLOCK_BYTES as u64, &mut self.expected);
            }
            bytes = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(blocks: u64) -> Vec<u8> {
        let mut block = vec![0; BLOCK_BYTES];
        let mut bytes = Vec::new();
        for number in 0..blocks {
            fill(number, &mut block);
            bytes.extend_from_slice(block.as_slice());
        }
        bytes
    }

    #[test]
    fn any_cut_of_the_right_bytes_is_right() {
        let bytes = stream(3);
        for piece in [1, 7, 1448, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, bytes.len()] {
            let mut checker = Checker::new();
            for part in bytes.chunks(piece) {
                assert_eq!(checker.check(part), Ok(()), "{piece}");
            }
            assert_eq!(checker.position(), bytes.len() as u64);
        }
    }

    #[test]
    fn damage_loss_and_repetition_are_found_where_they_are() {
        let bytes = stream(2);
        for position in [0, 1, 4097, BLOCK_BYTES - 1, BLOCK_BYTES, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x10;
            assert_eq!(Checker::new().check(&damaged), Err(position as u64));
        }
        let mut lossy = bytes.clone();
        lossy.drain(8000..16_000);
        assert!(Checker::new().check(&lossy).is_err_and(|position| (8000..8008).contains(&position)));
        let mut checker = Checker::new();
        assert_eq!(checker.check(&bytes[..16_000]), Ok(()));
        assert!(checker.check(&bytes[8000..16_000]).is_err());
    }
}
