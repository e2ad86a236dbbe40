//! Whether the underlay is narrower towards some peer than the tunnel was made for (R07): an underlay that is itself a
//! tunnel, or a route with an MTU of its own. Packets are not lost for it: they are answered, or split by the kernel; but
//! they are so for ever, and only the network config can change that. So it is said, once for a peer.
//!
//! Peers are looked at some at a time, so that a thousand that come at once do not hold up the node's loop, and share a line.

use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use super::interface::mtu_of_route;
use crate::sys::netlink::{Link, Netlink, NetlinkError, Route};

/// Peers looked at in one go: one question to the kernel each, about 10 µs.
const AT_ONCE: usize = 1024;

/// Peers whose way is still to be looked at, and those it was told of.
#[derive(Debug, Default)]
pub struct Paths {
    waiting: VecDeque<Ipv4Addr>,
    told: BTreeSet<Ipv4Addr>,
}

/// Peers behind a narrow way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Narrow {
    /// The one with the narrowest.
    pub peer: Ipv4Addr,
    /// Largest packet on its way, in bytes.
    pub mtu: u32,
    /// How many peers more there are.
    pub others: usize,
}

impl Paths {
    /// There is a route to a peer, new or changed.
    pub fn set(&mut self, peer: Ipv4Addr) {
        if !self.told.contains(&peer) {
            self.waiting.push_back(peer);
        }
    }

    /// Asks the kernel for the way to some of those that wait; which of them are narrower than `underlay_mtu`, if any.
    ///
    /// # Errors
    /// When the kernel cannot be asked at all.
    pub fn look(&mut self, underlay_mtu: u32) -> Result<Option<Narrow>, NetlinkError> {
        if self.waiting.is_empty() {
            return Ok(None);
        }
        let netlink = Netlink::open()?;
        let links = netlink.links()?;
        // A peer without a way has worse trouble, which is counted elsewhere.
        Ok(self.look_by(underlay_mtu, &links, |peer| netlink.route_to(peer.into()).ok()))
    }

    fn look_by(&mut self, underlay_mtu: u32, links: &[Link], mut way: impl FnMut(Ipv4Addr) -> Option<Route>) -> Option<Narrow> {
        let mut narrow: Option<Narrow> = None;
        for peer in self.waiting.drain(..self.waiting.len().min(AT_ONCE)) {
            let mtu = way(peer).and_then(|way| mtu_of_route(&way, links)).filter(|mtu| *mtu < underlay_mtu);
            let Some(mtu) = mtu.filter(|_| self.told.insert(peer)) else { continue };
            narrow = Some(match narrow {
                None => Narrow { peer, mtu, others: 0 },
                Some(found) if mtu < found.mtu => Narrow { peer, mtu, others: found.others + 1 },
                Some(found) => Narrow { others: found.others + 1, ..found },
            });
        }
        narrow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(Ipv4Addr::new(192, 0, 2, 0).to_bits() + number)
    }

    /// The even ones are behind a way of 1,400 less their number.
    fn way(peer: Ipv4Addr) -> Option<Route> {
        let number = peer.to_bits() - Ipv4Addr::new(192, 0, 2, 0).to_bits();
        let route = Route::new("0.0.0.0/0".parse().unwrap());
        (number != 9).then(|| if number.is_multiple_of(2) { route.mtu(1400 - number) } else { route.mtu(1500) })
    }

    #[test]
    fn narrow_ways_are_told_once_and_together() {
        let mut paths = Paths::default();
        assert_eq!(paths.look_by(1500, &[], way), None);
        (1..=9).for_each(|number| paths.set(peer(number)));
        assert_eq!(paths.look_by(1500, &[], way), Some(Narrow { peer: peer(8), mtu: 1392, others: 3 }));
        (1..=9).for_each(|number| paths.set(peer(number)));
        assert_eq!(paths.look_by(1500, &[], way), None);
        paths.set(peer(20));
        paths.set(peer(20));
        assert_eq!(paths.look_by(1381, &[], way), Some(Narrow { peer: peer(20), mtu: 1380, others: 0 }));
    }

    #[test]
    fn many_are_looked_at_in_turns() {
        let mut paths = Paths::default();
        (0..2500).for_each(|number| paths.set(peer(number)));
        let mut asked = Vec::new();
        for _ in 0..4 {
            let before = asked.len();
            paths.look_by(1500, &[], |peer| {
                asked.push(peer);
                None
            });
            assert!(asked.len() - before <= AT_ONCE);
        }
        assert_eq!(asked.len(), 2500);
    }
}
