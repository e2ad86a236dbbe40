//! The highest rate a path carries: offered, tried, and closed in on.
//!
//! A blast at full speed measures how a path loses packets, not what it carries. So the rate rises by a factor until one
//! is lost upon, and is then halved in on between the last that held and the first that did not.

use std::time::Duration;

/// The share of datagrams that may be lost at a rate that counts as carried.
pub const LOSS_LIMIT: f64 = 0.005;

/// How far below the asked rate a sender may stay and still count as having offered it.
const SHORT: f64 = 0.97;

/// How the rate rises, and falls if even the first is too high.
const RISE: f64 = 1.6;
const FALL: f64 = 0.5;

/// Two rates this close are one.
const CLOSE: f64 = 1.03;

/// No path is slower than this, in datagrams a second; below, it is broken.
const FLOOR: f64 = 100.0;

/// What came of offering a rate. Rates are datagrams a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// What was asked of the sender.
    pub asked: f64,
    /// What it brought about.
    pub offered: f64,
    /// What arrived, over the time it took to arrive.
    pub delivered: f64,
    /// The share that did not arrive in time.
    pub loss: f64,
}

impl Trial {
    /// Of `sent` datagrams in `time`, `received` arrived, the last of them `last` after the first was sent.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of some millions")]
    pub fn new(asked: f64, sent: u64, received: u64, time: Duration, last: Duration) -> Self {
        let (sent, received) = (sent as f64, received as f64);
        Self {
            asked,
            offered: sent / time.as_secs_f64().max(f64::MIN_POSITIVE),
            // A queue that fills makes arrivals take longer than sendings; counting them over the latter would flatter.
            delivered: received / time.max(last).as_secs_f64().max(f64::MIN_POSITIVE),
            loss: if sent > 0.0 { 1.0 - received / sent } else { 1.0 },
        }
    }

    /// Whether the path carried what was offered.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.loss <= LOSS_LIMIT
    }

    /// Whether the sender could not offer what was asked. Then it is not known what the path would have done.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.offered < self.asked * SHORT
    }
}

/// What bounded the search from above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The path loses more at higher rates.
    Path,
    /// The sender cannot offer more. Where the sender's system calls carry the packet all the way, as with veth and kernel
    /// vxlan, that is the path's own cost; what is found is carried for sure, and more might be.
    Sender,
    /// The search was at the end of its steps.
    Steps,
}

/// What a search came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The highest rate delivered at a loss of [`LOSS_LIMIT`] at most.
    pub delivered: f64,
    /// The loss at that rate.
    pub loss: f64,
    /// Trials it took.
    pub trials: u32,
    /// What kept it from being higher.
    pub limit: Limit,
}

/// Searches from the rate `start` on with at most `trials` calls of `attempt`; `None` if no rate held.
///
/// A rate counts as too high only once it was lost upon twice: a noisy machine loses some at any rate.
///
/// # Errors
/// The first of `attempt`.
pub fn search<E>(start: f64, trials: u32, mut attempt: impl FnMut(f64) -> Result<Trial, E>) -> Result<Option<Found>, E> {
    let mut best: Option<Trial> = None;
    // The highest rate that held, and the lowest that did not, as far as known.
    let (mut low, mut high) = (0.0f64, f64::INFINITY);
    let mut limit = Limit::Steps;
    let mut rate = start.max(FLOOR);
    let (mut done, mut vain, mut most_offered) = (0, 0, 0.0f64);
    while done < trials {
        let mut trial = attempt(rate)?;
        done += 1;
        if !trial.holds() && done < trials {
            trial = attempt(rate)?;
            done += 1;
        }
        if trial.holds() {
            low = low.max(trial.delivered);
            if best.is_none_or(|best| trial.delivered > best.delivered) {
                best = Some(trial);
            }
            // A sender that falls short once may have been held up. It is at its end when asking for much more brings no more.
            vain = if trial.is_short() && trial.offered < most_offered * CLOSE { vain + 1 } else { 0 };
            most_offered = most_offered.max(trial.offered);
            if vain == 2 && high.is_infinite() {
                limit = Limit::Sender;
                break;
            }
        } else {
            // Where the sender fell short the path failed at what was offered, which is less than what was asked.
            high = high.min(rate.min(trial.offered.max(FLOOR)));
        }
        rate = match (low > 0.0, high.is_finite()) {
            (true, false) => rate * RISE,
            (true, true) => f64::midpoint(low, high),
            (false, _) => high * FALL,
        };
        if high <= low * CLOSE || rate < FLOOR {
            limit = Limit::Path;
            break;
        }
    }
    Ok(best.map(|best| Found { delivered: best.delivered, loss: best.loss.max(0.0), trials: done, limit }))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A path that carries `capacity` a second and loses the rest, behind a sender that offers `most` at most.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small positive numbers")]
    fn simulated(capacity: f64, most: f64) -> impl FnMut(f64) -> Result<Trial, Infallible> {
        move |asked| {
            let sent = asked.min(most) as u64;
            Ok(Trial::new(asked, sent, sent.min(capacity as u64), SECOND, SECOND))
        }
    }

    fn found(start: f64, trials: u32, capacity: f64, most: f64) -> Found {
        search(start, trials, simulated(capacity, most)).unwrap().unwrap()
    }

    #[test]
    fn the_limit_of_a_path_is_found_from_anywhere() {
        for capacity in [1_000.0, 58_000.0, 275_000.0, 1_300_000.0] {
            for start in [500.0, 50_000.0, 200_000.0, 4_000_000.0] {
                let found = found(start, 40, capacity, f64::INFINITY);
                let share = found.delivered / capacity;
                assert!((0.96..=1.0001).contains(&share), "{capacity} from {start}: {found:?}");
                assert!(found.loss <= LOSS_LIMIT && found.limit == Limit::Path && found.trials <= 40, "{found:?}");
            }
        }
    }

    #[test]
    fn a_sender_at_its_end_is_no_limit_of_the_path() {
        let found = found(50_000.0, 20, 2_000_000.0, 300_000.0);
        assert_eq!((found.limit, found.delivered), (Limit::Sender, 300_000.0));
        // It took 50, 80, 128, 205, 328, 524 and 839 thousand; of the last three the sender brought about 300.
        assert_eq!(found.trials, 7);
    }

    #[test]
    fn a_path_that_fails_below_the_sender_s_end_is_the_limit() {
        let found = found(1_000_000.0, 30, 250_000.0, 300_000.0);
        assert_eq!(found.limit, Limit::Path);
        assert!((242_000.0..=251_500.0).contains(&found.delivered), "{found:?}");
    }

    #[test]
    fn the_number_of_trials_is_bounded() {
        for trials in 1..12 {
            let mut count = 0;
            let mut path = simulated(300_000.0, f64::INFINITY);
            let found = search(50_000.0, trials, |rate| {
                count += 1;
                path(rate)
            });
            assert!(count <= trials && found.unwrap().unwrap().trials == count, "{trials}");
        }
        assert_eq!(found(50_000.0, 3, 1e9, f64::INFINITY).limit, Limit::Steps);
    }

    #[test]
    fn a_dead_path_has_no_rate() {
        assert_eq!(search(50_000.0, 100, simulated(0.0, f64::INFINITY)).unwrap(), None);
    }

    #[test]
    fn one_hiccup_is_forgiven() {
        let mut calls = 0;
        let mut path = simulated(300_000.0, f64::INFINITY);
        let found = search(50_000.0, 30, |rate| {
            calls += 1;
            if calls == 2 { Ok(Trial { loss: 0.2, ..path(rate)? }) } else { path(rate) }
        });
        assert!(found.unwrap().unwrap().delivered > 290_000.0);
    }

    #[test]
    fn late_arrivals_do_not_flatter() {
        let trial = Trial::new(1000.0, 1000, 1000, SECOND, 2 * SECOND);
        assert!(trial.holds() && (trial.delivered - 500.0).abs() < 1e-9);
        let trial = Trial::new(1000.0, 1000, 994, SECOND, SECOND / 2);
        assert!(!trial.holds() && (trial.delivered - 994.0).abs() < 1e-9);
        assert!(!Trial::new(1000.0, 0, 0, SECOND, SECOND).holds());
    }

    #[test]
    fn a_sender_that_is_held_up_is_asked_again() {
        // It brings about nine tenths of whatever is asked, up to a million: somebody else uses the machine.
        let found = search(50_000.0, 30, |asked| {
            let sent = (asked * 0.9).min(1_000_000.0);
            Ok::<_, Infallible>(Trial { asked, offered: sent, delivered: sent, loss: 0.0 })
        });
        let found = found.unwrap().unwrap();
        assert!(found.limit == Limit::Sender && found.delivered > 999_999.0, "{found:?}");
    }

    #[test]
    fn errors_end_it() {
        assert_eq!(search(1.0, 5, |_| Err::<Trial, _>("gone")), Err("gone"));
    }
}
