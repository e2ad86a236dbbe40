//! Sets of atoms, sparse: words of 64 atoms, only those that are not empty.

use std::cmp::Ordering;

/// A set of atoms. Equal sets are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtomSet {
    words: Box<[Word]>,
}

/// A set of atoms, each with the rank of the first rule that names it.
#[derive(Debug, Default)]
pub struct RankedSet {
    words: Box<[RankedWord]>,
    ranks: Box<[u32]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word {
    /// Which 64 atoms.
    at: u32,
    bits: u64,
}

#[derive(Clone, Copy, Debug)]
struct RankedWord {
    at: u32,
    /// Where the rank of its lowest atom is.
    ranks: u32,
    bits: u64,
}

impl AtomSet {
    /// The set of these, in any order, each once or more often.
    pub fn new(mut atoms: Vec<u32>) -> Self {
        atoms.sort_unstable();
        let mut words: Vec<Word> = Vec::new();
        for atom in atoms {
            let (at, bit) = place(atom);
            match words.last_mut() {
                Some(word) if word.at == at => word.bits |= bit,
                _ => words.push(Word { at, bits: bit }),
            }
        }
        Self { words: words.into() }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Its atoms, ascending.
    pub fn atoms(&self) -> impl Iterator<Item = u32> {
        self.words.iter().flat_map(|word| (0..64).filter(|bit| word.bits >> bit & 1 == 1).map(|bit| word.at * 64 + bit))
    }

    /// Whether an atom is in both.
    pub fn meets(&self, other: &Self) -> bool {
        let mut others = other.words.iter().peekable();
        self.words.iter().any(|word| {
            while others.next_if(|other| other.at < word.at).is_some() {}
            others.peek().is_some_and(|other| other.at == word.at && other.bits & word.bits != 0)
        })
    }

    /// The atoms of either.
    pub fn union(&self, other: &Self) -> Self {
        Self::new(self.atoms().chain(other.atoms()).collect())
    }
}

impl RankedSet {
    /// The set of these atoms, each with the lowest rank it is given.
    pub fn new(mut ranked: Vec<(u32, u32)>) -> Self {
        ranked.sort_unstable();
        ranked.dedup_by_key(|(atom, _)| *atom);
        let mut words: Vec<RankedWord> = Vec::new();
        for (index, (atom, _)) in (0..).zip(&ranked) {
            let (at, bit) = place(*atom);
            match words.last_mut() {
                Some(word) if word.at == at => word.bits |= bit,
                _ => words.push(RankedWord { at, ranks: index, bits: bit }),
            }
        }
        Self { words: words.into(), ranks: ranked.into_iter().map(|(_, rank)| rank).collect() }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether an atom is in both.
    #[inline]
    pub fn meets(&self, atoms: &AtomSet) -> bool {
        let mut met = false;
        self.each_common(atoms, |_, _| {
            met = true;
            false
        });
        met
    }

    /// The lowest rank that an atom of both has; `u32::MAX` if none is in both.
    #[inline]
    pub fn first(&self, atoms: &AtomSet) -> u32 {
        let mut first = u32::MAX;
        self.each_common(atoms, |word, mut common| {
            while common != 0 {
                let below = word.bits & ((common & common.wrapping_neg()) - 1);
                let rank = self.ranks.get((word.ranks + below.count_ones()) as usize);
                first = first.min(rank.copied().unwrap_or(u32::MAX));
                common &= common - 1;
            }
            true
        });
        first
    }

    /// Calls `visit` with the words that have common bits, and those, until it answers no.
    #[inline]
    fn each_common(&self, atoms: &AtomSet, mut visit: impl FnMut(&RankedWord, u64) -> bool) {
        let (mut mine, mut others) = (&*self.words, &*atoms.words);
        while let (Some(one), Some(two)) = (mine.first(), others.first()) {
            match one.at.cmp(&two.at) {
                Ordering::Less => mine = skip(mine, |word| word.at < two.at, others.len()),
                Ordering::Greater => others = skip(others, |word| word.at < one.at, mine.len()),
                Ordering::Equal => {
                    let common = one.bits & two.bits;
                    if common != 0 && !visit(one, common) {
                        return;
                    }
                    (mine, others) = (mine.split_at(1).1, others.split_at(1).1);
                }
            }
        }
    }
}

/// What is left of `words` without those at its head for which `is_before` holds, the first among them. One after the other, but if
/// the others are few, by halves.
#[inline]
fn skip<T>(words: &[T], is_before: impl Fn(&T) -> bool, others: usize) -> &[T] {
    let skipped = if words.len() / 8 > others { words.partition_point(is_before) } else { 1 };
    words.split_at(skipped).1
}

const fn place(atom: u32) -> (u32, u64) {
    (atom / 64, 1 << (atom % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sets_do_what_sets_do(
            one in proptest::collection::btree_set(0u32..4000, 0..80),
            two in proptest::collection::btree_set(0u32..4000, 0..8),
            ranked in proptest::collection::vec((0u32..4000, 0u32..50), 0..80),
        ) {
            let [a, b] = [&one, &two].map(|set| AtomSet::new(set.iter().rev().copied().collect()));
            prop_assert_eq!(a.meets(&b), !one.is_disjoint(&two));
            prop_assert_eq!(a.union(&b).atoms().collect::<BTreeSet<_>>(), &one | &two);
            prop_assert_eq!(a.atoms().collect::<BTreeSet<_>>(), one.clone());
            let set = RankedSet::new(ranked.clone());
            let mut lowest = BTreeMap::new();
            for (atom, rank) in ranked {
                let entry = lowest.entry(atom).or_insert(rank);
                *entry = rank.min(*entry);
            }
            let first = lowest.iter().filter(|(atom, _)| one.contains(atom)).map(|(_, rank)| *rank).min();
            prop_assert_eq!(set.first(&a), first.unwrap_or(u32::MAX));
            prop_assert_eq!(set.meets(&a), first.is_some());
            prop_assert_eq!(set.is_empty(), lowest.is_empty());
        }
    }
}
