//! What becomes of a packet, from what it was found to be: the flow table, the fragment table and policy, in this order.
//!
//! * The first packet of a flow is judged, and the flow remembered. Its other packets, and replies, follow it.
//! * A packet that asks for a new TCP connection is judged in its own direction whatever the table says, so that no entry, right
//!   or guessed, ever lets a connection be opened that policy refuses.
//! * A TCP segment in mid-stream without an entry, after a restart or a long silence, is judged in its own direction and as a
//!   reply, and goes on if either is allowed; a SYN+ACK is judged as a reply only. The flow is picked up, never opened, by it
//!   (field report R52). Clients use high ports, servers low ones: where the ports tell who is which, only a flow that the client
//!   may open goes on.
//! * Of everything else a packet without an entry is the first of a flow. An answer that comes too late is refused; so is an ICMP
//!   answer to nothing, unless policy would let it be sent unasked. It never opens a flow.
//! * When policy has changed, a flow is judged again with its next packet, in the direction in which it was opened; in both, if
//!   nothing tells which that is. A TCP flow that ends so is remembered as such: its ends go on sending, and from the side that
//!   policy leaves open it would be picked up again. Until it is silent, or allowed again, each of its packets is judged anew.
//!
//! Multicast, where it is let through by a switch, is for the caller to let through beforehand: see
//! [`is_multicast`](crate::wire::inspect::is_multicast).

use std::sync::Arc;

use super::fragments::{FragmentTable, Later};
use super::state::Opening;
use super::table::{FlowTable, Hit, Inserted};
use crate::net::{FlowKey, Moment, Protocol};
use crate::wire::inspect::{FirstFragment, FragmentId, Inspected, TcpFlags, Unfit};

/// What happens to flows that were let through when policy changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChange {
    /// They are judged again with their next packet, and end if they would be refused now.
    #[default]
    Strict,
    /// They go on until they end by themselves.
    Keep,
}

/// What becomes of a packet. `R` is why policy refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission<R> {
    /// It goes on.
    Passed(Passed),
    /// Policy refuses it.
    Refused {
        /// Why: in the packet's own direction, or that of its flow if there is one; of a SYN+ACK, in that of the connection it
        /// accepts.
        reason: R,
        /// Whether a flow that was let through ends with it, rather than that none begins.
        cut: bool,
    },
    /// It goes no further, whatever policy says.
    Dropped(Dropped),
}

/// Why a packet goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Its flow is known. Policy was not asked.
    Known,
    /// Its flow is known, and was judged again and allowed.
    Rejudged,
    /// Its flow is known from under another policy version, and such flows are kept.
    Kept,
    /// It was judged and allowed, and its flow is remembered, or not: see [`Inserted`].
    New(Inserted),
    /// It was judged and allowed, and is of no flow that would be remembered: a reset, or an ICMP message.
    Single,
    /// It is an error about a packet of a known flow.
    Related,
    /// It is a fragment of a datagram whose first was let through.
    Fragment,
    /// It is neighbour discovery.
    Neighbour,
}

/// Why a packet is dropped without asking policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// Policy cannot speak about it.
    Unfit(Unfit),
    /// A later fragment whose first was not let through, not lately, or under another policy.
    FragmentUnknown,
    /// A later fragment that would replace bytes of the first one.
    FragmentOverlapping,
}

/// One thread's access to the flows of all, and its fragments.
#[derive(Debug)]
pub struct Tracker {
    table: Arc<FlowTable>,
    fragments: FragmentTable,
    on_change: OnChange,
}

/// The outcome for a packet of a flow; fragments are seen to afterwards.
type Judged<R> = Result<Passed, Admission<R>>;

impl Tracker {
    /// A tracker for one thread.
    #[must_use]
    pub fn new(table: Arc<FlowTable>, on_change: OnChange) -> Self {
        let fragments = FragmentTable::new(table.seed());
        Self { table, fragments, on_change }
    }

    /// Says what becomes of a packet. `judge` is policy under `version`, asked about a direction of a flow as if it were opened
    /// in it; versions only grow.
    #[inline]
    pub fn admit<R>(
        &mut self,
        now: Moment,
        inspected: &Inspected,
        version: u64,
        mut judge: impl FnMut(&FlowKey) -> Result<(), R>,
    ) -> Admission<R> {
        match inspected {
            Inspected::Flow { key, tcp, first_fragment } => {
                let judged = self.flow(now, key, *tcp, version, &mut judge);
                self.settle(now, first_fragment.as_ref(), version, judged)
            }
            Inspected::Answer { key, first_fragment } => {
                let judged = self.answer(now, key, version, &mut judge);
                self.settle(now, first_fragment.as_ref(), version, judged)
            }
            Inspected::Message { key, first_fragment } => {
                let judged = judge(key).map(|()| Passed::Single).map_err(refused);
                self.settle(now, first_fragment.as_ref(), version, judged)
            }
            Inspected::LaterFragment { id, offset } => self.later_fragment(now, id, *offset, version),
            Inspected::IcmpError { key, quoted } => self.error(now, key, quoted, version, &mut judge),
            Inspected::Neighbour => Admission::Passed(Passed::Neighbour),
            Inspected::Unfit(unfit) => Admission::Dropped(Dropped::Unfit(*unfit)),
        }
    }

    /// The flows of all threads.
    #[must_use]
    pub fn table(&self) -> &Arc<FlowTable> {
        &self.table
    }

    #[inline]
    fn flow<R>(
        &self,
        now: Moment,
        key: &FlowKey,
        tcp: Option<TcpFlags>,
        version: u64,
        judge: &mut impl FnMut(&FlowKey) -> Result<(), R>,
    ) -> Judged<R> {
        if tcp.is_some_and(TcpFlags::opens) {
            return self.open(now, key, tcp, version, judge);
        }
        let Some(hit) = self.table.find(key, now) else {
            if let Some(flags) = tcp {
                return self.pick_up(now, key, flags, version, judge);
            }
            judge(key).map_err(refused)?;
            return Ok(Passed::New(self.table.insert(key, now, version, Opening::Opened, None)));
        };
        let passed = self.known(now, &hit, key, version, judge)?;
        self.table.touch(&hit, now, tcp);
        Ok(passed)
    }

    /// Judges a known flow again, if need be.
    #[inline]
    fn known<R>(
        &self,
        now: Moment,
        hit: &Hit,
        key: &FlowKey,
        version: u64,
        judge: &mut impl FnMut(&FlowKey) -> Result<(), R>,
    ) -> Judged<R> {
        // Another thread may have newer policies already; what it has judged is not judged by older ones again.
        if hit.version() >= version && !hit.is_cut() {
            return Ok(Passed::Known);
        }
        self.judge_again(now, hit, key, version, judge)
    }

    #[cold]
    fn judge_again<R>(
        &self,
        now: Moment,
        hit: &Hit,
        key: &FlowKey,
        version: u64,
        judge: &mut impl FnMut(&FlowKey) -> Result<(), R>,
    ) -> Judged<R> {
        if self.on_change == OnChange::Keep {
            self.table.renew(hit, version);
            return Ok(Passed::Kept);
        }
        let original = if hit.original() { *key } else { key.reversed() };
        let judged = match judge(&original) {
            Err(reason) if hit.picked_up() => judge(&original.reversed()).map_err(|_| reason),
            judged => judged,
        };
        match judged {
            Ok(()) => {
                if hit.is_cut() {
                    self.table.cut(hit, now, false);
                }
                self.table.renew(hit, version);
                Ok(Passed::Rejudged)
            }
            Err(reason) => {
                if hit.protocol() == Protocol::TCP {
                    self.table.cut(hit, now, true);
                } else {
                    self.table.remove(hit);
                }
                Err(Admission::Refused { reason, cut: !hit.is_cut() })
            }
        }
    }

    /// A segment that asks for a new connection.
    fn open<R>(
        &self,
        now: Moment,
        key: &FlowKey,
        tcp: Option<TcpFlags>,
        version: u64,
        judge: &mut impl FnMut(&FlowKey) -> Result<(), R>,
    ) -> Judged<R> {
        use super::Phase::{Closed, Closing, Cut};
        judge(key).map_err(refused)?;
        match self.table.find(key, now) {
            // Sent again, or made up: an entry that has come further stays there.
            Some(hit) if hit.original() && !hit.picked_up() && !matches!(hit.phase(), Closed | Closing | Cut) => {
                self.table.renew(&hit, version);
                self.table.touch(&hit, now, tcp);
                Ok(Passed::Rejudged)
            }
            _ => Ok(Passed::New(self.table.insert(key, now, version, Opening::Opened, tcp))),
        }
    }

    /// A segment in mid-stream of a connection that is not known.
    #[cold]
    fn pick_up<R>(
        &self,
        now: Moment,
        key: &FlowKey,
        flags: TcpFlags,
        version: u64,
        judge: &mut impl FnMut(&FlowKey) -> Result<(), R>,
    ) -> Judged<R> {
        let back = key.reversed();
        let source_opened = opener_by_ports(key);
        let (from_opener, opening) = if flags.accepts() {
            judge(&back).map_err(refused)?;
            (false, Opening::Opened)
        } else {
            match (judge(key), judge(&back)) {
                (Ok(()), Ok(())) => match source_opened {
                    Some(opened) => (opened, Opening::Opened),
                    None => (true, Opening::PickedUp),
                },
                // What looks like a server's is no client's, or a flow that policy ends would come back from its other end.
                (Ok(()), Err(_)) if source_opened != Some(false) => (true, Opening::Opened),
                // What looks like a client's is no server's, or pods that may open nothing could still send whatever they like.
                (Err(_), Ok(())) if source_opened != Some(true) => (false, Opening::Opened),
                (Err(reason), _) | (_, Err(reason)) => return Err(refused(reason)),
            }
        };
        let opener = if from_opener { key } else { &back };
        if flags.has(TcpFlags::RST) {
            return Ok(Passed::Single);
        }
        let inserted = self.table.insert(opener, now, version, opening, from_opener.then_some(flags));
        // Its flags are those of a reply.
        if !from_opener && let Some(hit) = self.table.find(key, now) {
            self.table.touch(&hit, now, Some(flags));
        }
        Ok(Passed::New(inserted))
    }

    /// An answer to an ICMP query goes with the query's flow, else it is a message like any other.
    fn answer<R>(
        &self,
        now: Moment,
        key: &FlowKey,
        version: u64,
        judge: &mut impl FnMut(&FlowKey) -> Result<(), R>,
    ) -> Judged<R> {
        let Some(hit) = self.table.find(key, now) else {
            return judge(key).map(|()| Passed::Single).map_err(refused);
        };
        let passed = self.known(now, &hit, key, version, judge)?;
        self.table.touch(&hit, now, None);
        Ok(passed)
    }

    /// An ICMP error goes with the flow it is about, else it is a message like any other. It prolongs nothing.
    fn error<R>(
        &self,
        now: Moment,
        key: &FlowKey,
        quoted: &FlowKey,
        version: u64,
        judge: &mut impl FnMut(&FlowKey) -> Result<(), R>,
    ) -> Admission<R> {
        let hit = self.table.find(quoted, now);
        if hit.is_some_and(|hit| self.known(now, &hit, quoted, version, judge).is_ok()) {
            return Admission::Passed(Passed::Related);
        }
        match judge(key) {
            Ok(()) => Admission::Passed(Passed::Single),
            Err(reason) => refused(reason),
        }
    }

    #[inline]
    fn settle<R>(
        &mut self,
        now: Moment,
        first_fragment: Option<&FirstFragment>,
        version: u64,
        judged: Judged<R>,
    ) -> Admission<R> {
        if let Some(first) = first_fragment {
            match judged {
                Ok(_) => self.fragments.first(first, now, version),
                Err(_) => self.fragments.refuse(&first.id),
            }
        }
        judged.map_or_else(|admission| admission, Admission::Passed)
    }

    #[cold]
    fn later_fragment<R>(&mut self, now: Moment, id: &FragmentId, offset: u16, version: u64) -> Admission<R> {
        match self.fragments.later(id, offset, now) {
            Later::Passed { version: judged } if judged == version || self.on_change == OnChange::Keep => {
                Admission::Passed(Passed::Fragment)
            }
            Later::Passed { .. } | Later::Unknown => Admission::Dropped(Dropped::FragmentUnknown),
            Later::Overlapping => Admission::Dropped(Dropped::FragmentOverlapping),
        }
    }
}

/// Whether the source is likely to be the end that opened a flow, if the ports tell.
fn opener_by_ports(key: &FlowKey) -> Option<bool> {
    /// Linux's lowest port for clients (`ip_local_port_range`).
    const CLIENTS: u16 = 32_768;
    let is_client = |port| port >= CLIENTS;
    let (source, destination) = (is_client(key.source_port), is_client(key.destination_port));
    (source != destination).then_some(source)
}

fn refused<R>(reason: R) -> Admission<R> {
    Admission::Refused { reason, cut: false }
}
