//! How long an idle worker goes on looking for packets before it sleeps.
//!
//! Waking up costs more than forwarding: a sleeping thread answers tens of microseconds later than one that looks. But one
//! that looks burns a core. So it looks for as long as it lately would have paid: after a sleep so short that looking would
//! have caught what ended it, the window grows, after a long one it shrinks, down to nothing. Traffic that trickles more slowly
//! than the longest window costs nothing. (Linux's KVM polls before it halts a guest's processor by the same rule.)

use std::time::Duration;

use crate::net::Moment;

/// The first window.
const FIRST: Duration = Duration::from_micros(10);

/// The state of one worker's looking.
#[derive(Debug)]
pub struct Spin {
    longest: Duration,
    window: Duration,
    idle_since: Option<Moment>,
}

impl Spin {
    /// Never looks longer than `longest` at a time; with zero it never does.
    #[must_use]
    pub fn new(longest: Duration) -> Self {
        Self { longest, window: Duration::ZERO, idle_since: None }
    }

    /// Whether it may look at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.longest.is_zero()
    }

    /// There were packets.
    pub fn busy(&mut self) {
        self.idle_since = None;
    }

    /// There were none at `now`: whether to look again instead of sleeping.
    pub fn looks_again(&mut self, now: Moment) -> bool {
        let since = *self.idle_since.get_or_insert(now);
        now.since(since) < self.window
    }

    /// It slept until `now`.
    pub fn slept(&mut self, now: Moment) {
        let idle = self.idle_since.take().map_or(Duration::ZERO, |since| now.since(since));
        self.window = if idle <= self.longest {
            (self.window * 2).max(FIRST).min(self.longest)
        } else if self.window > FIRST {
            self.window / 2
        } else {
            Duration::ZERO
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(microseconds: u64) -> Moment {
        Moment::from_origin(Duration::from_micros(microseconds))
    }

    /// Packets every `gap` microseconds: how many of these gaps were slept through, and microseconds spent looking.
    fn run(spin: &mut Spin, gap: u64, packets: u64) -> (u64, u64) {
        let (mut sleeps, mut looked) = (0, 0);
        for packet in 0..packets {
            spin.busy();
            let begin = packet * gap;
            let mut now = begin;
            while now < begin + gap {
                if spin.looks_again(at(now)) {
                    now += 1;
                    looked += 1;
                } else {
                    now = begin + gap;
                    spin.slept(at(now));
                    sleeps += 1;
                }
            }
        }
        (sleeps, looked)
    }

    #[test]
    fn it_learns_to_catch_a_conversation_and_forgets_a_trickle() {
        let mut spin = Spin::new(Duration::from_micros(200));
        let (sleeps, _) = run(&mut spin, 60, 1000);
        assert!(sleeps <= 4, "{sleeps}");
        let (sleeps, looked) = run(&mut spin, 1000, 1000);
        assert!(sleeps == 1000 && looked < 500, "{sleeps} {looked}");
    }

    #[test]
    fn the_window_is_bounded_and_off_means_off() {
        let mut spin = Spin::new(Duration::from_micros(50));
        let (sleeps, looked) = run(&mut spin, 51, 1000);
        assert!(sleeps == 1000 && looked == 0, "beyond the longest window nothing is looked for: {sleeps} {looked}");
        let mut off = Spin::new(Duration::ZERO);
        assert!(!off.is_on());
        assert_eq!(run(&mut off, 1, 100), (100, 0));
        assert!(Spin::new(Duration::from_micros(1)).is_on());
    }
}
