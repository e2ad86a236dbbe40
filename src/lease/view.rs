//! From what a watch says about leases to what the table has to change, and to news of our own lease.
//!
//! The view remembers every record, so that a snapshot is compared by value (a peer that moved is noticed) and a change of our
//! own subnet re-judges all. Records that would loop or take our traffic are left out, with a warning told once per record.
//! It does no I/O and logs nothing. The daemon feeds it and hands its routes to the [`LeaseTable`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use super::{Change, Lease, LeaseEvent, LeaseTable, SubnetKey, Update, check_public_ip};
use crate::net::{Endpoint, Prefix4};

/// The revision of a lease from a registry that tells none: what is old and what is new cannot be told there.
const NO_REVISION: u64 = 0;

/// All leases as last heard of, and the routes made of them.
#[derive(Debug)]
pub struct LeaseView {
    network: Prefix4,
    public_ip: Ipv4Addr,
    // What our record still says while a renewal that announces `public_ip` is under way.
    // Addresses our record may still name while a renewal carries another one to it.
    former: Vec<Ipv4Addr>,
    port: u16,
    own: Option<Own>,
    // Ordered by IPv4 subnet first: all records of one subnet are neighbours.
    records: BTreeMap<SubnetKey, Lease>,
    routes: BTreeMap<Prefix4, Endpoint>,
    // How many routes there are of each prefix length.
    lengths: [usize; 33],
    warned: BTreeMap<SubnetKey, LeaseWarning>,
}

#[derive(Clone, Copy, Debug)]
struct Own {
    subnet: SubnetKey,
    revision: u64,
}

/// What an update comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ViewChange {
    /// Changes of the table, to be applied in order.
    pub routes: Vec<Route>,
    /// What became of our own lease, if anything did.
    pub own: Option<OwnNews>,
    /// Records left out or doubtful, each told once until it changes.
    pub warnings: Vec<LeaseWarning>,
}

/// One change of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Send what goes to the subnet to the endpoint.
    Set(Prefix4, Endpoint),
    /// Send nothing to it any more.
    Remove(Prefix4),
}

/// What a watch said about the lease we hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnNews {
    /// It is there, with this expiry.
    Seen(Lease),
    /// It is gone.
    Removed,
    /// It is another node's now.
    Taken(Lease),
    /// It is gone, or another node's, by the word of a registry without revisions: which may be older than our lease. A
    /// renewal, which changes nothing of another node's, tells.
    Doubtful,
}

/// A record that is not, or not simply, made into a route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum LeaseWarning {
    /// Nobody can be reached there.
    #[error(
        "lease {subnet} is ignored: its public IP {public_ip} is no node's; its node must publish the address it is reached at"
    )]
    NoNode { subnet: SubnetKey, public_ip: Ipv4Addr },
    /// Sending there would send the packet back into the overlay.
    #[error("lease {subnet} is ignored: its public IP {public_ip} lies inside the overlay {network}, so packets would loop")]
    Loop { subnet: SubnetKey, public_ip: Ipv4Addr, network: Prefix4 },
    /// Another subnet under our own address: left behind by us, or by a node with the same address.
    #[error("lease {subnet} is ignored: its public IP {public_ip} is our own; revoke it if no other node uses that address")]
    OwnAddress { subnet: SubnetKey, public_ip: Ipv4Addr },
    /// It holds addresses of ours.
    #[error("lease {subnet} of {public_ip} is ignored: it overlaps our own subnet {own}; revoke it")]
    OverlapsOwn { subnet: SubnetKey, public_ip: Ipv4Addr, own: Prefix4 },
    /// Two nodes hold some of the same addresses; the longer prefix wins.
    #[error("lease {subnet} of {public_ip} overlaps lease {other}; the smaller subnet gets the traffic, revoke the wrong one")]
    OverlapsPeer { subnet: SubnetKey, public_ip: Ipv4Addr, other: Prefix4 },
}

impl LeaseView {
    /// A view without leases for a node at `public_ip` whose network is `network` and whose peers listen on `port`, all but those
    /// whose leases name another.
    #[must_use]
    pub fn new(network: Prefix4, public_ip: Ipv4Addr, port: u16) -> Self {
        Self {
            network,
            public_ip,
            former: Vec::new(),
            port,
            own: None,
            records: BTreeMap::new(),
            routes: BTreeMap::new(),
            lengths: [0; 33],
            warned: BTreeMap::new(),
        }
    }

    /// Tells the view which lease we hold now, `None` if we lost ours. Every record is judged again.
    ///
    /// To be called after every acquisition, renewal and loss.
    pub fn set_own(&mut self, own: Option<&Lease>) -> ViewChange {
        self.former.clear();
        if let Some(lease) = own {
            self.public_ip = lease.attrs.public_ip;
        }
        self.own = own.map(|lease| Own { subnet: lease.subnet, revision: lease.revision });
        let mut change = ViewChange::default();
        self.judge(self.records.keys().map(|key| key.v4).collect(), &mut change);
        change
    }

    /// As [`set_own`](Self::set_own), before a renewal that announces another public IP, the one in `own`. Until the next
    /// `set_own` our record is ours under any address we have had since; under a `former` one it is no news.
    pub fn set_moving(&mut self, own: &Lease, former: Ipv4Addr) -> ViewChange {
        // Also that of a renewal whose answer is still to come.
        let mut formers = std::mem::take(&mut self.former);
        formers.extend([self.public_ip, former]);
        let change = self.set_own(Some(own));
        self.former = formers;
        change
    }

    /// Takes in one report of the watch.
    pub fn update(&mut self, update: Update) -> ViewChange {
        let mut change = ViewChange::default();
        let mut touched = BTreeSet::new();
        match update.change {
            Change::Snapshot(leases) => {
                let old = std::mem::take(&mut self.records);
                self.records = leases.into_iter().map(|lease| (lease.subnet, lease)).collect();
                self.warned.retain(|key, _| self.records.contains_key(key));
                touched.extend(old.keys().chain(self.records.keys()).map(|key| key.v4));
                if let Some(own) = self.own {
                    change.own = match self.records.get(&own.subnet) {
                        Some(lease) => self.own_seen(lease),
                        None => own.removal_at(update.revision),
                    };
                }
            }
            Change::Events(events) => {
                for event in events {
                    let key = self.take_event(event, update.revision, &mut change);
                    touched.insert(key.v4);
                }
            }
        }
        self.judge(touched, &mut change);
        change
    }

    /// Every record as last heard of, our own included.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.records.values()
    }

    /// How many subnets of other nodes have a route.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.routes.len()
    }

    fn take_event(&mut self, event: LeaseEvent, revision: u64, change: &mut ViewChange) -> SubnetKey {
        match event {
            LeaseEvent::Added(lease) => {
                let key = lease.subnet;
                change.own = self.own_seen(&lease).or(change.own.take());
                self.records.insert(key, lease);
                key
            }
            LeaseEvent::Removed(key) => {
                if let Some(own) = self.own.filter(|own| own.subnet == key) {
                    change.own = own.removal_at(revision).or(change.own.take());
                }
                self.records.remove(&key);
                self.warned.remove(&key);
                key
            }
        }
    }

    /// News, if `lease` is the record of our own subnet and no older than what we know.
    fn own_seen(&self, lease: &Lease) -> Option<OwnNews> {
        let own = self.own.filter(|own| own.subnet == lease.subnet && own.revision <= lease.revision)?;
        match lease.attrs.public_ip {
            ours if ours == self.public_ip => Some(OwnNews::Seen(lease.clone())),
            former if self.former.contains(&former) => None,
            _ if own.revision == NO_REVISION => Some(OwnNews::Doubtful),
            _ => Some(OwnNews::Taken(lease.clone())),
        }
    }

    /// Brings the routes of the `touched` subnets in line with their records.
    fn judge(&mut self, touched: BTreeSet<Prefix4>, change: &mut ViewChange) {
        // What is gone goes first, lest it seem to overlap what has come.
        let (stay, gone): (Vec<_>, Vec<_>) = touched.into_iter().partition(|subnet| self.records_of(*subnet).next().is_some());
        for subnet in gone {
            self.route(subnet, None, change);
        }
        for subnet in stay {
            let mut wanted = None;
            let records: Vec<(SubnetKey, Verdict)> =
                self.records_of(subnet).map(|lease| (lease.subnet, self.verdict(lease))).collect();
            for (key, verdict) in records {
                // The first usable record of a subnet counts; a second one differs in its IPv6 part only.
                wanted = wanted.or(verdict.use_it);
                match verdict.warning {
                    None => _ = self.warned.remove(&key),
                    Some(warning) if self.warned.get(&key) == Some(&warning) => {}
                    Some(warning) => {
                        self.warned.insert(key, warning.clone());
                        change.warnings.push(warning);
                    }
                }
            }
            self.route(subnet, wanted, change);
        }
    }

    fn route(&mut self, subnet: Prefix4, wanted: Option<Endpoint>, change: &mut ViewChange) {
        let before = match wanted {
            Some(endpoint) => self.routes.insert(subnet, endpoint),
            None => self.routes.remove(&subnet),
        };
        if before == wanted {
            return;
        }
        let count = &mut self.lengths[usize::from(subnet.len())];
        *count = *count + usize::from(before.is_none()) - usize::from(wanted.is_none());
        change.routes.push(match wanted {
            Some(endpoint) => Route::Set(subnet, endpoint),
            None => Route::Remove(subnet),
        });
    }

    fn records_of(&self, subnet: Prefix4) -> impl Iterator<Item = &Lease> {
        self.records.range(SubnetKey::from(subnet)..).take_while(move |(key, _)| key.v4 == subnet).map(|(_, lease)| lease)
    }

    fn verdict(&self, lease: &Lease) -> Verdict {
        let (subnet, public_ip) = (lease.subnet, lease.attrs.public_ip);
        let port = lease.attrs.port.unwrap_or(self.port);
        let refuse = |warning| Verdict { use_it: None, warning };
        let own = self.own.map(|own| own.subnet);
        // Ours, or the placeholder of a lease without IPv4.
        if own == Some(subnet) || subnet.v4.len() == 0 {
            return refuse(None);
        }
        if public_ip == self.public_ip && port == self.port {
            // Without a lease of our own it is most likely the one we lost.
            return refuse(own.map(|_| LeaseWarning::OwnAddress { subnet, public_ip }));
        }
        if check_public_ip(public_ip).is_err() {
            return refuse(Some(LeaseWarning::NoNode { subnet, public_ip }));
        }
        if self.network.contains(public_ip) {
            return refuse(Some(LeaseWarning::Loop { subnet, public_ip, network: self.network }));
        }
        if let Some(own) = own.filter(|own| own.v4.len() > 0 && own.v4.overlaps(&subnet.v4)) {
            return refuse(Some(LeaseWarning::OverlapsOwn { subnet, public_ip, own: own.v4 }));
        }
        let other = self.overlapping(subnet.v4);
        let warning = other.map(|other| LeaseWarning::OverlapsPeer { subnet, public_ip, other });
        Verdict { use_it: Some(SocketAddr::from((public_ip, port))), warning }
    }

    /// Another route that shares addresses with `subnet`: one around it, or the first one inside it.
    fn overlapping(&self, subnet: Prefix4) -> Option<Prefix4> {
        let shorter = (0..subnet.len()).rev().zip(self.lengths[..usize::from(subnet.len())].iter().rev());
        let around = shorter
            .filter(|(_, count)| **count > 0)
            .filter_map(|(len, _)| Prefix4::new(subnet.base(), len).ok())
            .find(|around| self.routes.contains_key(around));
        let inside = || self.routes.range(subnet..).map(|(inside, _)| *inside).find(|inside| *inside != subnet);
        around.or_else(|| inside().filter(|inside| subnet.covers(inside)))
    }
}

struct Verdict {
    /// Where the subnet's traffic goes, if the record is usable.
    use_it: Option<Endpoint>,
    warning: Option<LeaseWarning>,
}

impl Own {
    /// Absence is news unless it is older than our own record: then it was so before we (re)acquired.
    fn removal_at(&self, revision: u64) -> Option<OwnNews> {
        match self.revision {
            NO_REVISION => Some(OwnNews::Doubtful),
            own => (revision >= own).then_some(OwnNews::Removed),
        }
    }
}

impl ViewChange {
    /// Puts the routes in force.
    pub fn apply_to(&self, table: &LeaseTable) {
        for route in &self.routes {
            _ = match *route {
                Route::Set(subnet, endpoint) => table.set(subnet, endpoint),
                Route::Remove(subnet) => table.remove(&subnet),
            };
        }
    }
}
