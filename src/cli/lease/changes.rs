//! From what a watch reports to what has changed, compared with what was known before.

use std::collections::BTreeMap;

use crate::lease::{Change, Lease, LeaseEvent, SubnetKey, Update};

/// All leases as last heard of.
#[derive(Debug, Default)]
pub struct Known {
    leases: BTreeMap<SubnetKey, Lease>,
    begun: bool,
}

/// What became of one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The lease as it is, or was when it was last heard of.
    pub lease: Lease,
    /// What happened.
    pub what: What,
}

/// What happened to a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It was there when the watch began.
    Present,
    /// It is new.
    Added,
    /// It lasts longer than before; nothing else is different.
    Renewed,
    /// It says something else than before, in these respects.
    Changed(Vec<Respect>),
    /// It is gone: revoked or run out.
    Removed,
}

/// In which respect a lease is different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Respect {
    /// Its name, as the lease's object has it.
    pub name: &'static str,
    /// As it was.
    pub before: String,
    /// As it is.
    pub now: String,
}

impl Known {
    /// Takes in a report: what is different from before.
    pub fn take(&mut self, update: Update) -> Vec<News> {
        let begun = std::mem::replace(&mut self.begun, true);
        match update.change {
            Change::Events(events) => events.into_iter().filter_map(|event| self.take_event(event)).collect(),
            Change::Snapshot(leases) if !begun => {
                self.leases = leases.into_iter().map(|lease| (lease.subnet, lease)).collect();
                self.leases.values().map(|lease| News { lease: lease.clone(), what: What::Present }).collect()
            }
            Change::Snapshot(leases) => self.difference(leases),
        }
    }

    fn take_event(&mut self, event: LeaseEvent) -> Option<News> {
        match event {
            LeaseEvent::Added(lease) => {
                let what = match self.leases.insert(lease.subnet, lease.clone()) {
                    None => What::Added,
                    Some(before) => between(&before, &lease),
                };
                Some(News { lease, what })
            }
            LeaseEvent::Removed(subnet) => self.leases.remove(&subnet).map(|lease| News { lease, what: What::Removed }),
        }
    }

    /// What has happened in a gap. Renewals in it are told of only as far as they can be seen.
    fn difference(&mut self, leases: Vec<Lease>) -> Vec<News> {
        let after: BTreeMap<_, _> = leases.into_iter().map(|lease| (lease.subnet, lease)).collect();
        let gone: Vec<_> =
            self.leases.keys().filter(|subnet| !after.contains_key(subnet)).copied().map(LeaseEvent::Removed).collect();
        let same = |lease: &Lease| {
            self.leases
                .get(&lease.subnet)
                .is_some_and(|before| before.revision == lease.revision && matches!(between(before, lease), What::Renewed))
        };
        let come: Vec<_> = after.into_values().filter(|lease| !same(lease)).map(LeaseEvent::Added).collect();
        gone.into_iter().chain(come).filter_map(|event| self.take_event(event)).collect()
    }
}

/// What has happened to a lease that was one way and is another.
fn between(before: &Lease, now: &Lease) -> What {
    let none_or = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    let respect = |name, of: &dyn Fn(&Lease) -> String| {
        let (before, now) = (of(before), of(now));
        (before != now).then_some(Respect { name, before, now })
    };
    let respects = [
        respect("public_ip", &|lease| lease.attrs.public_ip.to_string()),
        respect("public_ipv6", &|lease| none_or(lease.attrs.public_ipv6.map(|address| address.to_string()))),
        respect("backend", &|lease| none_or(Some(lease.attrs.backend_type.clone()).filter(|named| !named.is_empty()))),
        respect("backend_data", &|lease| none_or(lease.attrs.backend_data.as_ref().map(|data| data.as_str().to_owned()))),
        respect("backend_v6_data", &|lease| none_or(lease.attrs.backend_v6_data.as_ref().map(|data| data.as_str().to_owned()))),
        respect("reserved", &|lease| lease.is_reservation().to_string()),
    ];
    let respects: Vec<_> = respects.into_iter().flatten().collect();
    if respects.is_empty() { What::Renewed } else { What::Changed(respects) }
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

    fn told(known: &mut Known, change: Change) -> Vec<String> {
        let news = known.take(Update { revision: 9, change });
        news.iter().map(|news| format!("{} {:?}", news.lease.subnet.v4, news.what)).collect()
    }

    #[test]
    fn each_change_is_told_for_what_it_is() {
        let mut known = Known::default();
        let start = Change::Snapshot(vec![lease(1, 1, 1), lease(2, 2, 2), lease(3, 3, 3)]);
        assert_eq!(told(&mut known, start), ["10.1.1.0/24 Present", "10.1.2.0/24 Present", "10.1.3.0/24 Present"]);
        let events = vec![
            LeaseEvent::Added(lease(4, 4, 4)),
            LeaseEvent::Added(lease(1, 1, 5)),
            LeaseEvent::Added(Lease { ttl: None, ..lease(1, 7, 6) }),
            LeaseEvent::Removed(lease(2, 2, 2).subnet),
            LeaseEvent::Removed(lease(9, 9, 9).subnet),
        ];
        let change = |name, before: &str, now: &str| Respect { name, before: before.into(), now: now.into() };
        let changed = vec![change("public_ip", "192.0.2.1", "192.0.2.7"), change("reserved", "false", "true")];
        let expected = [
            "10.1.4.0/24 Added".to_owned(),
            "10.1.1.0/24 Renewed".to_owned(),
            format!("10.1.1.0/24 {:?}", What::Changed(changed)),
            "10.1.2.0/24 Removed".to_owned(),
        ];
        assert_eq!(told(&mut known, Change::Events(events)), expected);
    }

    #[test]
    fn a_second_snapshot_tells_only_what_is_different() {
        let mut known = Known::default();
        told(&mut known, Change::Snapshot(vec![lease(1, 1, 1), lease(2, 2, 2), lease(3, 3, 3)]));
        let later = Change::Snapshot(vec![lease(2, 2, 2), lease(3, 3, 8), lease(4, 4, 9)]);
        assert_eq!(told(&mut known, later.clone()), ["10.1.1.0/24 Removed", "10.1.3.0/24 Renewed", "10.1.4.0/24 Added"]);
        assert!(told(&mut known, later).is_empty());
    }
}
