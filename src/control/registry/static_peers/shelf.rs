//! All leases there are, counted as a registry counts them, so that watches work as with any other.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::network::Placed;
use crate::control::registry::feed::Feed;
use crate::control::registry::log::LeaseLog;
use crate::lease::{Change, Lease, LeaseAttrs, LeaseEvent, SubnetKey, Update};
use crate::net::Prefix4;

/// Our own lease and the peers', and who watches them.
#[derive(Debug)]
pub(super) struct Shelf {
    pub feed: Arc<Feed>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    revision: u64,
    own: Option<Lease>,
    peers: BTreeMap<SubnetKey, LeaseAttrs>,
}

/// How another set of peers differs from the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    pub added: usize,
    pub changed: usize,
    pub removed: usize,
}

impl Shelf {
    /// A shelf with these peers, and no lease of ours yet.
    pub(super) fn new(peers: &[Placed]) -> Self {
        let feed = Feed::new(LeaseLog::new());
        feed.apply(Update { revision: 0, change: Change::Snapshot(Vec::new()) });
        let shelf = Self { feed: Arc::new(feed), state: Mutex::default() };
        shelf.put_peers(peers);
        shelf
    }

    /// Our lease of `subnet` with these attributes. It has a revision of its own, so that a watch which is behind tells us
    /// nothing of it.
    pub(super) fn put_own(&self, subnet: Prefix4, attrs: &LeaseAttrs) -> Lease {
        let mut state = self.state();
        if let Some(own) = state.own.as_ref().filter(|own| own.attrs == *attrs) {
            return own.clone();
        }
        state.revision += 1;
        let own = Lease { subnet: subnet.into(), attrs: attrs.clone(), ttl: None, revision: state.revision };
        state.own = Some(own.clone());
        self.tell(&state, vec![LeaseEvent::Added(own.clone())]);
        own
    }

    /// These are the peers from now on, and no others.
    pub(super) fn put_peers(&self, peers: &[Placed]) -> Difference {
        let mut state = self.state();
        let peers: BTreeMap<_, _> = peers.iter().map(|placed| (placed.peer.subnet.into(), attrs(placed))).collect();
        let before = std::mem::replace(&mut state.peers, peers);
        let mut difference = Difference::default();
        let mut events = Vec::new();
        for subnet in before.keys().filter(|subnet| !state.peers.contains_key(subnet)) {
            difference.removed += 1;
            events.push(LeaseEvent::Removed(*subnet));
        }
        let revision = state.revision + 1;
        for (subnet, attrs) in &state.peers {
            match before.get(subnet) {
                Some(known) if known == attrs => continue,
                Some(_) => difference.changed += 1,
                None => difference.added += 1,
            }
            events.push(LeaseEvent::Added(Lease { subnet: *subnet, attrs: attrs.clone(), ttl: None, revision }));
        }
        if !events.is_empty() {
            state.revision = revision;
            self.tell(&state, events);
        }
        difference
    }

    /// Every lease.
    pub(super) fn leases(&self) -> Vec<Lease> {
        self.feed.read(|log, now| log.leases(now).collect())
    }

    /// Under the lock of the state, so that changes are told in their order.
    fn tell(&self, state: &MutexGuard<'_, State>, events: Vec<LeaseEvent>) {
        self.feed.apply(Update { revision: state.revision, change: Change::Events(events) });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn attrs(placed: &Placed) -> LeaseAttrs {
    let address: Ipv4Addr = placed.peer.address;
    LeaseAttrs { port: placed.peer.port, ..LeaseAttrs::udp(address) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(peers: &[&str]) -> Vec<Placed> {
        peers.iter().map(|peer| Placed { peer: peer.parse().unwrap(), place: String::new() }).collect()
    }

    fn since(shelf: &Shelf, cursor: u64) -> Vec<String> {
        let update = shelf.feed.read(|log, now| log.since(cursor, now));
        let Some(Update { change: Change::Events(events), .. }) = update else { return Vec::new() };
        events
            .iter()
            .map(|event| match event {
                LeaseEvent::Added(lease) => format!("{} {} {:?}", lease.subnet.v4, lease.attrs.public_ip, lease.attrs.port),
                LeaseEvent::Removed(subnet) => format!("no {}", subnet.v4),
            })
            .collect()
    }

    #[test]
    fn another_set_is_told_as_what_is_different() {
        let shelf = Shelf::new(&placed(&["10.5.2.0/24=192.0.2.2", "10.5.3.0/24=192.0.2.3", "10.5.4.0/24=192.0.2.4"]));
        assert!(shelf.leases().iter().all(Lease::is_reservation) && shelf.leases().len() == 3);
        let cursor = shelf.feed.read(|log, _| log.revision());
        let same = placed(&["10.5.4.0/24=192.0.2.4", "10.5.3.0/24=192.0.2.3", "10.5.2.0/24=192.0.2.2"]);
        assert_eq!(shelf.put_peers(&same), Difference::default());
        assert_eq!(shelf.feed.read(|log, _| log.revision()), cursor);
        let other = placed(&["10.5.2.0/24=192.0.2.2:9", "10.5.3.0/24=192.0.2.3", "10.5.5.0/24=192.0.2.5"]);
        assert_eq!(shelf.put_peers(&other), Difference { added: 1, changed: 1, removed: 1 });
        let expected = ["no 10.5.4.0/24", "10.5.2.0/24 192.0.2.2 Some(9)", "10.5.5.0/24 192.0.2.5 None"];
        assert_eq!(since(&shelf, cursor), expected);
    }

    #[test]
    fn our_lease_is_newer_than_what_a_watch_that_is_behind_knows() {
        let shelf = Shelf::new(&placed(&["10.5.2.0/24=192.0.2.2"]));
        let before = shelf.feed.read(|log, _| log.revision());
        let own = shelf.put_own("10.5.1.0/24".parse().unwrap(), &LeaseAttrs::udp(Ipv4Addr::new(192, 0, 2, 1)));
        assert!(own.revision > before && own.is_reservation());
        assert_eq!(shelf.put_own("10.5.1.0/24".parse().unwrap(), &own.attrs), own, "nothing new");
        let moved = shelf.put_own("10.5.1.0/24".parse().unwrap(), &LeaseAttrs::udp(Ipv4Addr::new(192, 0, 2, 9)));
        assert!(moved.revision > own.revision);
        assert_eq!(since(&shelf, own.revision), ["10.5.1.0/24 192.0.2.9 None"]);
    }
}
