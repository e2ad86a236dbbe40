//! Values with numbers, which are given again when they are free.

/// Values with numbers. What holds on to a number has to learn when its value is gone.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts a value in; its number.
    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(number as usize)
        {
            *slot = Some(value);
            return number;
        }
        self.slots.push(Some(value));
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    /// Takes a value out; its number is free.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.slots.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(value)
    }

    /// The value of this number.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.slots.get(number as usize)?.as_ref()
    }

    /// The value of this number, to be changed.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut(number as usize)?.as_mut()
    }

    /// All values, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// One more than the highest number that was given.
    pub fn limit(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_again() {
        let mut slab = Slab::default();
        assert_eq!([slab.insert('a'), slab.insert('b')], [0, 1]);
        assert_eq!(slab.remove(0), Some('a'));
        assert_eq!((slab.remove(0), slab.get(0), slab.get(7)), (None, None, None));
        assert_eq!([slab.insert('c'), slab.insert('d')], [0, 2]);
        assert_eq!((slab.get(0), slab.limit()), (Some(&'c'), 3));
        slab.get_mut(2).into_iter().for_each(|value| *value = 'e');
        assert_eq!(slab.iter_mut().map(|value| *value).collect::<String>(), "cbe");
    }
}
