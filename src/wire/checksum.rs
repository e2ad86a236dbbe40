//! The Internet checksum: RFC 1071 for whole ranges, RFC 1624 for a field that changes.
//!
//! A [`sum`] is the ones-complement sum of big-endian 16-bit words, an odd last byte padded with zero; a checksum is its
//! complement. Sums of parts combine with [`add`] as long as every part but the last has an even length.
//!
//! The sum does not depend on byte order (RFC 1071 section 2 B), so words are added as they lie in memory and the order is put
//! right once, at the end.

mod lanes;

/// From here on choosing an instruction set costs less than it brings.
const LONG: usize = 256;

/// The ones-complement sum of `bytes`.
#[inline]
#[must_use]
pub fn sum(bytes: &[u8]) -> u16 {
    if bytes.len() < LONG { in_order(words(bytes)) } else { in_order(long(bytes)) }
}

/// Copies `from` to `to`, as much as both hold, and gives the sum of what was copied: one pass over the bytes instead of two.
#[inline]
#[must_use]
pub fn copy_and_sum(from: &[u8], to: &mut [u8]) -> u16 {
    let len = from.len().min(to.len());
    let (Some(from), Some(to)) = (from.get(..len), to.get_mut(..len)) else { return 0 };
    if len < LONG {
        to.copy_from_slice(from);
        return in_order(words(from));
    }
    in_order(copy_long(from, to))
}

/// The checksum of `bytes`, whose own checksum field must be zero.
#[inline]
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// The ones-complement sum of two sums.
#[inline]
#[must_use]
pub const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// The checksum after a 16-bit word under it went from `old` to `new`: RFC 1624, equation 3. A wrong one stays wrong.
#[inline]
#[must_use]
pub const fn patch(checksum: u16, old: u16, new: u16) -> u16 {
    !add(add(!checksum, !old), new)
}

/// The header checksum after the TTL went down by one: plus 0x0100 with end-around carry, and 0xffff is written 0x0000.
///
/// Bit for bit what flannel's proxy and Linux's `ip_decrease_ttl` compute, for wrong checksums too.
#[inline]
#[must_use]
pub const fn after_ttl_decrement(checksum: u16) -> u16 {
    match add(checksum, 0x0100) {
        0xffff => 0,
        sum => sum,
    }
}

fn long(bytes: &[u8]) -> u64 {
    let (blocks, tail) = bytes.as_chunks();
    lanes::sum(blocks) + words(tail)
}

fn copy_long(from: &[u8], to: &mut [u8]) -> u64 {
    let ((blocks, tail), (room, tail_room)) = (from.as_chunks(), to.as_chunks_mut());
    tail_room.copy_from_slice(tail);
    lanes::copy_and_sum(blocks, room) + words(tail)
}

/// The sum of the 16-bit words of `bytes` as they lie in memory, not folded. Halves of 64-bit words are added in 64 bits: no
/// carry is lost below 2^32 words.
#[inline]
fn words(bytes: &[u8]) -> u64 {
    let (blocks, tail) = bytes.as_chunks::<32>();
    let mut lanes = [0u64; 4];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += both_halves(u64::from_ne_bytes(*word));
        }
    }
    let mut total: u64 = lanes.iter().sum();
    let (words, rest) = tail.as_chunks::<8>();
    for word in words {
        total += both_halves(u64::from_ne_bytes(*word));
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        total += u64::from(u32::from_ne_bytes(*half));
    }
    let (pairs, rest) = rest.as_chunks::<2>();
    for pair in pairs {
        total += u64::from(u16::from_ne_bytes(*pair));
    }
    if let [last] = rest {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    total
}

#[inline]
const fn in_order(total: u64) -> u16 {
    u16::from_be(fold(total))
}

#[inline]
const fn both_halves(word: u64) -> u64 {
    (word >> 32) + (word & 0xffff_ffff)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "after four folds nothing is above bit 15")]
const fn fold(mut total: u64) -> u16 {
    total = (total >> 32) + (total & 0xffff_ffff);
    total = (total >> 32) + (total & 0xffff_ffff);
    total = (total >> 16) + (total & 0xffff);
    total = (total >> 16) + (total & 0xffff);
    total = (total >> 16) + (total & 0xffff);
    total as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slow_sum(bytes: &[u8]) -> u16 {
        let mut total = 0u32;
        for (index, byte) in bytes.iter().enumerate() {
            total += u32::from(*byte) << if index % 2 == 0 { 8 } else { 0 };
            total = (total >> 16) + (total & 0xffff);
        }
        u16::try_from(total).unwrap()
    }

    #[test]
    fn sums_known_words() {
        // The example of RFC 1071 section 3.
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!((sum(&[]), sum(&[0xab]), checksum(&[])), (0, 0xab00, 0xffff));
        let largest = vec![0xff; 65_535];
        assert_eq!(sum(&largest), slow_sum(&largest));
        assert_eq!((sum(&[0; 2000]), sum(&[0xff; 2000])), (0, 0xffff));
    }

    #[test]
    fn ttl_rule_has_the_values_of_flannel() {
        for (before, after) in [(0xfeff, 0), (0xffff, 0x0100), (0xff34, 0x0035), (0, 0x0100), (0x1234, 0x1334)] {
            assert_eq!(after_ttl_decrement(before), after, "{before:04x}");
        }
    }

    #[test]
    fn ttl_rule_agrees_with_recomputing_for_every_right_checksum() {
        // A header whose TTL is 64; the identification runs through all values, and with it the checksum.
        let mut seen = vec![false; 0x1_0000];
        for identification in 0..=u16::MAX {
            let [high, low] = identification.to_be_bytes();
            let mut header = [0x45, 0, 0, 20, high, low, 0, 0, 64, 17, 0, 0, 10, 5, 16, 2, 10, 5, 20, 3];
            let before = checksum(&header);
            header[8] -= 1;
            let recomputed = checksum(&header);
            seen[usize::from(before)] = true;
            assert_eq!(after_ttl_decrement(before), recomputed, "start {before:04x}");
        }
        // A right checksum is never 0xffff: the header's own sum is never zero. That start is covered by the vectors.
        assert!(seen.iter().enumerate().all(|(value, seen)| *seen || value == 0xffff));
    }

    #[test]
    fn ttl_rule_is_addition_with_carry_for_every_start() {
        for start in 0..=u16::MAX {
            let plain = u32::from(start) + 0x0100;
            let plain = (plain & 0xffff) + (plain >> 16);
            let plain = if plain == 0xffff { 0 } else { plain };
            assert_eq!(u32::from(after_ttl_decrement(start)), plain, "start {start:04x}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_byte_loop(bytes in prop::collection::vec(any::<u8>(), 0..2100), skip in 0usize..9) {
            let bytes = bytes.get(skip..).unwrap_or_default();
            prop_assert_eq!(sum(bytes), slow_sum(bytes));
        }

        #[test]
        fn copying_is_a_copy_and_the_sum(
            bytes in prop::collection::vec(any::<u8>(), 0..2100), room in 0usize..2200, skip in 0usize..70, shift in 0usize..70,
        ) {
            let bytes = bytes.get(skip..).unwrap_or_default();
            let mut to = vec![0xa5; shift + room];
            let copied = room.min(bytes.len());
            prop_assert_eq!(copy_and_sum(bytes, &mut to[shift..]), slow_sum(&bytes[..copied]));
            prop_assert_eq!(&to[shift..shift + copied], &bytes[..copied]);
            prop_assert!(to[..shift].iter().chain(&to[shift + copied..]).all(|byte| *byte == 0xa5));
        }

        #[test]
        fn parts_add_up(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..100) {
            let (head, tail) = bytes.split_at((cut * 2).min(bytes.len() & !1));
            prop_assert_eq!(add(sum(head), sum(tail)), sum(&bytes));
        }

        #[test]
        fn a_patched_checksum_verifies(mut words in prop::collection::vec(1u16.., 2..12), at in 0usize..12, new: u16) {
            let bytes = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
            let at = at % words.len();
            let before = checksum(&bytes(&words));
            let old = std::mem::replace(&mut words[at], new);
            prop_assert_eq!(add(patch(before, old, new), sum(&bytes(&words))), 0xffff);
        }
    }
}
