//! Liveness that means a live loop, not just a live process: every part that must keep moving has a [`Pulse`], and the
//! node is healthy while each pulse is recent.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::net::Moment;

/// A part that has not moved for this long is stuck. Every part moves at least once a second, also when idle.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// The health of one node. Cheap to share; asked by the health server.
#[derive(Debug, Default)]
pub struct Health {
    ready: AtomicBool,
    hindrance: Mutex<Option<String>>,
    parts: Mutex<Vec<Part>>,
}

/// The beat of one part: a counter that only has to change.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<AtomicU64>);

#[derive(Debug)]
struct Part {
    name: String,
    pulse: Arc<AtomicU64>,
    seen: u64,
    changed: Moment,
}

impl Pulse {
    /// Says "still moving". One relaxed store; no clock.
    #[inline]
    pub fn beat(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

impl Health {
    /// A new part to be watched from `now` on, under `name` in messages.
    pub fn watch(&self, name: impl Into<String>, now: Moment) -> Pulse {
        let pulse = Pulse::default();
        self.lock().push(Part { name: name.into(), pulse: Arc::clone(&pulse.0), seen: 0, changed: now });
        pulse
    }

    /// Whether the node may be sent work.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Relaxed);
    }

    /// What stands in the way of being ready, to be told to who asks; `None` where there is no more to say than that it is not.
    pub fn set_hindrance(&self, hindrance: Option<&str>) {
        let mut said = self.hindrance.lock().unwrap_or_else(PoisonError::into_inner);
        if said.as_deref() != hindrance {
            *said = hindrance.map(str::to_owned);
        }
    }

    /// What stands in the way of being ready, if that is known.
    pub fn hindrance(&self) -> Option<String> {
        self.hindrance.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the node may be sent work: lease held, device up, file written.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Relaxed)
    }

    /// Looks at every pulse; the sentence about each part that is stuck. To be called about once a second or oftener.
    pub fn stuck(&self, now: Moment) -> Vec<String> {
        let mut stuck = Vec::new();
        for part in self.lock().iter_mut() {
            let beats = part.pulse.load(Relaxed);
            if beats != part.seen {
                part.seen = beats;
                part.changed = now;
            }
            let still = now.since(part.changed);
            if still > STUCK_AFTER {
                stuck.push(format!("{} has not moved for {} s", part.name, still.as_secs()));
            }
        }
        stuck
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn a_part_that_stops_beating_is_stuck_until_it_beats_again() {
        let health = Health::default();
        let (worker, registry) = (health.watch("worker 0", at(0)), health.watch("registry", at(0)));
        worker.beat();
        assert!(health.stuck(at(4)).is_empty());
        registry.beat();
        assert_eq!(health.stuck(at(10)), ["worker 0 has not moved for 6 s"]);
        worker.beat();
        assert!(health.stuck(at(11)).is_empty());
    }
}
