//! Addresses cut into intervals, each with the blocks that cover it.

use std::net::Ipv4Addr;

use super::AtomSet;
use super::intervals::{Intervals, Place};
use crate::net::{Address, Prefix, address_bits, v4_bits};
use crate::policy::model::Block;

/// The blocks that policies speak of, and which of them cover an address.
#[derive(Debug, Default)]
pub struct Blocks(Intervals<u128, AtomSet>);

/// First and last address, as bits; see [`address_bits`].
type Range = (u128, u128);

/// IPv4 as IPv6 addresses have it. A block of IPv6 says nothing about these.
const MAPPED: Range = (v4_bits(Ipv4Addr::UNSPECIFIED), v4_bits(Ipv4Addr::BROADCAST));

impl Blocks {
    /// From blocks with the numbers of their atoms.
    pub fn new<'a>(blocks: impl Iterator<Item = (u32, &'a Block)>) -> Self {
        let mut ranges = Vec::new();
        for (atom, block) in blocks {
            ranges.extend(block_ranges(block).into_iter().map(|(first, last)| (first, last.checked_add(1), atom)));
        }
        Self(Intervals::new(&ranges, |atoms| AtomSet::new(atoms.to_vec())))
    }

    /// Where `address` is.
    #[inline]
    pub fn place(&self, address: u128) -> Place {
        self.0.place(address)
    }

    /// The blocks that cover an address that is there, in several sets.
    #[inline]
    pub fn covering(&self, place: Place) -> impl Iterator<Item = &AtomSet> {
        self.0.at(place)
    }
}

/// What a block covers, as ranges that are apart and ascend.
fn block_ranges(block: &Block) -> Vec<Range> {
    match block {
        Block::V4 { cidr, except } => without(range(cidr), except.iter().map(range).collect()),
        Block::V6 { cidr, except } => without(range(cidr), except.iter().map(range).chain([MAPPED]).collect()),
    }
}

fn range<A: Address + Into<std::net::IpAddr>>(prefix: &Prefix<A>) -> Range {
    (address_bits(prefix.base().into()), address_bits(prefix.last().into()))
}

fn without((first, last): Range, mut holes: Vec<Range>) -> Vec<Range> {
    holes.sort_unstable();
    let mut left = Vec::new();
    let mut next = Some(first);
    for (hole, end) in holes {
        let Some(from) = next else { break };
        if hole > last {
            break;
        }
        if hole > from {
            left.push((from, hole - 1));
        }
        if end >= from {
            next = end.checked_add(1);
        }
    }
    left.extend(next.filter(|from| *from <= last).map(|from| (from, last)));
    left
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;
    use crate::net::{Prefix4, Prefix6, address_of};

    /// Blocks crowded together at the low, the high and the mapped addresses.
    fn block() -> impl Strategy<Value = Block> {
        let v4 = |lens| {
            (prop_oneof![Just(0u32), Just(u32::MAX - 15), Just(0x0a00_0000)], 0u32..16, lens)
                .prop_map(|(base, low, len)| Prefix4::new(Ipv4Addr::from_bits(base | low), len).unwrap())
        };
        let v6 = |lens| {
            (prop_oneof![Just(0u128), Just(u128::MAX - 15), Just(MAPPED.0), Just(MAPPED.1 - 15)], 0u128..16, lens)
                .prop_map(|(base, low, len)| Prefix6::new(Ipv6Addr::from_bits(base | low), len).unwrap())
        };
        let v4 = (v4(prop_oneof![Just(0u8), 27u8..=32]), proptest::collection::vec(v4(prop_oneof![Just(1u8), 28u8..=32]), 0..3))
            .prop_map(|(cidr, except)| Block::V4 { cidr, except });
        let v6 =
            (v6(prop_oneof![Just(0u8), 90u8..=128]), proptest::collection::vec(v6(prop_oneof![Just(1u8), 95u8..=128]), 0..3))
                .prop_map(|(cidr, except)| Block::V6 { cidr, except });
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn each_address_has_the_blocks_that_contain_it(blocks in proptest::collection::vec(block(), 0..8)) {
            let table = Blocks::new((0..).zip(&blocks));
            let v4 = [0u32, 1 << 31, u32::MAX - 15, 0x0a00_0000].into_iter().flat_map(|base| (0..16).map(move |low| base + low));
            let v6 = [0u128, 1 << 127, u128::MAX - 15, MAPPED.0 - 8, MAPPED.1 - 7].into_iter();
            let v6 = v6.flat_map(|base| (0..16).map(move |low| base + low));
            for bits in v4.map(|bits| v4_bits(Ipv4Addr::from_bits(bits))).chain(v6) {
                let address: IpAddr = address_of(bits);
                let expected: Vec<u32> =
                    (0..).zip(&blocks).filter(|(_, block)| block.contains(address)).map(|(atom, _)| atom).collect();
                let mut found: Vec<u32> = table.covering(table.place(bits)).flat_map(AtomSet::atoms).collect();
                found.sort_unstable();
                prop_assert_eq!(found, expected, "{}", address);
            }
        }
    }
}
