//! What becomes of packets, by table: restarts, policy changes, stray replies, errors, fragments, floods. Virtual time.

use std::sync::Arc;
use std::time::Duration;

use felt::flow::{Admission, Dropped, FlowTable, Inserted, OnChange, Passed, Phase, Seed, Tracker};
use felt::net::{FlowKey, Moment, Protocol};
use felt::wire::inspect::{FirstFragment, FragmentId, Inspected, TcpFlags, Unfit};

const CLIENT: u128 = 0xffff_0a05_1002;
const SERVER: u128 = 0xffff_0a05_1403;
const ROUTER: u128 = 0xffff_0a05_0001;

const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;
const SYN_ACK: TcpFlags = SYN.and(ACK);
const FIN_ACK: TcpFlags = TcpFlags::FIN.and(ACK);
const RST: TcpFlags = TcpFlags::RST;

const KNOWN: Admission<&str> = Admission::Passed(Passed::Known);
const NEW: Admission<&str> = Admission::Passed(Passed::New(Inserted::New));
const SINGLE: Admission<&str> = Admission::Passed(Passed::Single);
const REJUDGED: Admission<&str> = Admission::Passed(Passed::Rejudged);
const REFUSED: Admission<&str> = Admission::Refused { reason: "refused", cut: false };
const CUT: Admission<&str> = Admission::Refused { reason: "refused", cut: true };
const UNKNOWN_FRAGMENT: Admission<&str> = Admission::Dropped(Dropped::FragmentUnknown);

/// One thread of one node, a policy that allows flows from the first to the second of each pair, and a clock.
struct Node {
    tracker: Tracker,
    allowed: Vec<(u128, u128)>,
    version: u64,
    seconds: u64,
    asked: usize,
}

impl Node {
    fn new(on_change: OnChange, allowed: &[(u128, u128)]) -> Self {
        let table = Arc::new(FlowTable::new(1000, Seed::new([1, 2])).unwrap());
        Self { tracker: Tracker::new(table, on_change), allowed: allowed.to_vec(), version: 1, seconds: 0, asked: 0 }
    }

    /// Clients may open connections to the server; the server may not to anybody.
    fn served(on_change: OnChange) -> Self {
        Self::new(on_change, &[(CLIENT, SERVER)])
    }

    /// The same, where a connection is up.
    fn connected(on_change: OnChange) -> Self {
        let mut node = Self::served(on_change);
        assert_eq!([node.tcp(true, SYN), node.tcp(false, SYN_ACK), node.tcp(true, ACK)], [NEW, KNOWN, KNOWN]);
        node
    }

    fn now(&self) -> Moment {
        Moment::from_origin(Duration::from_secs(self.seconds))
    }

    fn change(&mut self, allowed: &[(u128, u128)]) {
        (self.allowed, self.version) = (allowed.to_vec(), self.version + 1);
    }

    fn restart(&mut self) {
        let table = Arc::new(FlowTable::new(1000, Seed::new([3, 4])).unwrap());
        self.tracker = Tracker::new(table, OnChange::Strict);
    }

    fn admit(&mut self, inspected: &Inspected) -> Admission<&'static str> {
        let (now, allowed, asked) = (self.now(), &self.allowed, &mut self.asked);
        self.tracker.admit(now, inspected, self.version, |key| {
            *asked += 1;
            allowed.contains(&(key.source, key.destination)).then_some(()).ok_or("refused")
        })
    }

    fn packet(&mut self, out: bool, protocol: Protocol, tcp: Option<TcpFlags>) -> Admission<&'static str> {
        self.admit(&Inspected::Flow { key: key(out, protocol), tcp, first_fragment: None })
    }

    fn tcp(&mut self, out: bool, flags: TcpFlags) -> Admission<&'static str> {
        self.packet(out, Protocol::TCP, Some(flags))
    }

    fn udp(&mut self, out: bool) -> Admission<&'static str> {
        self.packet(out, Protocol::UDP, None)
    }

    fn phase(&self, protocol: Protocol) -> Option<Phase> {
        self.tracker.table().find(&key(true, protocol), self.now()).map(|hit| hit.phase())
    }
}

/// The flow of the tests, from the client to the server or back.
fn key(out: bool, protocol: Protocol) -> FlowKey {
    let key = FlowKey { source: CLIENT, destination: SERVER, source_port: 40_000, destination_port: 80, protocol };
    if out { key } else { key.reversed() }
}

/// R52: the table is empty, as after a restart, and these are the first packets that come.
#[test]
fn a_stray_packet_opens_nothing_that_policy_refuses() {
    let kinds = [Some(SYN), Some(SYN_ACK), Some(ACK), Some(FIN_ACK), Some(RST), None];
    let both = [(CLIENT, SERVER), (SERVER, CLIENT)];
    for (name, allowed, out, expected) in [
        ("the opener's", &both[..1], true, [NEW, REFUSED, NEW, NEW, SINGLE, NEW]),
        ("the answerer's", &both[..1], false, [REFUSED, NEW, NEW, NEW, SINGLE, REFUSED]),
        ("a stranger's", &[][..], true, [REFUSED; 6]),
        ("what a client sends is no reply:", &both[1..], true, [REFUSED, NEW, REFUSED, REFUSED, REFUSED, REFUSED]),
        ("what a server sends opens nothing:", &both[1..], false, [NEW, REFUSED, REFUSED, REFUSED, REFUSED, NEW]),
        ("anybody's", &both[..], true, [NEW, NEW, NEW, NEW, SINGLE, NEW]),
    ] {
        for (kind, expected) in kinds.into_iter().zip(expected) {
            let mut node = Node::new(OnChange::Strict, allowed);
            let protocol = if kind.is_some() { Protocol::TCP } else { Protocol::UDP };
            assert_eq!(node.packet(out, protocol, kind), expected, "{name} {kind:?}");
            let remembered: Vec<_> = node.tracker.table().flows(node.now()).collect();
            assert_eq!(remembered.len(), usize::from(expected == NEW), "{name} {kind:?}");
            for flow in remembered {
                assert!(!flow.picked_up, "{name} {kind:?}: policy or the ports tell who opened it");
                assert!(allowed.contains(&(flow.key.source, flow.key.destination)), "{name} {kind:?}");
            }
            // Whatever was remembered: the server opens no connection to the client that policy refuses.
            let refused = !allowed.contains(&(SERVER, CLIENT));
            assert_eq!(node.tcp(false, SYN) == REFUSED, refused, "{name} {kind:?}");
        }
    }
}

#[test]
fn a_restart_cuts_no_connection_whoever_speaks_first() {
    for server_first in [false, true] {
        let mut node = Node::connected(OnChange::Strict);
        node.restart();
        assert_eq!(node.tcp(!server_first, ACK), NEW);
        assert_eq!([node.tcp(true, ACK), node.tcp(false, ACK), node.tcp(true, ACK)], [KNOWN; 3]);
        assert_eq!(node.phase(Protocol::TCP), Some(Phase::Established));
    }
}

#[test]
fn policy_is_asked_once_about_a_flow() {
    let mut node = Node::connected(OnChange::Strict);
    (0..100).for_each(|n| assert_eq!(node.tcp(n % 2 == 0, ACK), KNOWN));
    assert_eq!(node.asked, 1);
    // A repeated SYN is always judged, and takes nothing back.
    assert_eq!((node.tcp(true, SYN), node.asked, node.phase(Protocol::TCP)), (REJUDGED, 2, Some(Phase::Established)));
    // The opener's port may be used again at once when the flow is closed.
    assert_eq!([node.tcp(true, FIN_ACK), node.tcp(false, FIN_ACK)], [KNOWN; 2]);
    assert_eq!(node.phase(Protocol::TCP), Some(Phase::Closed));
    assert_eq!(node.tcp(true, SYN), Admission::Passed(Passed::New(Inserted::Refreshed)));
    assert_eq!(node.phase(Protocol::TCP), Some(Phase::Opening));
}

/// R51: strict.
#[test]
fn a_flow_ends_with_the_policy_that_allowed_it_and_only_then() {
    for out in [true, false] {
        let mut node = Node::connected(OnChange::Strict);
        node.change(&[(CLIENT, SERVER), (ROUTER, SERVER)]);
        assert_eq!([node.tcp(out, ACK), node.tcp(!out, ACK)], [REJUDGED, KNOWN], "an unrelated policy");
        node.change(&[]);
        assert_eq!([node.tcp(out, ACK), node.tcp(!out, ACK), node.tcp(out, ACK)], [CUT, REFUSED, REFUSED], "default deny");
        assert_eq!(node.phase(Protocol::TCP), Some(Phase::Cut));
        node.change(&[(CLIENT, SERVER)]);
        assert_eq!([node.tcp(out, ACK), node.tcp(!out, ACK)], [REJUDGED, KNOWN], "allowed again");
        assert_eq!(node.phase(Protocol::TCP), Some(Phase::Established));
    }
    // What is allowed the other way round only is another flow: this one does not come back as that.
    let mut node = Node::connected(OnChange::Strict);
    node.change(&[(SERVER, CLIENT)]);
    assert_eq!(node.tcp(false, ACK), CUT);
    for hour in 1..9 {
        node.seconds = hour * 3600;
        assert_eq!([node.tcp(true, ACK), node.tcp(false, ACK), node.tcp(true, FIN_ACK)], [REFUSED; 3]);
    }
    assert_eq!(node.tcp(false, SYN), Admission::Passed(Passed::New(Inserted::Refreshed)));
    let mut node = Node::served(OnChange::Strict);
    assert_eq!([node.udp(true), node.udp(false)], [NEW, KNOWN]);
    node.change(&[(SERVER, CLIENT)]);
    assert_eq!([node.udp(false), node.udp(true)], [CUT, REFUSED]);
}

#[test]
fn a_picked_up_flow_is_judged_as_its_ports_suggest() {
    // Both ways are allowed; of the server's port 80 and the client's 40,000 it is plain which is which.
    for out in [true, false] {
        let mut node = Node::new(OnChange::Strict, &[(CLIENT, SERVER), (SERVER, CLIENT)]);
        assert_eq!(node.tcp(out, ACK), NEW);
        node.change(&[(CLIENT, SERVER)]);
        assert_eq!([node.tcp(false, ACK), node.tcp(true, ACK)], [REJUDGED, KNOWN]);
        node.change(&[(SERVER, CLIENT)]);
        assert_eq!([node.tcp(true, ACK), node.tcp(false, ACK)], [CUT, REFUSED]);
    }
}

#[test]
fn a_flow_whose_opener_nothing_tells_is_judged_both_ways() {
    let between = |out| Inspected::Flow {
        key: FlowKey { source_port: 40_000, destination_port: 50_000, ..key(out, Protocol::TCP) },
        tcp: Some(ACK),
        first_fragment: None,
    };
    // From either end, whatever the other one's port: the same flow.
    let back = match between(true) {
        Inspected::Flow { key, tcp, first_fragment } => Inspected::Flow { key: key.reversed(), tcp, first_fragment },
        other => other,
    };
    let mut node = Node::new(OnChange::Strict, &[(CLIENT, SERVER), (SERVER, CLIENT)]);
    assert_eq!(node.admit(&back), NEW);
    assert!(node.tracker.table().flows(node.now()).all(|flow| flow.picked_up));
    node.change(&[(CLIENT, SERVER)]);
    assert_eq!([node.admit(&back), node.admit(&between(true))], [REJUDGED, KNOWN]);
    node.change(&[]);
    assert_eq!([node.admit(&between(true)), node.admit(&back)], [CUT, REFUSED]);
}

/// R51: lenient.
#[test]
fn flows_that_are_kept_end_by_themselves() {
    let mut node = Node::connected(OnChange::Keep);
    node.change(&[]);
    assert_eq!([node.tcp(true, ACK), node.tcp(false, ACK)], [Admission::Passed(Passed::Kept), KNOWN]);
    assert_eq!(node.asked, 1);
    assert_eq!(node.tcp(true, SYN), REFUSED, "a new connection is new");
    node.seconds = 7201;
    assert_eq!(node.tcp(true, ACK), REFUSED);
}

#[test]
fn older_policies_do_not_judge_what_newer_ones_have_judged() {
    let mut node = Node::connected(OnChange::Strict);
    (node.version, node.allowed) = (0, Vec::new());
    assert_eq!(node.tcp(false, ACK), KNOWN);
}

#[test]
fn a_late_answer_is_no_answer() {
    let mut node = Node::served(OnChange::Strict);
    assert_eq!(node.udp(true), NEW);
    node.seconds = 30;
    assert_eq!(node.udp(false), KNOWN);
    node.seconds = 30 + 180;
    assert_eq!(node.udp(false), KNOWN, "answered: at least two minutes");
    node.seconds = 30 + 180 + 181;
    assert_eq!(node.udp(false), REFUSED);
    assert_eq!([node.udp(true), node.udp(false)], [Admission::Passed(Passed::New(Inserted::Refreshed)), KNOWN]);
    // Not answered in time.
    let mut node = Node::served(OnChange::Strict);
    assert_eq!(node.udp(true), NEW);
    node.seconds = 31;
    assert_eq!(node.udp(false), REFUSED);
}

#[test]
fn echo_is_a_flow_and_other_messages_are_not() {
    let mut node = Node::served(OnChange::Strict);
    let echo = |out, id| Inspected::Flow {
        key: FlowKey { source_port: id, destination_port: id, ..key(out, Protocol::ICMP) },
        tcp: None,
        first_fragment: None,
    };
    assert_eq!([node.admit(&echo(false, 0)), node.admit(&echo(true, 0)), node.admit(&echo(false, 0))], [REFUSED, NEW, KNOWN]);
    assert_eq!(node.admit(&echo(false, 1)), REFUSED);
    // A redirect is no reply to an echo, not even to one without an identifier.
    let message = |out| Inspected::Message {
        key: FlowKey { source_port: 0, destination_port: 0, ..key(out, Protocol::ICMP) },
        first_fragment: None,
    };
    assert_eq!([node.admit(&message(false)), node.admit(&message(true)), node.admit(&message(true))], [REFUSED, SINGLE, SINGLE]);
    assert_eq!(node.admit(&Inspected::Neighbour), Admission::Passed(Passed::Neighbour));
    let tiny = Unfit::TinyFragment;
    assert_eq!(node.admit(&Inspected::Unfit(tiny)), Admission::Dropped(Dropped::Unfit(tiny)));
}

/// R62: an error from anywhere goes with the flow it is about, as long as the flow is allowed.
#[test]
fn errors_go_with_their_flow() {
    let related = Admission::Passed(Passed::Related);
    let error = |about: FlowKey| {
        let key =
            FlowKey { source: ROUTER, destination: about.source, source_port: 0, destination_port: 0, protocol: Protocol::ICMP };
        Inspected::IcmpError { key, quoted: about }
    };
    let mut node = Node::connected(OnChange::Strict);
    for out in [true, false] {
        assert_eq!(node.admit(&error(key(out, Protocol::TCP))), related, "{out}");
        assert_eq!(node.admit(&error(key(out, Protocol::UDP))), REFUSED, "{out}");
    }
    node.change(&[(CLIENT, SERVER), (ROUTER, CLIENT)]);
    assert_eq!(node.admit(&error(key(true, Protocol::TCP))), related);
    assert_eq!(node.admit(&error(key(true, Protocol::UDP))), SINGLE, "judged for itself");
    assert_eq!(node.tcp(true, ACK), KNOWN, "judged again with the error");
    node.change(&[]);
    assert_eq!(node.admit(&error(key(false, Protocol::TCP))), REFUSED);
    assert_eq!(node.tcp(true, ACK), REFUSED);
    // Errors prolong nothing.
    let mut node = Node::served(OnChange::Strict);
    assert_eq!(node.udp(true), NEW);
    node.seconds = 20;
    assert_eq!(node.admit(&error(key(true, Protocol::UDP))), related);
    node.seconds = 31;
    assert_eq!(node.admit(&error(key(true, Protocol::UDP))), REFUSED);
}

const fn datagram(out: bool, id: u32) -> FragmentId {
    let (source, destination) = if out { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    FragmentId { source, destination, protocol: Protocol::UDP, id }
}

fn first(out: bool, id: u32) -> Inspected {
    let first_fragment = Some(FirstFragment { id: datagram(out, id), bytes: 1480 });
    Inspected::Flow { key: key(out, Protocol::UDP), tcp: None, first_fragment }
}

fn later(out: bool, id: u32, offset: u16) -> Inspected {
    Inspected::LaterFragment { id: datagram(out, id), offset }
}

#[test]
fn fragments_share_the_fate_of_their_first() {
    let passed = Admission::Passed(Passed::Fragment);
    let mut node = Node::served(OnChange::Strict);
    assert_eq!(node.admit(&later(true, 1, 1480)), UNKNOWN_FRAGMENT, "before its first");
    assert_eq!(
        [node.admit(&first(true, 1)), node.admit(&later(true, 1, 1480)), node.admit(&later(true, 1, 2960))],
        [NEW, passed, passed]
    );
    assert_eq!(
        [node.admit(&later(true, 2, 1480)), node.admit(&later(false, 1, 1480))],
        [UNKNOWN_FRAGMENT; 2],
        "on the address alone"
    );
    // The answer's too: its first is of a known flow.
    assert_eq!([node.admit(&first(false, 9)), node.admit(&later(false, 9, 1480))], [KNOWN, passed]);
    node.seconds = 31;
    assert_eq!(node.admit(&later(true, 1, 1480)), UNKNOWN_FRAGMENT);
    // A first that is refused takes back what an earlier one with its number allowed.
    assert_eq!([node.admit(&first(true, 3)), node.admit(&later(true, 3, 1480))], [KNOWN, passed]);
    let other = FlowKey { source: SERVER, ..key(true, Protocol::UDP) };
    let first_fragment = Some(FirstFragment { id: datagram(true, 3), bytes: 1480 });
    assert_eq!(node.admit(&Inspected::Flow { key: other, tcp: None, first_fragment }), REFUSED);
    assert_eq!(node.admit(&later(true, 3, 1480)), UNKNOWN_FRAGMENT);
}

#[test]
fn fragments_that_overlap_their_first_are_named() {
    let mut node = Node::served(OnChange::Strict);
    assert_eq!(node.admit(&first(true, 1)), NEW);
    assert_eq!(node.admit(&later(true, 1, 8)), Admission::Dropped(Dropped::FragmentOverlapping));
    assert_eq!(node.admit(&later(true, 1, 1480)), UNKNOWN_FRAGMENT, "and end the datagram");
}

#[test]
fn fragments_follow_the_policy_in_force() {
    for (on_change, expected) in [(OnChange::Strict, UNKNOWN_FRAGMENT), (OnChange::Keep, Admission::Passed(Passed::Fragment))] {
        let mut node = Node::served(on_change);
        assert_eq!(node.admit(&first(true, 1)), NEW);
        node.change(&[]);
        assert_eq!(node.admit(&later(true, 1, 1480)), expected, "{on_change:?}");
    }
}

#[test]
fn one_threads_flow_is_every_threads() {
    let mut node = Node::connected(OnChange::Strict);
    let mut inward = Tracker::new(Arc::clone(node.tracker.table()), OnChange::Strict);
    let reply = Inspected::Flow { key: key(false, Protocol::TCP), tcp: Some(ACK), first_fragment: None };
    let now = node.now();
    assert_eq!(inward.admit(now, &reply, 1, |_| Err("asked")), Admission::Passed(Passed::Known));
    // Newer policy comes to one thread first, and what it ends is ended for all.
    assert_eq!(inward.admit(now, &reply, 2, |_| Err("refused")), CUT);
    assert_eq!(node.tcp(true, ACK), REJUDGED, "by its older policy, for the last time");
    assert_eq!(inward.admit(now, &reply, 2, |_| Err("refused")), CUT);
}

#[test]
fn a_million_connections_of_one_source_leave_anothers_in_place() {
    let mut node = Node::connected(OnChange::Strict);
    let flood = |n: u32| FlowKey {
        source: ROUTER,
        source_port: (n & 0xffff) as u16,
        destination_port: (n >> 16) as u16,
        ..key(true, Protocol::TCP)
    };
    node.allowed.push((ROUTER, SERVER));
    let mut displaced = 0;
    for n in 0..1_000_000 {
        let opened = node.admit(&Inspected::Flow { key: flood(n), tcp: Some(SYN), first_fragment: None });
        displaced += u32::from(opened == Admission::Passed(Passed::New(Inserted::Displaced)));
        assert!(matches!(opened, Admission::Passed(Passed::New(_))));
    }
    assert!(displaced > 990_000, "{displaced}");
    let asked = node.asked;
    assert_eq!([node.tcp(false, ACK), node.tcp(true, ACK)], [KNOWN; 2]);
    assert_eq!((node.asked, node.phase(Protocol::TCP)), (asked, Some(Phase::Established)));
}
