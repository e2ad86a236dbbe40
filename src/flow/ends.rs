//! A flow key as words: the same for both directions, and which direction it was.

use crate::net::{FlowKey, Protocol};

/// Words of a key.
pub(super) const WORDS: usize = 5;

/// The two ends of a flow in a fixed order, lower address and port first, so that both directions are one flow.
///
/// In words: the lower address, the higher address, each with its upper half first, then ports and protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends(pub(super) [u64; WORDS]);

impl Ends {
    /// The ends of `key`, and whether its source is the lower one.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes addresses apart")]
    pub(super) fn of(key: &FlowKey) -> (Self, bool) {
        let FlowKey { source, destination, source_port, destination_port, protocol } = *key;
        // Half by half: copying keys, or loading halves that were just stored as wholes, costs more than all the rest.
        let halves = |address: u128| [(address >> 64) as u64, address as u64];
        let ([a, b], [c, d]) = (halves(source), halves(destination));
        let (source_port, destination_port) = (u64::from(source_port), u64::from(destination_port));
        let same = (a ^ c) | (b ^ d) == 0;
        let rising = if same { source_port <= destination_port } else { (a, b) < (c, d) };
        let pick = |lower: u64, higher: u64| if rising { (lower, higher) } else { (higher, lower) };
        let ((a, c), (b, d), (lower_port, higher_port)) = (pick(a, c), pick(b, d), pick(source_port, destination_port));
        (Self([a, b, c, d, lower_port << 32 | higher_port << 16 | u64::from(protocol.0)]), rising)
    }

    /// Whether both are the same flow's.
    #[inline]
    pub(super) fn same(&self, other: &Self) -> bool {
        // Word by word, in registers, for the same reason.
        self.0.iter().zip(other.0).fold(0, |different, (this, that)| different | (this ^ that)) == 0
    }

    /// The key whose source is the lower end, if `rising`, or the higher one.
    #[expect(clippy::cast_possible_truncation, reason = "takes the last word apart")]
    pub(super) fn key(&self, rising: bool) -> FlowKey {
        let Self([a, b, c, d, last]) = *self;
        let key = FlowKey {
            source: u128::from(a) << 64 | u128::from(b),
            destination: u128::from(c) << 64 | u128::from(d),
            source_port: (last >> 32) as u16,
            destination_port: (last >> 16) as u16,
            protocol: self.protocol(),
        };
        if rising { key } else { key.reversed() }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes the last word apart")]
    pub(super) fn protocol(&self) -> Protocol {
        Protocol(self.0[4] as u8)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_directions_have_the_same_ends(
            source: u128, destination: u128, same: bool, source_port: u16, destination_port: u16, protocol: u8,
        ) {
            let destination = if same { source } else { destination };
            let key = FlowKey { source, destination, source_port, destination_port, protocol: Protocol(protocol) };
            let ((ends, rising), (back, falling)) = (Ends::of(&key), Ends::of(&key.reversed()));
            prop_assert_eq!(ends, back);
            prop_assert!(rising != falling || key == key.reversed());
            prop_assert_eq!((ends.key(rising), ends.protocol()), (key, key.protocol));
            prop_assert_eq!(ends.key(!rising), key.reversed());
        }
    }
}
