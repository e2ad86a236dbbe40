//! The flow table beside a plain map, under virtual time; many threads on few slots; and floods.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use felt::flow::{FlowTable, Inserted, Opening, Phase, RememberedFlow, Seed, lifetime};
use felt::net::{FlowKey, Moment, Protocol, address_bits};
use felt::wire::inspect::TcpFlags;
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const SEED: Seed = Seed::new([1, 2]);
const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;

fn key(protocol: Protocol, from: u32, to: u32, source_port: u16, destination_port: u16) -> FlowKey {
    let ends = [from, to].map(|address| address_bits(std::net::Ipv4Addr::from_bits(address).into()));
    FlowKey { source: ends[0], destination: ends[1], source_port, destination_port, protocol }
}

fn at(millis: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(millis))
}

/// A flow as the map has it: everything that happened to it.
#[derive(Clone, Debug)]
struct Twin {
    opener: FlowKey,
    opening: Opening,
    packets: Vec<(bool, Option<TcpFlags>)>,
    version: u64,
    seen_millis: u64,
}

impl Twin {
    fn phase(&self) -> Phase {
        let mut packets = self.packets.iter().map(|(original, tcp)| (*original, tcp.unwrap_or(TcpFlags(0))));
        if self.opener.protocol != Protocol::TCP {
            return if packets.any(|(original, _)| !original) { Phase::Answered } else { Phase::Unanswered };
        }
        let closed = |side| packets.clone().any(|(original, tcp)| original == side && tcp.has(TcpFlags::FIN));
        let (opener, answerer) = (closed(true), closed(false));
        if opener && answerer || packets.clone().any(|(_, tcp)| tcp.has(TcpFlags::RST)) {
            return Phase::Closed;
        }
        if opener || answerer {
            return Phase::Closing;
        }
        let replied = packets.by_ref().any(|(original, _)| !original);
        let assured = packets.any(|(original, tcp)| original && tcp.has(ACK) && !tcp.has(SYN));
        if replied && assured { Phase::Established } else { Phase::Opening }
    }

    /// Time is rounded down to an eighth of a second on both ends.
    fn expired(&self, now: u64) -> bool {
        let silent = now / 125 * 125 - self.seen_millis / 125 * 125;
        Duration::from_millis(silent) > lifetime(self.opener.protocol, self.phase())
    }

    fn remembered(&self, now: u64) -> RememberedFlow {
        RememberedFlow {
            key: self.opener,
            picked_up: self.opening == Opening::PickedUp,
            phase: self.phase(),
            silent: Duration::from_millis(now / 125 * 125 - self.seen_millis / 125 * 125),
            version: self.version,
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert { picked_up: bool },
    Packet,
    Renew,
    Remove,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<bool>().prop_map(|picked_up| Step::Insert { picked_up }),
        8 => Just(Step::Packet),
        2 => Just(Step::Renew),
        1 => Just(Step::Remove),
        3 => prop_oneof![0u64..2000, 0u64..200_000, 7_000_000u64..7_400_000].prop_map(Step::Wait),
    ]
}

/// Few flows, so that they meet often.
fn some_key() -> impl Strategy<Value = FlowKey> {
    let protocol = prop::sample::select(vec![Protocol::TCP, Protocol::TCP, Protocol::UDP, Protocol::ICMP, Protocol(47)]);
    let key = (protocol, 0u32..2, 0u32..2, 0u16..2).prop_map(|(protocol, from, to, port)| key(protocol, from, to, port, 1));
    (key, any::<bool>()).prop_map(|(key, back)| if back { key.reversed() } else { key })
}

fn flags() -> impl Strategy<Value = TcpFlags> {
    prop::sample::select(vec![2u8, 0x12, 0x10, 0x10, 0x10, 0x18, 0x11, 0x04, 0]).prop_map(TcpFlags)
}

proptest! {
    #[test]
    fn the_table_is_a_map_that_forgets(steps in prop::collection::vec((step(), some_key(), flags()), 1..120), seed: [u64; 2]) {
        let table = FlowTable::new(1000, Seed::new(seed)).unwrap();
        let mut twins: HashMap<FlowKey, Twin> = HashMap::new();
        let (mut now, mut version) = (0, 0);
        for (step, key, flags) in steps {
            let name = key.min(key.reversed());
            let tcp = (key.protocol == Protocol::TCP).then_some(flags);
            let known = twins.get_mut(&name);
            let live = known.as_ref().is_some_and(|twin| !twin.expired(now));
            let hit = table.find(&key, at(now));
            prop_assert_eq!(hit.is_some(), live);
            if let (Some(hit), Some(twin)) = (&hit, &known) {
                // Of a flow between an end and itself there is one direction only.
                prop_assert!(hit.original() == (twin.opener == key));
                prop_assert_eq!((hit.version(), hit.phase()), (twin.version, twin.phase()));
                prop_assert_eq!(hit.picked_up(), twin.opening == Opening::PickedUp);
            }
            match (step, hit, known) {
                (Step::Insert { picked_up }, _, known) => {
                    version += 1;
                    let opening = if picked_up { Opening::PickedUp } else { Opening::Opened };
                    let inserted = table.insert(&key, at(now), version, opening, tcp);
                    // The slot of one that has expired may have gone to another.
                    prop_assert!(live == (inserted == Inserted::Refreshed) || !live && known.is_some(), "{inserted:?}");
                    twins.insert(name, Twin { opener: key, opening, packets: vec![(true, tcp)], version, seen_millis: now });
                }
                (Step::Packet, Some(hit), Some(twin)) => {
                    twin.packets.push((hit.original(), tcp));
                    twin.seen_millis = now;
                    prop_assert_eq!(table.touch(&hit, at(now), tcp), twin.phase());
                }
                (Step::Renew, Some(hit), Some(twin)) => {
                    version += 1;
                    twin.version = version;
                    prop_assert!(table.renew(&hit, version));
                }
                (Step::Remove, Some(hit), Some(_)) => {
                    prop_assert!(table.remove(&hit) && !table.remove(&hit));
                    twins.remove(&name);
                }
                (Step::Wait(millis), _, _) => now += millis,
                _ => {}
            }
        }
        let mut ours: Vec<_> = table.flows(at(now)).collect();
        let mut theirs: Vec<_> = twins.values().filter(|twin| !twin.expired(now)).map(|twin| twin.remembered(now)).collect();
        ours.sort_by_key(|flow| flow.key);
        theirs.sort_by_key(|flow| flow.key);
        prop_assert_eq!(table.live(at(now)), theirs.len());
        prop_assert_eq!(ours, theirs);
    }
}

const RACED_FLOWS: u64 = 64;

/// Flow number `n`: its opener, whether it is picked up, and its version modulo [`RACED_FLOWS`] all follow from the number.
fn raced(n: u64) -> (FlowKey, Opening) {
    let n32 = u32::try_from(n).unwrap();
    let (from, to) = if n.is_multiple_of(3) { (n32, n32 + 1000) } else { (n32 + 1000, n32) };
    let words = |end: u32| u128::from(end) * 0x0001_0001_0001_0001_0001_0001_0001_0001;
    let port = u16::try_from(n).unwrap();
    let key = FlowKey {
        source: words(from),
        destination: words(to),
        source_port: port,
        destination_port: port,
        protocol: Protocol::TCP,
    };
    (key, if n.is_multiple_of(2) { Opening::PickedUp } else { Opening::Opened })
}

/// Many flows on sixteen slots, threads that fill, empty, renew and touch them all the time: what is found of a flow is that
/// flow's.
#[test]
fn nobody_finds_a_torn_or_mistaken_entry() {
    let table = FlowTable::new(8, SEED).unwrap();
    assert_eq!(table.slots(), 16);
    let (hits, replaced, raced_out) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (table, hits, replaced, raced_out) = (&table, &hits, &replaced, &raced_out);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(thread);
                for round in 0..400_000u64 {
                    let n = random.random_range(0..RACED_FLOWS);
                    let (opener, opening) = raced(n);
                    let key = if random.random() { opener } else { opener.reversed() };
                    let now = at(round / 100);
                    if let Some(hit) = table.find(&key, now) {
                        hits.fetch_add(1, Relaxed);
                        assert_eq!(hit.version() % RACED_FLOWS, n, "another flow's version");
                        assert_eq!(hit.original(), key == opener, "another flow's direction");
                        assert_eq!(hit.picked_up(), opening == Opening::PickedUp, "another flow's state");
                        match random.random_range(0..8) {
                            0 => _ = table.remove(&hit),
                            1 => _ = table.renew(&hit, (round + 1) * RACED_FLOWS + n),
                            _ => _ = table.touch(&hit, now, Some(TcpFlags(0x10))),
                        }
                    } else {
                        match table.insert(&opener, now, round * RACED_FLOWS + n, opening, Some(SYN)) {
                            Inserted::Raced => raced_out.fetch_add(1, Relaxed),
                            _ => replaced.fetch_add(1, Relaxed),
                        };
                    }
                    if round.is_multiple_of(1000) {
                        for flow in table.flows(now) {
                            let n = flow.version % RACED_FLOWS;
                            assert_eq!((flow.key, flow.picked_up), (raced(n).0, raced(n).1 == Opening::PickedUp));
                        }
                    }
                }
            });
        }
    });
    let [hits, replaced, raced_out] = [hits, replaced, raced_out].map(AtomicU64::into_inner);
    assert!(hits > 10_000 && replaced > 10_000, "too little happened: {hits} {replaced} {raced_out}");
    // Whoever was in the middle of something is done: no slot was lost.
    let live = table.live(at(0));
    assert!((12..=16).contains(&live), "{live}");
    for n in 0..RACED_FLOWS {
        assert_ne!(table.insert(&raced(n).0, at(0), n, raced(n).1, None), Inserted::Raced);
    }
}

/// A handshake, seen to its end.
fn establish(table: &FlowTable, key: &FlowKey, now: Moment) {
    table.insert(key, now, 1, Opening::Opened, Some(SYN));
    for (key, flags) in [(key.reversed(), SYN.and(ACK)), (*key, ACK)] {
        table.touch(&table.find(&key, now).unwrap(), now, Some(flags));
    }
    assert_eq!(table.find(key, now).unwrap().phase(), Phase::Established);
}

/// What it is, and its flow number `n`.
type Flood = (&'static str, fn(u32) -> FlowKey);

#[test]
fn a_flood_displaces_its_like_and_nobody_established() {
    // From one source to many ports, from made-up sources, and UDP that nobody answers.
    let floods: [Flood; 3] = [
        ("ports", |n| key(Protocol::TCP, 0x0a00_0001, 0x0a00_0200 + (n >> 16), (n & 0xffff) as u16, 80)),
        ("sources", |n| key(Protocol::TCP, 0x0b00_0000 + n, 0x0a00_0002, 4000, 80)),
        ("UDP", |n| key(Protocol::UDP, 0x0a00_0001, 0x0b00_0000 + n, 4000, 53)),
    ];
    for (name, flow) in floods {
        let table = FlowTable::new(4096, SEED).unwrap();
        let victims: Vec<_> = (0..1000).map(|n| key(Protocol::TCP, 0x0a09_0000 + n, 0x0a00_0002, 5000, 443)).collect();
        for victim in &victims {
            establish(&table, victim, at(0));
        }
        let mut displaced = 0;
        for n in 0..1_000_000 {
            let (flow, now) = (flow(n), at(1000 + u64::from(n) / 100));
            let tcp = (flow.protocol == Protocol::TCP).then_some(SYN);
            displaced += u32::from(table.insert(&flow, now, 1, Opening::Opened, tcp) == Inserted::Displaced);
            // The server answers each with a SYN+ACK, which proves nothing.
            if let (Some(hit), Some(_)) = (table.find(&flow.reversed(), now), tcp) {
                table.touch(&hit, now, Some(SYN.and(ACK)));
            }
        }
        assert!(displaced > 900_000, "{name}: {displaced}");
        let left = victims.iter().filter(|victim| table.find(victim, at(12_000)).is_some()).count();
        assert_eq!(left, victims.len(), "{name}");
        assert_eq!(table.live(at(12_000)), table.slots(), "{name}");
    }
}

#[test]
fn where_all_are_established_the_longest_silent_goes() {
    let table = FlowTable::new(8, SEED).unwrap();
    let flow = |n: u32| key(Protocol::TCP, n, 0x0a00_0002, 5000, 443);
    (0..16).for_each(|n| establish(&table, &flow(n), at(u64::from(n) * 1000)));
    assert_eq!(table.live(at(16_000)), 16);
    assert_eq!(table.insert(&flow(99), at(16_000), 1, Opening::Opened, Some(SYN)), Inserted::Displaced);
    assert!(table.find(&flow(0), at(16_000)).is_none() && table.find(&flow(99), at(16_000)).is_some());
    // The new one is half open, so it is the next to go.
    assert_eq!(table.insert(&flow(98), at(16_001), 1, Opening::Opened, Some(SYN)), Inserted::Displaced);
    assert!(table.find(&flow(99), at(16_001)).is_none() && table.find(&flow(1), at(16_001)).is_some());
    // A closed one goes before it, and an expired one is no loss.
    table.touch(&table.find(&flow(7), at(16_001)).unwrap(), at(16_001), Some(TcpFlags::RST));
    assert_eq!(table.insert(&flow(97), at(16_002), 1, Opening::Opened, Some(SYN)), Inserted::Displaced);
    assert!(table.find(&flow(7), at(16_002)).is_none() && table.find(&flow(98), at(16_002)).is_some());
    assert_eq!(table.insert(&flow(96), at(100_000), 1, Opening::Opened, Some(SYN)), Inserted::Reclaimed);
}

#[test]
fn as_many_flows_as_it_was_made_for_displace_nobody() {
    let table = FlowTable::new(100_000, SEED).unwrap();
    let flow = |n: u32| key(Protocol::TCP, 0x0a00_0000 + n, 0x0a09_0001, 5000, 443);
    assert!((0..100_000).all(|n| table.insert(&flow(n), at(0), 1, Opening::Opened, Some(SYN)) == Inserted::New));
    assert!((0..100_000).all(|n| table.find(&flow(n).reversed(), at(0)).is_some()));
    let live = table.live(at(0));
    assert!((90_000..110_000).contains(&live), "{live}");
}

/// Only Linux tells how much memory is in use.
#[cfg(target_os = "linux")]
#[test]
fn memory_comes_with_use() {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let before = resident();
    let table = FlowTable::new(1 << 22, SEED).unwrap();
    assert_eq!(table.live(at(0)), 0);
    assert!(table.find(&key(Protocol::TCP, 1, 2, 3, 4), at(0)).is_none());
    let used = resident().saturating_sub(before);
    // Of 512 MiB. Other tests run meanwhile, in less than a tenth of that.
    assert!(used < 64 << 20, "{used} bytes");
}
