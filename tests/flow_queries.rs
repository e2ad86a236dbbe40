//! ICMP queries and their answers, as packets of both families: an answer comes back, a query from the other end does not.

use std::sync::Arc;

use felt::flow::{Admission, FlowTable, Inserted, OnChange, Passed, Seed, Tracker};
use felt::net::{FlowKey, Moment, address_bits};
use felt::wire::inspect::{Inspected, inspect};

const KNOWN: Admission<&str> = Admission::Passed(Passed::Known);
const NEW: Admission<&str> = Admission::Passed(Passed::New(Inserted::New));
const SINGLE: Admission<&str> = Admission::Passed(Passed::Single);
const REFUSED: Admission<&str> = Admission::Refused { reason: "refused", cut: false };

/// Identifiers whose halves and lowest bits differ, and those that look like types and ports of the tests.
const IDENTIFIERS: [u16; 10] = [0, 1, 8, 13, 0x7fff, 0x8000, 0x8001, 0x8008, 0xfffe, 0xffff];

/// Queries and their answers, by type.
const V4: [(u8, u8); 3] = [(8, 0), (13, 14), (42, 43)];
const V6: [(u8, u8); 2] = [(128, 129), (160, 161)];

/// What policy lets open flows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allowed {
    /// The near end alone.
    Near,
    /// Both ends.
    Both,
}

/// An ICMP message between the near end and the far one, inspected.
fn message(v6: bool, out: bool, kind: u8, identifier: u16) -> Inspected {
    let [high, low] = identifier.to_be_bytes();
    let icmp = [kind, 0, 0, 0, high, low, 0, 1];
    let mut packet = Vec::new();
    if v6 {
        let (near, far) = ([0xfd; 16], [0xfe; 16]);
        let (from, to) = if out { (near, far) } else { (far, near) };
        packet.extend([0x60, 0, 0, 0, 0, 8, 58, 64]);
        packet.extend(from);
        packet.extend(to);
    } else {
        let (near, far) = ([10, 5, 16, 2], [10, 5, 20, 3]);
        let (from, to) = if out { (near, far) } else { (far, near) };
        packet.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0]);
        packet.extend(from);
        packet.extend(to);
    }
    packet.extend(icmp);
    inspect(&packet)
}

/// A thread with nothing in its table.
fn tracker() -> Tracker {
    Tracker::new(Arc::new(FlowTable::new(1000, Seed::new([1, 2])).unwrap()), OnChange::Strict)
}

fn admit(tracker: &mut Tracker, allowed: Allowed, inspected: &Inspected) -> Admission<&'static str> {
    let near =
        |key: &FlowKey| [[0xfd; 16].into(), std::net::IpAddr::from([10, 5, 16, 2])].map(address_bits).contains(&key.source);
    tracker.admit(Moment::ZERO, inspected, 1, |key| (allowed == Allowed::Both || near(key)).then_some(()).ok_or("refused"))
}

/// Every kind of query: its family, type and answer.
fn kinds() -> impl Iterator<Item = (bool, u8, u8)> {
    V4.map(|(query, answer)| (false, query, answer)).into_iter().chain(V6.map(|(query, answer)| (true, query, answer)))
}

#[test]
fn an_answer_follows_its_query_and_a_query_from_the_other_end_does_not() {
    for (v6, query, answer) in kinds() {
        for identifier in IDENTIFIERS {
            let mut tracker = tracker();
            let mut admit = |out, kind| admit(&mut tracker, Allowed::Near, &message(v6, out, kind, identifier));
            let what = format!("type {query}, identifier {identifier:#x}");
            assert_eq!(admit(false, answer), REFUSED, "{what}: an answer to nothing");
            assert_eq!([admit(true, query), admit(false, answer), admit(true, query)], [NEW, KNOWN, KNOWN], "{what}");
            assert_eq!(admit(false, query), REFUSED, "{what}: with the same identifier");
            for (other, its_answer) in if v6 { &V6[..] } else { &V4 } {
                assert_eq!(admit(false, *other), REFUSED, "{what}: query {other}");
                assert_eq!(admit(false, *its_answer) == KNOWN, *its_answer == answer, "{what}: answer {its_answer}");
            }
            assert_eq!([admit(true, query), admit(false, answer)], [KNOWN; 2], "{what}: as if nothing had been");
        }
    }
}

#[test]
fn an_answer_opens_nothing() {
    for (v6, query, answer) in kinds() {
        let mut tracker = tracker();
        assert_eq!(admit(&mut tracker, Allowed::Near, &message(v6, true, answer, 7)), SINGLE, "may be sent");
        assert_eq!(tracker.table().flows(Moment::ZERO).count(), 0);
        assert_eq!(admit(&mut tracker, Allowed::Near, &message(v6, false, query, 7)), REFUSED, "type {query}");
    }
}

#[test]
fn both_ends_may_ask_with_one_identifier() {
    for (v6, query, answer) in kinds() {
        for identifier in IDENTIFIERS {
            let mut tracker = tracker();
            let mut admit = |out, kind| admit(&mut tracker, Allowed::Both, &message(v6, out, kind, identifier));
            assert_eq!([admit(true, query), admit(false, query)], [NEW; 2], "two flows");
            assert_eq!([admit(true, answer), admit(false, answer)], [KNOWN; 2]);
        }
    }
}
