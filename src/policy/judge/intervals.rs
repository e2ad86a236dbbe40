//! What holds between which numbers: ports, addresses.

/// Values that hold for ranges of keys, found by key.
///
/// Built as a segment tree over the intervals between which nothing changes: each range is cut into a few of the tree's nodes, and
/// what holds for a key lies on the way from its interval up to the root. Of the tree only these ways are kept, without the nodes
/// that have no value. However ranges overlap, `n` of them take `n log n` room, and a way is `log n` long at most.
#[derive(Debug)]
pub struct Intervals<K, T> {
    /// Where intervals begin, ascending; each reaches to the next, the last to the end.
    starts: Box<[K]>,
    /// Where the way of each interval begins.
    ways: Box<[u32]>,
    /// Values, each with the number of the next one on its way.
    values: Box<[(T, u32)]>,
}

/// Where a key is; it can be asked again and again.
#[derive(Clone, Copy, Debug)]
pub struct Place(u32);

/// No value: the end of a way.
const END: u32 = u32::MAX;

impl<K, T> Default for Intervals<K, T> {
    fn default() -> Self {
        Self { starts: Box::default(), ways: Box::default(), values: Box::default() }
    }
}

impl<K: Copy + Ord, T> Intervals<K, T> {
    /// From ranges: the first key, the one after the last (`None` past the end of all), and the number of what holds there.
    /// `value` makes one value of numbers that hold together, ascending.
    pub fn new(ranges: &[(K, Option<K>, u32)], value: impl Fn(&[u32]) -> T) -> Self {
        let mut starts: Vec<K> = ranges.iter().flat_map(|(first, after, _)| [Some(*first), *after]).flatten().collect();
        starts.sort_unstable();
        starts.dedup();
        let leaves = starts.len();
        let leaf = |key: K| leaves + starts.partition_point(|start| *start < key);
        let mut placed: Vec<(usize, u32)> = Vec::new();
        for (first, after, number) in ranges {
            let (mut low, mut high) = (leaf(*first), after.map_or(2 * leaves, leaf));
            while low < high {
                if low % 2 == 1 {
                    placed.push((low, *number));
                    low += 1;
                }
                if high % 2 == 1 {
                    high -= 1;
                    placed.push((high, *number));
                }
                (low, high) = (low / 2, high / 2);
            }
        }
        placed.sort_unstable();
        placed.dedup();
        // Nearest value at or above each node. Node 1 is the root, those below `n` are `2n` and `2n + 1`, and leaves come last.
        let mut nearest = vec![END; 2 * leaves];
        let mut values = Vec::new();
        let mut groups = placed.chunk_by(|one, two| one.0 == two.0).peekable();
        for node in 1..2 * leaves {
            let above = nearest.get(node / 2).copied().unwrap_or(END);
            let group = groups.next_if(|group| group.first().is_some_and(|(at, _)| *at == node));
            let here = group.map(|group| {
                let numbers: Vec<u32> = group.iter().map(|(_, number)| *number).collect();
                values.push((value(&numbers), above));
                u32::try_from(values.len() - 1).unwrap_or(END)
            });
            if let Some(nearest) = nearest.get_mut(node) {
                *nearest = here.unwrap_or(above);
            }
        }
        let ways = nearest.split_off(leaves).into();
        Self { starts: starts.into(), ways, values: values.into() }
    }

    /// Where `key` is.
    #[inline]
    pub fn place(&self, key: K) -> Place {
        let after = self.starts.partition_point(|start| *start <= key);
        Place(after.checked_sub(1).and_then(|at| self.ways.get(at)).copied().unwrap_or(END))
    }

    /// What holds at a place of these intervals.
    #[inline]
    pub fn at(&self, place: Place) -> impl Iterator<Item = &T> {
        let first = self.values.get(place.0 as usize);
        std::iter::successors(first, |(_, next)| self.values.get(*next as usize)).map(|(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_key_has_what_covers_it(ranges in proptest::collection::vec((0u16..40, 1u16..42), 0..24)) {
            let ranges: Vec<_> =
                (0..).zip(ranges).map(|(number, (first, after))| (first, (after < 41).then_some(after), number % 20)).collect();
            let table = Intervals::new(&ranges, <[u32]>::to_vec);
            for key in (0..42).chain([u16::MAX]) {
                let covers = |(first, after, _): &&(u16, Option<u16>, u32)| *first <= key && after.is_none_or(|after| key < after);
                let mut expected: Vec<u32> = ranges.iter().filter(covers).map(|range| range.2).collect();
                let mut found: Vec<u32> = table.at(table.place(key)).flatten().copied().collect();
                for numbers in [&mut expected, &mut found] {
                    numbers.sort_unstable();
                    numbers.dedup();
                }
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn nested_ranges_take_little_room() {
        let ranges: Vec<_> = (0..10_000u16).map(|number| (number, Some(30_000 - number), u32::from(number))).collect();
        let table = Intervals::new(&ranges, <[u32]>::to_vec);
        assert!(table.values.iter().map(|(numbers, _)| numbers.len()).sum::<usize>() < 10_000 * 30);
        assert_eq!(table.at(table.place(20_500)).map(Vec::len).sum::<usize>(), 9_500);
    }
}
