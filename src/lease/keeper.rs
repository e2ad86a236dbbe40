//! The lease keeper: when to acquire, when to renew, when to take the lease for lost. A state machine that only computes.
//!
//! The daemon asks [`next`](Keeper::next) what to do, does it, reports how it went, and asks again; it also reports what the
//! watch says of our own lease. All times are on the monotonic clock, so steps of the wall clock change nothing.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::Lease;
use crate::net::{Moment, Prefix4};

/// First pause after a failed acquisition; each further failure doubles it.
pub const ACQUIRE_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause between acquisitions.
pub const ACQUIRE_PAUSE_MAX: Duration = Duration::from_secs(5);
/// First pause after a failed renewal; each further failure doubles it.
pub const RENEW_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between renewals that fail. Source: flannel's retry interval.
pub const RENEW_PAUSE_MAX: Duration = Duration::from_mins(1);
/// A lease lost sooner than this after it was acquired is acquired again with a pause, lest two nodes fight at full speed.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// A TTL below this says nothing useful of the time left: the lease is renewed at once, with pauses.
const SHORTEST_TTL: Duration = Duration::from_secs(1);

/// What the keeper goes by.
#[derive(Clone, Copy, Debug)]
pub struct KeeperSettings {
    /// How long a lease lasts, where the registry's answer does not say.
    pub ttl: Duration,
    /// How long before its end a lease is renewed; half its TTL at most.
    pub margin: Duration,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the registry for a subnet, `previous` first. Report with [`Keeper::acquired`] or [`Keeper::acquire_failed`].
    Acquire {
        /// The subnet held before.
        previous: Option<Prefix4>,
    },
    /// Renew. Report with [`Keeper::renewed`], [`Keeper::renew_failed`] or [`Keeper::lost`].
    Renew(Lease),
    /// The lease ran out by our own clock: stop forwarding for it, then ask again. Told once.
    Drop(Lease),
    /// Nothing until then; `None` is "until something is reported".
    Wait(Option<Moment>),
}

/// The state of our own lease.
#[derive(Debug)]
pub struct Keeper {
    settings: KeeperSettings,
    random: SmallRng,
    state: State,
}

#[derive(Debug)]
enum State {
    Wanting(Wanted),
    Holding(Held),
}

#[derive(Debug)]
struct Wanted {
    previous: Option<Prefix4>,
    failures: u32,
    short_lives: u32,
    not_before: Moment,
}

#[derive(Debug)]
struct Held {
    lease: Lease,
    since: Moment,
    // How many losses in a row came right after acquiring.
    short_lives: u32,
    schedule: Schedule,
}

#[derive(Clone, Copy, Debug)]
struct Schedule {
    // `None`: a reservation that needs nothing.
    renew_at: Option<Moment>,
    // `None`: a reservation.
    expires: Option<Moment>,
    failures: u32,
    // When something new to publish came up that no renewal has carried yet.
    asked: Option<Moment>,
}

impl Keeper {
    /// A keeper that holds nothing and wants `previous` back if it can be had. `seed` spreads the pauses of many nodes.
    #[must_use]
    pub fn new(settings: KeeperSettings, previous: Option<Prefix4>, seed: u64) -> Self {
        let state = State::Wanting(Wanted { previous, failures: 0, short_lives: 0, not_before: Moment::ZERO });
        Self { settings, random: SmallRng::seed_from_u64(seed), state }
    }

    /// The lease held, if one is.
    #[must_use]
    pub fn held(&self) -> Option<&Lease> {
        match &self.state {
            State::Holding(held) => Some(&held.lease),
            State::Wanting(_) => None,
        }
    }

    /// When the lease held ends unless renewed; `None` without a lease and for a reservation.
    #[must_use]
    pub fn expires(&self) -> Option<Moment> {
        match &self.state {
            State::Holding(held) => held.schedule.expires,
            State::Wanting(_) => None,
        }
    }

    /// What to do at `now`. Not to be asked while an earlier answer is being carried out.
    pub fn next(&mut self, now: Moment) -> Action {
        match &self.state {
            State::Wanting(wanted) if now < wanted.not_before => Action::Wait(Some(wanted.not_before)),
            State::Wanting(wanted) => Action::Acquire { previous: wanted.previous },
            State::Holding(Held { lease, schedule, .. }) => {
                if schedule.expires.is_some_and(|expires| now >= expires) {
                    let lease = lease.clone();
                    self.lost(now);
                    return Action::Drop(lease);
                }
                match schedule.renew_at {
                    Some(renew_at) if now >= renew_at => Action::Renew(lease.clone()),
                    until => Action::Wait(until),
                }
            }
        }
    }

    /// What we publish has changed, or is in doubt: the lease held is renewed at once, a reservation too. A renewal that has
    /// begun already does not count.
    pub fn renew_now(&mut self, now: Moment) {
        if let State::Holding(held) = &mut self.state {
            held.schedule.renew_at = Some(now);
            held.schedule.asked = Some(now);
        }
    }

    /// The registry gave us `lease`.
    pub fn acquired(&mut self, now: Moment, lease: Lease) {
        let short_lives = match &self.state {
            State::Wanting(wanted) => wanted.short_lives,
            State::Holding(held) => held.short_lives,
        };
        let schedule = self.schedule(now, lease.ttl, 0);
        self.state = State::Holding(Held { lease, since: now, short_lives, schedule });
    }

    /// The registry gave us nothing.
    pub fn acquire_failed(&mut self, now: Moment) {
        if let State::Wanting(wanted) = &mut self.state {
            wanted.not_before = now + pause(&mut self.random, ACQUIRE_PAUSE, ACQUIRE_PAUSE_MAX, wanted.failures);
            wanted.failures = wanted.failures.saturating_add(1);
        }
    }

    /// The lease was renewed by a call begun at `begun` and is now `lease`.
    pub fn renewed(&mut self, begun: Moment, lease: Lease) {
        let State::Holding(held) = &self.state else { return };
        let asked = held.schedule.asked.filter(|asked| *asked > begun);
        self.refresh(begun, lease, asked);
    }

    /// The watch saw our record as `lease`, written by us or by somebody who reserved it.
    ///
    /// The same record seen again may end sooner than we thought, never later: only a renewal makes it last.
    pub fn own_seen(&mut self, now: Moment, lease: Lease) {
        let State::Holding(Held { lease: held, schedule, .. }) = &self.state else { return };
        // What a watch says of the time left is sometimes a guess, of flannel's time.
        let lease = Lease { ttl: lease.ttl.map(|ttl| ttl.min(self.settings.ttl)), ..lease };
        if lease.revision > held.revision || lease.is_reservation() != held.is_reservation() {
            let asked = schedule.asked;
            self.refresh(now, lease, asked);
        } else if let Some(ttl) = lease.ttl.filter(|_| lease.revision == held.revision && lease.subnet == held.subnet) {
            self.shorten(now, ttl);
        }
    }

    /// The renewal came to nothing, but nobody said that the lease is lost.
    pub fn renew_failed(&mut self, now: Moment) {
        if let State::Holding(Held { schedule, .. }) = &mut self.state {
            let pause = pause(&mut self.random, RENEW_PAUSE, RENEW_PAUSE_MAX, schedule.failures);
            // Near the end tries become more frequent, so that a short TTL has some too.
            let longest = schedule.expires.map_or(pause, |expires| (expires.since(now) / 4).max(ACQUIRE_PAUSE));
            schedule.renew_at = Some(now + pause.min(longest));
            schedule.failures = schedule.failures.saturating_add(1);
        }
    }

    /// The lease is gone: removed, expired, or somebody else's. It is wanted back at once. Forwarding for it must stop.
    pub fn lost(&mut self, now: Moment) {
        let State::Holding(Held { lease, since, short_lives, .. }) = &self.state else { return };
        let previous = Some(lease.subnet.v4).filter(|subnet| subnet.len() > 0);
        let short_lives = if now.since(*since) < SHORT_LIFE { short_lives.saturating_add(1) } else { 0 };
        let wait = match short_lives {
            0 | 1 => Duration::ZERO,
            more => pause(&mut self.random, ACQUIRE_PAUSE, ACQUIRE_PAUSE_MAX, more - 2),
        };
        self.state = State::Wanting(Wanted { previous, failures: 0, short_lives, not_before: now + wait });
    }

    fn refresh(&mut self, now: Moment, lease: Lease, asked: Option<Moment>) {
        let State::Holding(held) = &self.state else { return };
        // What was on its way while something newer was written, or speaks of another subnet, is no news.
        if held.lease.subnet != lease.subnet || lease.revision < held.lease.revision {
            return;
        }
        let failures = held.schedule.failures;
        let mut schedule = self.schedule(now, lease.ttl, failures);
        if asked.is_some() {
            schedule = Schedule { renew_at: asked, asked, ..schedule };
        }
        if let State::Holding(held) = &mut self.state {
            *held = Held { lease, schedule, ..*held };
        }
    }

    fn shorten(&mut self, now: Moment, ttl: Duration) {
        let State::Holding(Held { schedule: before, .. }) = self.state else { return };
        let seen = self.schedule(now, Some(ttl), before.failures);
        // A TTL that says nothing useful moves no end.
        let expires = if ttl < SHORTEST_TTL { before.expires } else { before.expires.min(seen.expires) };
        let (renew_at, failures) = (before.renew_at.min(seen.renew_at), before.failures.max(seen.failures));
        if let State::Holding(held) = &mut self.state {
            held.schedule = Schedule { renew_at, expires, failures, asked: before.asked };
        }
    }

    fn schedule(&mut self, now: Moment, ttl: Option<Duration>, failures: u32) -> Schedule {
        let Some(ttl) = ttl else { return Schedule { renew_at: None, expires: None, failures: 0, asked: None } };
        if ttl < SHORTEST_TTL {
            // Not positive, or as good as: renew now, and with pauses if that is all the registry ever says.
            let wait = failures.checked_sub(1).map(|past| pause(&mut self.random, RENEW_PAUSE, RENEW_PAUSE_MAX, past));
            let (renew_at, expires) = (now + wait.unwrap_or_default(), now + self.settings.ttl);
            let failures = failures.saturating_add(1);
            return Schedule { renew_at: Some(renew_at), expires: Some(expires), failures, asked: None };
        }
        let margin = self.settings.margin.min(ttl / 2);
        let renew_at = now + ttl.saturating_sub(margin);
        Schedule { renew_at: Some(renew_at), expires: Some(now + ttl), failures: 0, asked: None }
    }
}

/// Between half and all of `first`, doubled `failures` times and cut at `longest`.
fn pause(random: &mut SmallRng, first: Duration, longest: Duration, failures: u32) -> Duration {
    let whole = first.saturating_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX)).min(longest);
    whole.mul_f64(random.random_range(0.5..=1.0))
}
