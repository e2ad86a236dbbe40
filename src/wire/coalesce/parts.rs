//! Headers compared as a whole: two packets may be merged only if no bit differs but those that cutting restores.

/// Which bits of IPv4 and TCP headers without options must agree.
pub const TCP4: [u8; 40] = joined(&IPV4, &TCP);
/// Which bits of IPv4 and UDP headers must agree.
pub const UDP4: [u8; 28] = joined(&IPV4, &UDP);
/// Which bits of IPv6 and TCP headers without options must agree.
pub const TCP6: [u8; 60] = joined(&IPV6, &TCP);
/// Which bits of IPv6 and UDP headers must agree.
pub const UDP6: [u8; 48] = joined(&IPV6, &UDP);

/// All but total length, identification and checksum.
const IPV4: [u8; 20] = [X, X, 0, 0, 0, 0, X, X, X, X, 0, 0, X, X, X, X, X, X, X, X];

/// All but the payload length.
const IPV6: [u8; 40] = {
    let mut fixed = [X; 40];
    (fixed[4], fixed[5]) = (0, 0);
    fixed
};

/// All but sequence number, PSH, FIN and checksum.
const TCP: [u8; 20] = [X, X, X, X, 0, 0, 0, 0, X, X, X, X, X, !(PSH | FIN), X, X, 0, 0, X, X];

/// The ports.
const UDP: [u8; 8] = [X, X, X, X, 0, 0, 0, 0];

/// Nothing follows in this direction.
pub const FIN: u8 = 0x01;
/// To be handed to the reader at once.
pub const PSH: u8 = 0x08;
/// The acknowledgement number counts.
pub const ACK: u8 = 0x10;
/// Congestion was seen: on every segment of a super-packet alike.
pub const ECE: u8 = 0x40;

/// Every bit of a byte.
const X: u8 = 0xff;

#[expect(clippy::indexing_slicing, reason = "checked when this is compiled, for it is only called there")]
const fn joined<const N: usize>(ip: &[u8], transport: &[u8]) -> [u8; N] {
    let mut joined = [0; N];
    let mut at = 0;
    while at < N {
        joined[at] = if at < ip.len() { ip[at] } else { transport[at - ip.len()] };
        at += 1;
    }
    joined
}

/// Whether two headers agree in the bits that are set in `fixed`. The length is known, so this is a few wide instructions.
#[inline]
pub fn alike<const N: usize>(ours: &[u8; N], theirs: &[u8; N], fixed: &[u8; N]) -> bool {
    let mut differing = 0;
    for ((ours, theirs), fixed) in ours.iter().zip(theirs).zip(fixed) {
        differing |= (ours ^ theirs) & fixed;
    }
    differing == 0
}

/// Whether two sets of TCP options are the same. A multiple of four bytes each, mostly twelve: no call to compare memory.
#[inline]
pub fn same_options(ours: &[u8], theirs: &[u8]) -> bool {
    let ((ours, _), (theirs, _)) = (ours.as_chunks::<4>(), theirs.as_chunks::<4>());
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).fold(0, |sum, (a, b)| sum | u32::from_ne_bytes(*a) ^ u32::from_ne_bytes(*b)) == 0
}

/// The 16 bits at `at`, which is inside.
#[inline]
pub fn word<const N: usize>(header: &[u8; N], at: usize) -> u16 {
    match header.get(at..) {
        Some(&[high, low, ..]) => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}

/// The 32 bits at `at`, which is inside.
#[inline]
pub fn long<const N: usize>(header: &[u8; N], at: usize) -> u32 {
    header.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Writes 16 bits at `at`, if that is inside.
#[inline]
pub fn put(header: &mut [u8], at: usize, value: u16) {
    if let Some(bytes) = header.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
        *bytes = value.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of which a change goes unnoticed.
    fn free<const N: usize>(fixed: &[u8; N]) -> Vec<usize> {
        let header: [u8; N] = std::array::from_fn(|at| u8::try_from(at * 3).unwrap());
        let flipped = |bit: &usize| {
            let mut other = header;
            other[bit / 8] ^= 0x80 >> (bit % 8);
            alike(&header, &other, fixed)
        };
        (0..N * 8).filter(flipped).collect()
    }

    #[test]
    fn only_what_cutting_restores_may_differ() {
        let ipv4: Vec<_> = (16..48).chain(80..96).collect();
        let tcp: Vec<_> = (32..64).chain([108, 111]).chain(128..144).collect();
        assert_eq!((free(&IPV4), free(&TCP)), (ipv4, tcp));
        assert_eq!((free(&IPV6), free(&UDP)), ((32..48).collect(), (32..64).collect()));
    }

    #[test]
    fn options_are_the_same_or_not() {
        assert!(same_options(&[], &[]) && same_options(&[1; 12], &[1; 12]));
        assert!(!same_options(&[1; 12], &[1; 8]) && !same_options(&[1, 1, 1, 1], &[1, 1, 1, 0]));
    }

    #[test]
    fn numbers_are_big_endian() {
        let mut header = [1, 2, 3, 4, 5, 6];
        assert_eq!((word(&header, 1), long(&header, 2), word(&header, 5), long(&header, 3)), (0x0203, 0x0304_0506, 0, 0));
        put(&mut header, 4, 0xabcd);
        put(&mut header, 5, 0xffff);
        assert_eq!(header, [1, 2, 3, 4, 0xab, 0xcd]);
    }
}
