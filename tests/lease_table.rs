//! The lease table beside a linear scan, and under readers and a writer at once.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use felt::lease::LeaseTable;
use felt::net::{Endpoint, Prefix, Prefix4};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Set(Prefix4, Endpoint),
    Remove(Prefix4),
    Look(Vec<Ipv4Addr>),
}

/// Addresses in and around 10.5.0.0/20, often the same ones.
fn address() -> impl Strategy<Value = Ipv4Addr> {
    let near = (0u32..0x3000).prop_map(|offset| Ipv4Addr::from_bits(0x0a04_f000 + offset));
    let few = (0u32..8, 0u32..3).prop_map(|(slice, host)| Ipv4Addr::from_bits(0x0a05_0000 + slice * 64 + host));
    prop_oneof![4 => few, 4 => near, 1 => any::<u32>().prop_map(Ipv4Addr::from_bits)]
}

fn subnet() -> impl Strategy<Value = Prefix4> {
    let len = prop_oneof![6 => Just(26u8), 3 => 18u8..=32, 1 => 0u8..=32];
    (address(), len).prop_map(|(address, len)| Prefix::new(address, len).unwrap())
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    prop_oneof![
        5 => (any::<u32>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::from((Ipv4Addr::from_bits(ip), port))),
        1 => any::<u16>().prop_map(|port| SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (subnet(), endpoint()).prop_map(|(subnet, endpoint)| Step::Set(subnet, endpoint)),
        1 => subnet().prop_map(Step::Remove),
        3 => prop::collection::vec(address(), 1..12).prop_map(Step::Look),
    ]
}

fn scan(entries: &[(Prefix4, Endpoint)], address: Ipv4Addr) -> Option<Endpoint> {
    let holding = entries.iter().filter(|(subnet, _)| subnet.contains(address));
    holding.max_by_key(|(subnet, _)| subnet.len()).map(|(_, endpoint)| *endpoint)
}

/// Plays `steps` on a table and on a list, and compares every answer.
fn play(network: &str, subnet_len: u8, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let table = Arc::new(LeaseTable::new(network.parse().unwrap(), subnet_len));
    let mut reader = table.reader();
    let mut twin: Vec<(Prefix4, Endpoint)> = Vec::new();
    for step in steps {
        match step {
            Step::Set(subnet, endpoint) => {
                let before = twin.iter().position(|(held, _)| *held == subnet).map(|at| twin.swap_remove(at).1);
                twin.push((subnet, endpoint));
                prop_assert_eq!(table.set(subnet, endpoint), before);
            }
            Step::Remove(subnet) => {
                let before = twin.iter().position(|(held, _)| *held == subnet).map(|at| twin.swap_remove(at).1);
                prop_assert_eq!(table.remove(&subnet), before);
            }
            Step::Look(addresses) => {
                let lookup = reader.batch();
                for address in addresses {
                    prop_assert_eq!(lookup.peer_of(address), scan(&twin, address), "{}", address);
                }
            }
        }
        twin.sort_unstable();
        prop_assert_eq!(&table.entries(), &twin);
    }
    Ok(())
}

proptest! {
    #[test]
    fn answers_are_those_of_a_linear_scan(steps in prop::collection::vec(step(), 1..60)) {
        play("10.5.0.0/20", 26, steps)?;
    }

    #[test]
    fn so_they_are_in_networks_of_any_shape(
        steps in prop::collection::vec(step(), 1..30),
        shape in prop::sample::select(vec![
            ("10.5.0.0/26", 26), ("10.5.0.0/24", 32), ("0.0.0.0/0", 26), ("0.0.0.0/0", 0), ("10.4.0.0/15", 12), ("10.5.0.0/16", 18),
            ("255.255.255.0/24", 26), ("0.0.0.0/26", 26),
        ]),
    ) {
        play(shape.0, shape.1, steps)?;
    }
}

#[test]
fn every_answer_was_true_at_some_time_while_a_writer_runs() {
    const SLICES: u32 = 256;
    const ROUNDS: u16 = 400;
    let table = Arc::new(LeaseTable::new("10.5.0.0/16".parse().unwrap(), 24));
    let subnet = |slice: u32| Prefix::new(Ipv4Addr::from_bits(0x0a05_0000 | slice << 8), 24).unwrap();
    // The address names the slice, the port the round, so that a torn or misplaced answer shows. Odd slices come and go.
    let endpoint = |slice: u32, round: u16| SocketAddr::from((Ipv4Addr::from_bits(0xc0a8_0000 | slice), round));
    (0..SLICES).for_each(|slice| _ = table.set(subnet(slice), endpoint(slice, 0)));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (done, mut reader) = (&done, table.reader());
            scope.spawn(move || {
                let mut last = [0u16; SLICES as usize];
                while !done.load(Relaxed) {
                    let lookup = reader.batch();
                    for slice in 0..SLICES {
                        match lookup.peer_of(Ipv4Addr::from_bits(0x0a05_0001 | slice << 8)) {
                            Some(SocketAddr::V4(peer)) => {
                                assert_eq!(peer.ip().to_bits(), 0xc0a8_0000 | slice);
                                assert!(peer.port() >= last[slice as usize], "slice {slice} went back");
                                last[slice as usize] = peer.port();
                            }
                            answer => assert!(slice % 2 == 1 && answer.is_none(), "slice {slice} was never {answer:?}"),
                        }
                    }
                }
            });
        }
        for round in 1..=ROUNDS {
            for slice in 0..SLICES {
                if slice % 2 == 1 {
                    table.remove(&subnet(slice));
                }
                table.set(subnet(slice), endpoint(slice, round));
            }
        }
        done.store(true, Relaxed);
    });
    assert_eq!(table.entries().len(), SLICES as usize);
}

#[test]
fn odd_prefixes_come_and_go_without_disturbing_slices() {
    let table = Arc::new(LeaseTable::new("10.5.0.0/16".parse().unwrap(), 24));
    let [wide, slice, host] = ["192.168.0.1:1", "192.168.0.2:2", "192.168.0.3:3"].map(|text| text.parse::<Endpoint>().unwrap());
    table.set("10.5.0.0/20".parse().unwrap(), wide);
    table.set("10.5.1.0/24".parse().unwrap(), slice);
    table.set("10.5.1.128/25".parse().unwrap(), host);
    let mut reader = table.reader();
    let lookup = reader.batch();
    let asked = [[10, 5, 1, 1], [10, 5, 1, 200], [10, 5, 2, 1], [10, 5, 16, 1], [10, 6, 0, 0]].map(Ipv4Addr::from);
    assert_eq!(asked.map(|address| lookup.peer_of(address)), [Some(slice), Some(host), Some(wide), None, None]);
    table.remove(&"10.5.1.128/25".parse().unwrap());
    table.remove(&"10.5.1.0/24".parse().unwrap());
    assert_eq!(lookup.peer_of(asked[1]), Some(host), "an odd prefix stays until the next batch");
    let lookup = reader.batch();
    assert_eq!(asked.map(|address| lookup.peer_of(address)), [Some(wide), Some(wide), Some(wide), None, None]);
}
