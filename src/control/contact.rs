//! Whether the watches of one registry, or of one policy source, have contact: one log line when it is lost, one when it is back.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tracing::{info, warn};

/// Shared by all watches of one place, so that they speak with one voice.
#[derive(Debug)]
pub(in crate::control) struct Contact {
    place: String,
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The watches without contact.
    cut_off: HashSet<u64>,
    since: Option<Instant>,
}

impl Contact {
    pub(in crate::control) fn new(place: String) -> Arc<Self> {
        Arc::new(Self { place, next: AtomicU64::default(), state: Mutex::default() })
    }

    /// One more watch, until the answer is dropped.
    pub(in crate::control) fn join(self: &Arc<Self>) -> Link {
        Link { contact: Arc::clone(self), id: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

/// One watch's part in the contact.
#[derive(Debug)]
pub(in crate::control) struct Link {
    contact: Arc<Contact>,
    id: u64,
}

impl Link {
    /// This watch has no contact any more; `reason` without the name of the place.
    pub(in crate::control) fn lost(&self, reason: &str) {
        let mut state = self.contact.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.cut_off.insert(self.id) && state.since.is_none() {
            state.since = Some(Instant::now());
            warn!("{}: watch lost, going on with what is known: {reason}", self.contact.place);
        }
    }

    /// This watch has contact.
    pub(in crate::control) fn regained(&self) {
        if let Some(since) = self.leave() {
            info!("{}: watch is back after {:.1} s", self.contact.place, since.elapsed().as_secs_f64());
        }
    }

    /// Takes this watch off those without contact; when it was the last, since when that lasted.
    fn leave(&self) -> Option<Instant> {
        let mut state = self.contact.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.cut_off.remove(&self.id) && state.cut_off.is_empty() { state.since.take() } else { None }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contact_is_back_when_the_last_watch_has_it() {
        let contact = Contact::new("etcd".into());
        let (one, two) = (contact.join(), contact.join());
        let troubled = || contact.state.lock().unwrap().since.is_some();
        one.lost("gone");
        one.lost("gone still");
        two.lost("gone");
        one.regained();
        assert!(troubled());
        drop(two);
        assert!(!troubled());
        one.regained();
        assert!(!troubled());
    }
}
