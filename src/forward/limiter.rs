//! A token bucket over moments that are handed in.

use std::time::Duration;

use crate::net::Moment;

/// Admits `burst` events at once and `per_second` on average.
///
/// Kept as the moment at which the bucket will be full again, so one comparison and one addition settle an event.
#[derive(Clone, Copy, Debug)]
pub struct Limiter {
    interval: Duration,
    slack: Duration,
    full_at: Moment,
}

impl Default for Limiter {
    /// Linux's limits for all ICMP of a host: 1000 a second, 50 at once.
    fn default() -> Self {
        Self::new(1000, 50)
    }
}

impl Limiter {
    /// A full bucket. Both numbers count as at least 1.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { interval, slack: interval.saturating_mul(burst.max(1) - 1), full_at: Moment::ZERO }
    }

    /// Whether one more event at `now` is within the limits; if so it is counted.
    pub fn admit(&mut self, now: Moment) -> bool {
        let admitted = self.full_at.since(now) <= self.slack;
        if admitted {
            self.full_at = self.full_at.max(now) + self.interval;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(milliseconds))
    }

    fn admitted(limiter: &mut Limiter, now: Moment, asked: usize) -> usize {
        (0..asked).filter(|_| limiter.admit(now)).count()
    }

    #[test]
    fn a_burst_then_the_rate() {
        let mut limiter = Limiter::new(10, 5);
        assert_eq!(admitted(&mut limiter, at(0), 100), 5);
        assert_eq!(admitted(&mut limiter, at(99), 100), 0);
        assert_eq!(admitted(&mut limiter, at(100), 100), 1);
        assert_eq!(admitted(&mut limiter, at(400), 100), 3);
        assert_eq!(admitted(&mut limiter, at(60_000), 100), 5);
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_admits_nothing_more() {
        let mut limiter = Limiter::new(1000, 1);
        assert_eq!(admitted(&mut limiter, at(500), 10), 1);
        assert_eq!(admitted(&mut limiter, at(100), 10), 0);
        assert_eq!(admitted(&mut limiter, at(501), 10), 1);
    }

    #[test]
    fn zero_counts_as_one() {
        let mut limiter = Limiter::new(0, 0);
        assert_eq!(admitted(&mut limiter, at(0), 10), 1);
        assert_eq!(admitted(&mut limiter, at(1000), 10), 1);
    }
}
