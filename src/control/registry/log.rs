//! The leases of a registry as of one revision, with the changes that led there: what any number of watchers share.
//!
//! A watcher that is at most [`EVENTS_KEPT`] events behind gets events; one further behind, or one whose revision comes from
//! another life of the registry, gets a snapshot. Nothing is kept per watcher. Not a store: a log is a copy of one.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use crate::lease::{Change, Lease, LeaseEvent, SubnetKey, Update};

/// How many events are kept for watchers that are behind. A thousand nodes starting at once make a thousand.
pub const EVENTS_KEPT: usize = 4096;

/// Leases, and the latest events about them.
#[derive(Debug, Default)]
pub struct LeaseLog {
    leases: BTreeMap<SubnetKey, Held>,
    events: VecDeque<(u64, Logged)>,
    /// Watchers that know everything up to here, or later, can be served from `events`.
    horizon: u64,
    /// What watchers are told; grows with every change, whatever the registry's own does.
    revision: u64,
    /// The registry's own, as last heard of.
    heard: u64,
    /// How far `revision` is ahead of `heard`, since the registry began to count anew.
    lead: u64,
    /// Whether the registry has been heard of.
    started: bool,
}

/// A lease with the moment it ends instead of the time it had left when it was read.
#[derive(Clone, Debug)]
struct Held {
    lease: Lease,
    deadline: Option<Instant>,
}

#[derive(Clone, Debug)]
enum Logged {
    Added(Held),
    Removed(SubnetKey),
}

impl LeaseLog {
    /// A log that knows nothing yet: the first update it takes in should be a snapshot.
    pub fn new() -> Self {
        Self::default()
    }

    /// The revision up to which this log knows everything, by its own count: the registry's, or ahead of it by a constant since
    /// the registry began to count anew.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The registry's own revision up to which this log knows everything.
    pub fn heard(&self) -> u64 {
        self.heard
    }

    /// Takes in what the registry reports. A snapshot becomes events too, by value, so that watchers need not start anew.
    ///
    /// A revision that does not grow can only be another life of the registry: every watcher then gets a snapshot.
    pub fn apply(&mut self, update: Update, now: Instant) {
        let events = match update.change {
            Change::Events(events) => events,
            Change::Snapshot(leases) => self.difference(leases),
        };
        let started = std::mem::replace(&mut self.started, true);
        let anew = started && (update.revision < self.heard || (update.revision == self.heard && !events.is_empty()));
        if anew {
            // Some watcher may hold this very revision from before: the next one is nobody's.
            self.lead = self.revision + 1 - update.revision;
        }
        self.heard = update.revision;
        self.revision = update.revision + self.lead;
        for event in events {
            let logged = match event {
                LeaseEvent::Added(lease) => {
                    let held = Held { deadline: lease.ttl.map(|ttl| now + ttl), lease };
                    self.leases.insert(held.lease.subnet, held.clone());
                    Logged::Added(held)
                }
                LeaseEvent::Removed(subnet) => {
                    self.leases.remove(&subnet);
                    Logged::Removed(subnet)
                }
            };
            self.events.push_back((self.revision, logged));
        }
        if anew || !started {
            self.horizon = self.revision;
            self.events.clear();
        }
        while self.events.len() > EVENTS_KEPT {
            if let Some((revision, _)) = self.events.pop_front() {
                self.horizon = revision;
            }
        }
    }

    /// What a watcher that knows everything up to `cursor` has yet to learn; `None` if nothing.
    pub fn since(&self, cursor: u64, now: Instant) -> Option<Update> {
        if cursor < self.horizon || cursor > self.revision {
            return Some(self.snapshot(now));
        }
        let events: Vec<_> = self.after(cursor).map(|logged| logged.event(now)).collect();
        (!events.is_empty()).then_some(Update { revision: self.revision, change: Change::Events(events) })
    }

    /// The same about one subnet. Instead of a snapshot without the lease comes its removal.
    pub fn since_of(&self, subnet: &SubnetKey, cursor: u64, now: Instant) -> Option<Update> {
        let change = if cursor < self.horizon || cursor > self.revision {
            match self.lease(subnet, now) {
                Some(lease) => Change::Snapshot(vec![lease]),
                None => Change::Events(vec![LeaseEvent::Removed(*subnet)]),
            }
        } else {
            let events: Vec<_> =
                self.after(cursor).filter(|logged| logged.subnet() == subnet).map(|logged| logged.event(now)).collect();
            if events.is_empty() {
                return None;
            }
            Change::Events(events)
        };
        Some(Update { revision: self.revision, change })
    }

    /// Everything there is.
    pub fn snapshot(&self, now: Instant) -> Update {
        Update { revision: self.revision, change: Change::Snapshot(self.leases(now).collect()) }
    }

    /// Every lease, with the time it has left at `now`, in the order of subnets.
    pub fn leases(&self, now: Instant) -> impl Iterator<Item = Lease> {
        self.leases.values().map(move |held| held.at(now))
    }

    /// The lease of `subnet`, if there is one.
    pub fn lease(&self, subnet: &SubnetKey, now: Instant) -> Option<Lease> {
        self.leases.get(subnet).map(|held| held.at(now))
    }

    /// Whether there is a lease of `subnet`.
    pub fn holds(&self, subnet: &SubnetKey) -> bool {
        self.leases.contains_key(subnet)
    }

    /// The subnets whose leases have ended by `now`.
    pub fn expired(&self, now: Instant) -> Vec<SubnetKey> {
        let over = |held: &&Held| held.deadline.is_some_and(|deadline| deadline <= now);
        self.leases.values().filter(over).map(|held| held.lease.subnet).collect()
    }

    /// When the next lease ends.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.leases.values().filter_map(|held| held.deadline).min()
    }

    fn after(&self, cursor: u64) -> impl Iterator<Item = &Logged> {
        // Sorted by revision; watchers are many and mostly one event behind.
        let first = self.events.partition_point(|(revision, _)| *revision <= cursor);
        self.events.range(first..).map(|(_, logged)| logged)
    }

    /// What has to happen for exactly `leases` to be there.
    fn difference(&self, leases: Vec<Lease>) -> Vec<LeaseEvent> {
        let wanted: BTreeMap<SubnetKey, Lease> = leases.into_iter().map(|lease| (lease.subnet, lease)).collect();
        let gone = self.leases.keys().filter(|subnet| !wanted.contains_key(subnet)).map(|subnet| LeaseEvent::Removed(*subnet));
        let gone: Vec<_> = gone.collect();
        let same = |lease: &Lease| {
            self.leases.get(&lease.subnet).is_some_and(|held| {
                held.lease.revision == lease.revision
                    && held.lease.attrs == lease.attrs
                    && held.lease.is_reservation() == lease.is_reservation()
            })
        };
        gone.into_iter().chain(wanted.into_values().filter(|lease| !same(lease)).map(LeaseEvent::Added)).collect()
    }
}

impl Held {
    fn at(&self, now: Instant) -> Lease {
        let ttl = self.deadline.map(|deadline| deadline.saturating_duration_since(now));
        Lease { ttl, ..self.lease.clone() }
    }
}

impl Logged {
    fn event(&self, now: Instant) -> LeaseEvent {
        match self {
            Self::Added(held) => LeaseEvent::Added(held.at(now)),
            Self::Removed(subnet) => LeaseEvent::Removed(*subnet),
        }
    }

    fn subnet(&self) -> &SubnetKey {
        match self {
            Self::Added(held) => &held.lease.subnet,
            Self::Removed(subnet) => subnet,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::lease::LeaseAttrs;

    fn lease(third: u8, node: u8, revision: u64) -> Lease {
        Lease {
            subnet: format!("10.1.{third}.0-24").parse().unwrap(),
            attrs: LeaseAttrs::udp(Ipv4Addr::new(192, 0, 2, node)),
            ttl: Some(Duration::from_secs(100)),
            revision,
        }
    }

    /// A log that begins at `revision`, with no leases.
    fn log(revision: u64, now: Instant) -> LeaseLog {
        let mut log = LeaseLog::new();
        log.apply(Update { revision, change: Change::Snapshot(vec![]) }, now);
        log
    }

    fn added(revision: u64, lease: Lease) -> Update {
        Update { revision, change: Change::Events(vec![LeaseEvent::Added(lease)]) }
    }

    #[test]
    fn a_watcher_gets_exactly_what_it_lacks() {
        let now = Instant::now();
        let mut log = log(10, now);
        log.apply(added(11, lease(1, 1, 11)), now);
        log.apply(added(12, lease(2, 2, 12)), now);
        assert_eq!(log.since(12, now), None);
        assert_eq!(log.since(11, now), Some(added(12, lease(2, 2, 12))));
        let both = vec![LeaseEvent::Added(lease(1, 1, 11)), LeaseEvent::Added(lease(2, 2, 12))];
        assert_eq!(log.since(10, now), Some(Update { revision: 12, change: Change::Events(both) }));
    }

    #[test]
    fn another_life_and_a_long_sleep_get_a_snapshot() {
        let now = Instant::now();
        let mut log = log(10, now);
        log.apply(added(11, lease(1, 1, 11)), now);
        let snapshot = Some(Update { revision: 11, change: Change::Snapshot(vec![lease(1, 1, 11)]) });
        assert_eq!(log.since(9, now), snapshot);
        assert_eq!(log.since(12, now), snapshot);
        for revision in 12..12 + EVENTS_KEPT as u64 {
            log.apply(added(revision, lease(1, 1, revision)), now);
        }
        assert!(matches!(log.since(10, now), Some(Update { change: Change::Snapshot(_), .. })));
        let Some(Update { change: Change::Events(events), .. }) = log.since(11, now) else { panic!("kept too few") };
        assert_eq!(events.len(), EVENTS_KEPT);
    }

    #[test]
    fn a_snapshot_becomes_the_events_that_lead_to_it() {
        let now = Instant::now();
        let mut log = log(0, now);
        let start = vec![lease(1, 1, 1), lease(2, 2, 2), lease(3, 3, 3)];
        log.apply(Update { revision: 3, change: Change::Snapshot(start) }, now);
        let changed = vec![lease(1, 1, 1), lease(3, 9, 5), lease(4, 4, 6)];
        log.apply(Update { revision: 6, change: Change::Snapshot(changed.clone()) }, now);
        let expected = vec![
            LeaseEvent::Removed(lease(2, 2, 2).subnet),
            LeaseEvent::Added(lease(3, 9, 5)),
            LeaseEvent::Added(lease(4, 4, 6)),
        ];
        assert_eq!(log.since(3, now), Some(Update { revision: 6, change: Change::Events(expected) }));
        assert_eq!(log.leases(now).collect::<Vec<_>>(), changed);
    }

    #[test]
    fn a_revision_that_does_not_grow_starts_everybody_anew() {
        let now = Instant::now();
        let mut log = log(0, now);
        log.apply(added(7, lease(1, 1, 7)), now);
        log.apply(Update { revision: 7, change: Change::Snapshot(vec![lease(1, 1, 7)]) }, now);
        assert_eq!(log.since(7, now), None, "nothing new");
        log.apply(added(7, lease(2, 2, 7)), now);
        assert_eq!(log.since(7, now), Some(log.snapshot(now)));
        assert_eq!(log.since(log.revision(), now), None);
        // Once is enough: what comes next are events again.
        let before = log.revision();
        log.apply(added(8, lease(3, 3, 8)), now);
        assert_eq!(log.since(before, now), Some(added(before + 1, lease(3, 3, 8))));
        assert_eq!((log.heard(), log.since(7, now)), (8, Some(log.snapshot(now))));
        log.apply(Update { revision: 3, change: Change::Snapshot(vec![lease(1, 1, 3)]) }, now);
        for cursor in [0, 3, 7, 8, 9] {
            let Some(Update { change: Change::Snapshot(leases), .. }) = log.since(cursor, now) else { panic!("{cursor}") };
            assert_eq!(leases, vec![lease(1, 1, 3)]);
        }
    }

    #[test]
    fn time_left_shrinks_and_ends() {
        let now = Instant::now();
        let mut log = log(0, now);
        log.apply(added(1, lease(1, 1, 1)), now);
        log.apply(added(2, Lease { ttl: None, ..lease(2, 2, 2) }), now);
        let later = now + Duration::from_mins(1);
        assert_eq!(log.lease(&lease(1, 1, 1).subnet, later).unwrap().ttl, Some(Duration::from_secs(40)));
        assert_eq!(log.next_deadline(), Some(now + Duration::from_secs(100)));
        assert_eq!(log.expired(later), vec![]);
        assert_eq!(log.expired(now + Duration::from_secs(100)), vec![lease(1, 1, 1).subnet]);
    }

    #[test]
    fn the_watch_of_one_lease_ends_in_its_removal() {
        let now = Instant::now();
        let mut log = log(0, now);
        let subnet = lease(1, 1, 1).subnet;
        log.apply(added(1, lease(1, 1, 1)), now);
        log.apply(added(2, lease(2, 2, 2)), now);
        assert_eq!(log.since_of(&subnet, 1, now), None);
        let removed = Change::Events(vec![LeaseEvent::Removed(subnet)]);
        log.apply(Update { revision: 3, change: removed.clone() }, now);
        assert_eq!(log.since_of(&subnet, 1, now), Some(Update { revision: 3, change: removed.clone() }));
        assert_eq!(log.since_of(&subnet, 99, now), Some(Update { revision: 3, change: removed }));
    }
}
