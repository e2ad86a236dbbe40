//! Distinct values, numbered.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Distinct values with numbers that stay theirs, whether they are in use or not.
///
/// A number is never given to another value: pods carry sets of numbers, and forgetting one would mean to touch all of them.
/// Whoever owns this starts over when [`is_wasteful`](Self::is_wasteful).
#[derive(Debug)]
pub struct Interned<T> {
    numbers: HashMap<Arc<T>, u32>,
    values: Vec<(Arc<T>, usize)>,
    unused: usize,
}

/// Unused values that nobody minds.
const SPARE: usize = 64;

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), values: Vec::new(), unused: 0 }
    }
}

impl<T: Eq + Hash> Interned<T> {
    /// The number of `value`, which is in use once more, and whether it is new.
    pub fn take(&mut self, value: T) -> (u32, bool) {
        if let Some(&number) = self.numbers.get(&value) {
            if let Some((_, uses)) = self.values.get_mut(number as usize) {
                self.unused -= usize::from(*uses == 0);
                *uses += 1;
            }
            return (number, false);
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let value = Arc::new(value);
        self.numbers.insert(Arc::clone(&value), number);
        self.values.push((value, 1));
        (number, true)
    }

    /// The value of this number is in use once less.
    pub fn release(&mut self, number: u32) {
        if let Some((_, uses)) = self.values.get_mut(number as usize) {
            *uses = uses.saturating_sub(1);
            self.unused += usize::from(*uses == 0);
        }
    }

    /// The value of this number.
    pub fn value(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize).map(|(value, _)| &**value)
    }

    /// All values, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(self.values.iter().map(|(value, _)| &**value))
    }

    /// Whether more than half is not in use.
    pub fn is_wasteful(&self) -> bool {
        self.unused > SPARE && self.unused > self.values.len() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_numbers() {
        let mut values = Interned::default();
        assert_eq!(values.take("a"), (0, true));
        assert_eq!(values.take("b"), (1, true));
        assert_eq!(values.take("a"), (0, false));
        values.release(0);
        values.release(0);
        assert_eq!(values.iter().collect::<Vec<_>>(), [(0, &"a"), (1, &"b")]);
        assert_eq!(values.take("a"), (0, false));
        assert_eq!(values.value(1), Some(&"b"));
    }

    #[test]
    fn waste_is_more_than_half_and_more_than_a_little() {
        let mut values = Interned::default();
        (0..100).for_each(|value| _ = values.take(value));
        (0..SPARE).for_each(|number| values.release(u32::try_from(number).unwrap()));
        assert!(!values.is_wasteful());
        values.release(99);
        assert!(values.is_wasteful());
        values.take(99);
        assert!(!values.is_wasteful());
    }
}
