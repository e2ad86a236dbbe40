//! Folding of repeated log lines: a line that was printed a moment ago is only counted, and the count is told with the next one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a line is not repeated.
pub const WINDOW: Duration = Duration::from_secs(30);

/// How many different lines are remembered; beyond that all are forgotten, so that memory stays bounded.
const CAPACITY: usize = 256;

/// Remembers the lines of the last [`WINDOW`].
#[derive(Debug, Default)]
pub struct Fold {
    seen: HashMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    printed: Instant,
    folded: u64,
}

impl Fold {
    /// Whether `line` is to be printed now: then `Some`, with how many like it were folded since it was last printed.
    pub fn admit(&mut self, line: &str, now: Instant) -> Option<u64> {
        if let Some(seen) = self.seen.get_mut(line) {
            if now.saturating_duration_since(seen.printed) < WINDOW {
                seen.folded += 1;
                return None;
            }
            let folded = seen.folded;
            *seen = Seen { printed: now, folded: 0 };
            return Some(folded);
        }
        if self.seen.len() >= CAPACITY {
            self.seen.clear();
        }
        self.seen.insert(line.to_owned(), Seen { printed: now, folded: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_counted_and_told_later() {
        let (mut fold, start) = (Fold::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(fold.admit("etcd is gone", at(0)), Some(0));
        assert_eq!(fold.admit("etcd is back", at(1)), Some(0));
        assert_eq!(fold.admit("etcd is gone", at(2)), None);
        assert_eq!(fold.admit("etcd is gone", at(29)), None);
        assert_eq!(fold.admit("etcd is gone", at(30)), Some(2));
        assert_eq!(fold.admit("etcd is gone", at(31)), None);
        assert_eq!(fold.admit("etcd is back", at(61)), Some(0));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut fold, now) = (Fold::default(), Instant::now());
        for line in 0..10 * CAPACITY {
            assert_eq!(fold.admit(&line.to_string(), now), Some(0));
        }
        assert!(fold.seen.len() <= CAPACITY);
    }
}
