//! A point on the monotonic clock, as a value. The pure rooms compute with it; only the daemon reads a clock.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Time since an arbitrary, fixed origin of this process's monotonic clock. Wall-clock steps never touch it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The origin itself.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// The moment `since_origin` after the origin.
    #[must_use]
    pub const fn from_origin(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// How long after the origin this moment is.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// How long `self` is after `earlier`; zero if it is not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(length))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let early = Moment::ZERO + Duration::from_secs(1);
        assert_eq!(early - Duration::from_secs(2), Moment::ZERO);
        assert_eq!(Moment::ZERO.since(early), Duration::ZERO);
        assert_eq!(early.since(Moment::ZERO), Duration::from_secs(1));
        assert_eq!(early + Duration::MAX, Moment::from_origin(Duration::MAX));
    }
}
