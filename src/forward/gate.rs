//! Where policy stands in a packet's way: it is asked about each new flow, and the flow table about all others.
//!
//! Both directions of all workers share one flow table, because a flow's packets and its replies are carried by different threads.
//! Not here: what policies say (`policy`), how flows age (`flow`), who is told of refusals.

use std::net::Ipv4Addr;
use std::sync::Arc;

use super::{Counters, DropReason, Peers, Tunnel};
use crate::flow::{Admission, Dropped, FlowTable, Inserted, OnChange, Passed, Spot, Tracker};
use crate::net::{FlowKey, Moment, Prefix4, Protocol, v4_bits};
use crate::policy::{Cause, Policies, RefusalEvent, RefusalQueue, Refused, Verdict};
use crate::wire::inspect::{Inspected, TcpFlags, Unfit, inspect, is_multicast};
use crate::wire::ipv4::Ipv4;

/// Which traffic of its pods a node judges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// What crosses the tunnel.
    #[default]
    Overlay,
    /// All of it: the host sends what it would deliver itself through the TUN first, and takes it back from there.
    Node,
}

/// What is settled once and for all when a node starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What happens to flows that a change forbids.
    pub on_change: OnChange,
    /// Whether multicast goes without asking; none goes otherwise.
    pub multicast: bool,
    /// Which traffic comes here.
    pub scope: Scope,
}

/// Packets of a batch whose flows are fetched ahead: all, if they are single ones.
const FORESEEN: usize = 64;

/// What judges the flows that one thread carries.
#[derive(Debug)]
pub struct Gate {
    rules: Rules,
    policies: Arc<Policies>,
    tracker: Tracker,
    refusals: Arc<RefusalQueue>,
    /// Subnets this node had before, of which pods may still have addresses.
    former: Arc<[Prefix4]>,
    foreign: Arc<[Prefix4]>,
    now: Moment,
    /// What the packet before was like, if it was let through in this batch.
    latest: Option<Alike>,
}

/// What packets in the middle of a flow have in common, over IPv4 without options: of those that come behind each other only
/// the first of a batch is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alike {
    source: u32,
    destination: u32,
    source_port: u16,
    destination_port: u16,
    protocol: u8,
}

impl Gate {
    /// A gate that goes by `policies`, remembers flows in `flows` and tells `refusals` what it refuses.
    #[must_use]
    pub fn new(rules: Rules, policies: Arc<Policies>, flows: Arc<FlowTable>, refusals: Arc<RefusalQueue>) -> Self {
        let tracker = Tracker::new(flows, rules.on_change);
        Self {
            rules,
            policies,
            tracker,
            refusals,
            former: Arc::default(),
            foreign: Arc::default(),
            now: Moment::ZERO,
            latest: None,
        }
    }

    /// Goes by these from now on.
    pub fn follow(&mut self, policies: Arc<Policies>) {
        self.policies = policies;
        self.latest = None;
    }

    /// Takes these for the subnets this node had before, from now on; `foreign` are those that the policies gone by take for
    /// another node's.
    pub fn remember(&mut self, former: Arc<[Prefix4]>, foreign: Arc<[Prefix4]>) {
        (self.former, self.foreign) = (former, foreign);
    }

    /// A batch begins.
    #[inline]
    pub fn begin(&mut self, now: Moment) {
        self.now = now;
        self.latest = None;
    }

    /// These packets come next: what the flow table holds of their flows is fetched, all at once. Only the first of them are
    /// looked at: where there are more than slots, they are trains, and so of few flows.
    #[inline]
    pub fn foresee<'a>(&self, packets: impl Iterator<Item = &'a [u8]>) {
        if self.policies.is_open() {
            return;
        }
        let (mut spots, mut count, mut before) = ([Spot::default(); FORESEEN], 0, None);
        for alike in packets.take(FORESEEN).filter_map(Alike::of) {
            // Packets of one flow come behind each other.
            if before.replace(alike) == Some(alike) {
                continue;
            }
            if let Some(spot) = spots.get_mut(count) {
                *spot = self.tracker.table().spot(&alike.key());
                count += 1;
            }
        }
        // A single one is as well fetched when it is needed.
        if count > 1 {
            self.tracker.table().approach(spots.get(..count).unwrap_or_default());
        }
    }

    /// Whether a packet from the TUN that may go on is the host's to deliver, and so goes back there.
    ///
    /// What goes to a subnet this node had before is, unless another node leases it: then it is that one's.
    #[inline]
    #[must_use]
    pub fn sends_back(&self, tunnel: &Tunnel, peers: &mut impl Peers, packet: &[u8]) -> bool {
        self.rules.scope == Scope::Node
            && Ipv4::parse(packet).is_ok_and(|packet| {
                let destination = packet.destination();
                tunnel.own.contains(destination)
                    || !tunnel.network.contains(destination)
                    || (self.was_ours(destination) && peers.peer_of(destination).is_none())
            })
    }

    /// Whether a packet from the TUN is of an address that was ours and is another node's now. What that node sends comes over the
    /// wire, so its source is a pod of ours that has kept its address: policy would take it for the other's. Where policy and leases
    /// do not agree yet, the packet is of nobody.
    #[inline]
    #[must_use]
    pub fn is_stray(&self, peers: &mut impl Peers, packet: &Ipv4<'_>) -> bool {
        if self.former.is_empty() || self.rules.scope != Scope::Node {
            return false;
        }
        let (source, destination) = (packet.source(), packet.destination());
        let is_foreign = |address| self.foreign.iter().any(|subnet| subnet.contains(address));
        (self.was_ours(source) && (is_foreign(source) || peers.peer_of(source).is_some()))
            || (is_foreign(destination) && peers.peer_of(destination).is_none())
    }

    #[inline]
    fn was_ours(&self, address: Ipv4Addr) -> bool {
        self.former.iter().any(|subnet| subnet.contains(address))
    }

    /// Whether an IP packet may go on, as far as policy is concerned.
    ///
    /// # Errors
    /// The reason to drop it, in silence.
    #[inline]
    pub fn admit(&mut self, packet: &[u8], counters: &Counters) -> Result<(), DropReason> {
        let alike = Alike::of(packet);
        if alike.is_some() && alike == self.latest {
            return Ok(());
        }
        self.latest = None;
        self.judge(packet, counters)?;
        self.latest = alike;
        Ok(())
    }

    fn judge(&mut self, packet: &[u8], counters: &Counters) -> Result<(), DropReason> {
        if self.policies.is_open() {
            return Ok(());
        }
        let inspected = inspect(packet);
        if inspected.destination().is_some_and(is_multicast) {
            return if self.rules.multicast { Ok(()) } else { Err(DropReason::Multicast) };
        }
        let (policies, mut asked) = (&*self.policies, false);
        let admission = self.tracker.admit(self.now, &inspected, policies.version(), |key| {
            asked = true;
            match policies.verdict(key) {
                Verdict::Allowed => Ok(()),
                Verdict::Refused(refused) => Err(refused),
            }
        });
        match admission {
            Admission::Passed(passed) => {
                counters.flows_allowed.add(u64::from(asked));
                match passed {
                    Passed::New(Inserted::Displaced) => counters.flows_displaced.add(1),
                    Passed::New(Inserted::Raced) => counters.flows_unrecorded.add(1),
                    _ => {}
                }
                Ok(())
            }
            Admission::Refused { reason, .. } => {
                counters.flows_refused.add(1);
                if let Some((key, opens)) = flow_of(&inspected) {
                    self.refusals.push(RefusalEvent { key, refused: reason, version: policies.version(), opens });
                }
                Err(reason_of(&reason))
            }
            Admission::Dropped(dropped) => Err(name_of(dropped)),
        }
    }
}

/// The flow that a packet is of, and whether it may be the first of it.
fn flow_of(inspected: &Inspected) -> Option<(FlowKey, bool)> {
    match inspected {
        Inspected::Flow { key, tcp, .. } => Some((*key, tcp.is_none_or(TcpFlags::opens))),
        Inspected::Answer { key, .. } => Some((*key, false)),
        Inspected::Message { key, .. } | Inspected::IcmpError { key, .. } => Some((*key, true)),
        Inspected::LaterFragment { .. } | Inspected::Neighbour | Inspected::Unfit(_) => None,
    }
}

/// The name of a refusal: that of the source's end, if both refuse.
fn reason_of(refused: &Refused) -> DropReason {
    match (refused.egress, refused.ingress) {
        (Some(Cause::Unsynced), _) | (None, Some(Cause::Unsynced)) => DropReason::PolicyUnsynced,
        (Some(Cause::UnknownPod), _) | (None, Some(Cause::UnknownPod)) => DropReason::UnknownPod,
        (Some(_), _) => DropReason::PolicyEgress,
        (None, _) => DropReason::PolicyIngress,
    }
}

/// The name of what nobody can judge.
fn name_of(dropped: Dropped) -> DropReason {
    match dropped {
        Dropped::FragmentUnknown => DropReason::OrphanFragment,
        Dropped::FragmentOverlapping | Dropped::Unfit(Unfit::TinyFragment | Unfit::OverlappingFragment) => {
            DropReason::TinyFragment
        }
        Dropped::Unfit(_) => DropReason::BadTransport,
    }
}

impl Alike {
    /// `None` for whatever may change what is known of its flow: fragments, the beginning and the end of a connection.
    #[inline]
    fn of(packet: &[u8]) -> Option<Self> {
        const NO_OPTIONS: u8 = 0x45;
        const FRAGMENT: u16 = 0x3fff;
        const TURNING_POINTS: u8 = 0x07;
        const FLAGS_AT: usize = 33;
        let head = packet.first_chunk::<24>()?;
        let [version, .., protocol] = *head.first_chunk::<10>()?;
        let fragment = u16::from_be_bytes([head[6], head[7]]) & FRAGMENT;
        if version != NO_OPTIONS || fragment != 0 {
            return None;
        }
        match Protocol(protocol) {
            Protocol::TCP if packet.get(FLAGS_AT)? & TURNING_POINTS == 0 => {}
            Protocol::UDP if packet.len() >= 28 => {}
            _ => return None,
        }
        Some(Self {
            source: u32::from_be_bytes([head[12], head[13], head[14], head[15]]),
            destination: u32::from_be_bytes([head[16], head[17], head[18], head[19]]),
            source_port: u16::from_be_bytes([head[20], head[21]]),
            destination_port: u16::from_be_bytes([head[22], head[23]]),
            protocol,
        })
    }

    /// The flow they are of.
    #[inline]
    fn key(self) -> FlowKey {
        FlowKey {
            source: v4_bits(self.source.into()),
            destination: v4_bits(self.destination.into()),
            source_port: self.source_port,
            destination_port: self.destination_port,
            protocol: Protocol(self.protocol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::testing::{P64, hex};

    /// What is fetched ahead is what will be looked up.
    #[test]
    fn alike_packets_have_the_flow_that_inspection_finds() {
        let packet = hex(P64);
        let Inspected::Flow { key, .. } = inspect(&packet) else { panic!("a flow") };
        assert_eq!(Alike::of(&packet).map(Alike::key), Some(key));
    }
}
