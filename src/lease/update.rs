//! A lease, and what a watch says about leases.

use std::time::Duration;

use super::{LeaseAttrs, SubnetKey};

/// One node's hold on one subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What is held.
    pub subnet: SubnetKey,
    /// Who holds it and how it is reached.
    pub attrs: LeaseAttrs,
    /// Time left when the registry was asked; `None` for a reservation, which never expires.
    pub ttl: Option<Duration>,
    /// The registry's version of this record; 0 where a registry has none to show.
    pub revision: u64,
}

impl Lease {
    /// Whether the lease is kept for its node without an end.
    #[must_use]
    pub fn is_reservation(&self) -> bool {
        self.ttl.is_none()
    }
}

/// A change of one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseEvent {
    /// Created, renewed or with new attributes.
    Added(Lease),
    /// Deleted or expired.
    Removed(SubnetKey),
}

/// What changed: single events, or, after a start or a gap, everything there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The whole set of leases; whatever is not in it is gone.
    Snapshot(Vec<Lease>),
    /// In the registry's order.
    Events(Vec<LeaseEvent>),
}

/// One report of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The registry's revision up to which, inclusive, the receiver now knows everything.
    pub revision: u64,
    /// What changed.
    pub change: Change,
}
