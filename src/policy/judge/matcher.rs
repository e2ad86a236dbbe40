//! Many rules asked at once.

use std::cell::OnceCell;

use super::atoms::RankedSet;
use super::intervals::{Intervals, Place};
use super::{AtomSet, Blocks};
use crate::net::Protocol;
use crate::policy::model::{PodPort, Ports};

/// The other end of a flow, as rules see it.
#[derive(Debug)]
pub struct Peer<'a> {
    address: u128,
    pods: Option<&'a AtomSet>,
    nodes: Option<&'a AtomSet>,
    blocks: &'a Blocks,
    place: OnceCell<Place>,
}

/// Where a flow goes.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its port.
    pub port: u16,
    /// The ports that have names in the pod it goes to.
    pub names: &'a [PodPort],
}

/// The atoms a rule names as peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerAtoms {
    /// Selectors of pods.
    pub pods: Vec<u32>,
    /// Blocks and selectors of nodes.
    pub addresses: Vec<u32>,
}

/// A rule as a [`Matcher`] is made of.
#[derive(Clone, Copy, Debug)]
pub struct MatchRule<'a> {
    /// Who may be at the other end; `None`: anybody.
    pub peers: Option<&'a PeerAtoms>,
    /// Which ports; `None`: any, of any protocol.
    pub ports: Option<&'a [Ports]>,
}

/// Rules, known by their ranks: 0 for the first.
#[derive(Debug, Default)]
pub struct Matcher {
    /// Rules for any port of any protocol.
    any: Part,
    tcp: Intervals<u16, Part>,
    udp: Intervals<u16, Part>,
    sctp: Intervals<u16, Part>,
    /// Rules for ports that the other end names, ascending by name and protocol.
    named: Box<[Named]>,
}

#[derive(Debug)]
struct Named {
    name: Box<str>,
    protocol: Option<Protocol>,
    part: Part,
}

/// Whom rules match that agree on ports.
#[derive(Debug)]
struct Part {
    /// The first rule that matches anybody; `u32::MAX` if there is none.
    anybody: u32,
    pods: RankedSet,
    addresses: RankedSet,
}

impl<'a> Peer<'a> {
    /// Who is at `address`: the selectors of pods and of nodes that match it, if it is such.
    #[inline]
    pub const fn new(address: u128, pods: Option<&'a AtomSet>, nodes: Option<&'a AtomSet>, blocks: &'a Blocks) -> Self {
        Self { address, pods, nodes, blocks, place: OnceCell::new() }
    }

    #[inline]
    fn address_atoms(&self) -> impl Iterator<Item = &'a AtomSet> {
        let place = *self.place.get_or_init(|| self.blocks.place(self.address));
        self.nodes.into_iter().chain(self.blocks.covering(place))
    }
}

impl Matcher {
    /// From rules in order. `own` are the named ports of the pod they are about, where that is what flows go to; `None` where
    /// they go to the peer.
    pub fn new(rules: &[MatchRule], own: Option<&[PodPort]>) -> Self {
        let mut any = Vec::new();
        let mut ranges: [Vec<(u16, Option<u16>, u32)>; 3] = Default::default();
        let mut named: Vec<(&str, Option<Protocol>, u32)> = Vec::new();
        for (rank, rule) in (0..).zip(rules) {
            let Some(ports) = rule.ports else {
                any.push(rank);
                continue;
            };
            for ports in ports {
                let mut add = |protocol, first, last: u16| {
                    if let Some(ranges) = index_of(protocol).and_then(|index| ranges.get_mut(index)).filter(|_| first <= last) {
                        ranges.push((first, last.checked_add(1), rank));
                    }
                };
                match (ports, own) {
                    (Ports::Numbers { protocol, first: 0, .. }, _) => add(*protocol, 0, u16::MAX),
                    (Ports::Numbers { protocol, first, last }, _) => add(*protocol, *first, *last),
                    (Ports::Named { name, protocol }, Some(own)) => {
                        for port in
                            own.iter().filter(|port| port.name == *name && protocol.is_none_or(|asked| asked == port.protocol))
                        {
                            add(port.protocol, port.number, port.number);
                        }
                    }
                    (Ports::Named { name, protocol }, None) => named.push((name, *protocol, rank)),
                    (Ports::Nothing, _) => {}
                }
            }
        }
        let [tcp, udp, sctp] = ranges.map(|ranges| Intervals::new(&ranges, |ranks| Part::new(rules, ranks.iter().copied())));
        named.sort_unstable();
        let named = named.chunk_by(|one, two| (one.0, one.1) == (two.0, two.1)).filter_map(|group| {
            let (name, protocol, _) = group.first()?;
            let part = Part::new(rules, group.iter().map(|(_, _, rank)| *rank));
            Some(Named { name: (*name).into(), protocol: *protocol, part })
        });
        let named = named.collect();
        Self { any: Part::new(rules, any), tcp, udp, sctp, named }
    }

    /// Whether any rule matches.
    #[inline]
    pub fn matches(&self, peer: &Peer, target: &Target) -> bool {
        self.any.matches(peer)
            || self.at(target).any(|part| part.matches(peer))
            || self.by_name(target).any(|part| part.matches(peer))
    }

    /// The rank of the first rule that matches.
    #[inline]
    pub fn first(&self, peer: &Peer, target: &Target) -> Option<u32> {
        let parts = self.at(target).chain(self.by_name(target));
        let first = parts.fold(self.any.first(peer), |first, part| first.min(part.first(peer)));
        (first != u32::MAX).then_some(first)
    }

    #[inline]
    fn at(&self, target: &Target) -> impl Iterator<Item = &Part> {
        let table = match target.protocol {
            Protocol::TCP => Some(&self.tcp),
            Protocol::UDP => Some(&self.udp),
            Protocol::SCTP => Some(&self.sctp),
            _ => None,
        };
        let port = target.port;
        table.into_iter().flat_map(move |table| table.at(table.place(port)))
    }

    #[inline]
    fn by_name<'a>(&'a self, target: &'a Target) -> impl Iterator<Item = &'a Part> {
        let names: &[PodPort] = if self.named.is_empty() || !target.protocol.has_ports() { &[] } else { target.names };
        let names = names.iter().filter(|port| port.number == target.port && port.protocol == target.protocol);
        names.flat_map(|port| [Some(port.protocol), None].into_iter().filter_map(|protocol| self.named(&port.name, protocol)))
    }

    #[inline]
    fn named(&self, name: &str, protocol: Option<Protocol>) -> Option<&Part> {
        let at = self.named.binary_search_by(|named| (&*named.name, named.protocol).cmp(&(name, protocol))).ok()?;
        Some(&self.named.get(at)?.part)
    }
}

impl Default for Part {
    fn default() -> Self {
        Self { anybody: u32::MAX, pods: RankedSet::default(), addresses: RankedSet::default() }
    }
}

impl Part {
    fn new(rules: &[MatchRule], ranks: impl IntoIterator<Item = u32>) -> Self {
        let mut part = Self::default();
        let (mut pods, mut addresses) = (Vec::new(), Vec::new());
        for rank in ranks {
            match rules.get(rank as usize).map(|rule| rule.peers) {
                Some(Some(peers)) => {
                    pods.extend(peers.pods.iter().map(|atom| (*atom, rank)));
                    addresses.extend(peers.addresses.iter().map(|atom| (*atom, rank)));
                }
                Some(None) => part.anybody = part.anybody.min(rank),
                None => {}
            }
        }
        part.pods = RankedSet::new(pods);
        part.addresses = RankedSet::new(addresses);
        part
    }

    #[inline]
    fn matches(&self, peer: &Peer) -> bool {
        self.anybody != u32::MAX
            || peer.pods.is_some_and(|atoms| self.pods.meets(atoms))
            || (!self.addresses.is_empty() && peer.address_atoms().any(|atoms| self.addresses.meets(atoms)))
    }

    #[inline]
    fn first(&self, peer: &Peer) -> u32 {
        let first = self.anybody.min(peer.pods.map_or(u32::MAX, |atoms| self.pods.first(atoms)));
        if self.addresses.is_empty() {
            return first;
        }
        peer.address_atoms().fold(first, |first, atoms| first.min(self.addresses.first(atoms)))
    }
}

const fn index_of(protocol: Protocol) -> Option<usize> {
    match protocol {
        Protocol::TCP => Some(0),
        Protocol::UDP => Some(1),
        Protocol::SCTP => Some(2),
        _ => None,
    }
}
