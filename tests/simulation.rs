//! Whole overlays in memory: nodes with real forwarders over an underlay that loses, repeats and reorders.
//!
//! A failing run prints its seed; `FELT_SEED=<seed>` repeats it.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use felt::daemon::tuning::Sizes;
use felt::daemon::turn::Turn;
use felt::forward::{Counters, DropReason, Forwarder, SourceCheck, Totals, Tunnel};
use felt::net::{Endpoint, Moment};
use felt::port::fault::{Faults, Faulty};
use felt::port::memory::{Socket, Tun, TunHost, Wire, tun};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const SLOTS: usize = 32;

#[expect(clippy::print_stdout, reason = "the harness shows it only when a test fails")]
fn seed() -> u64 {
    let seed = std::env::var("FELT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random);
    println!("FELT_SEED={seed}");
    seed
}

fn endpoint(node: u8) -> Endpoint {
    Endpoint::from(([192, 0, 2, node], 8285))
}

struct Node {
    forwarder: Forwarder,
    host: TunHost,
    tun: Tun,
    socket: Faulty<Socket>,
    turn: Turn,
}

impl Node {
    fn new(number: u8, wire: &Wire, faults: Faults, seed: u64) -> Self {
        let mut forwarder = Forwarder::new(Arc::new(Counters::default()));
        forwarder.adopt(Some(&Tunnel {
            own: format!("10.5.{number}.0/24").parse().unwrap(),
            network: "10.5.0.0/16".parse().unwrap(),
            mtu: 1472,
            endpoint: endpoint(number),
            source_check: SourceCheck::Strict,
        }));
        let (tun, host) = tun();
        Self {
            forwarder,
            host,
            tun,
            socket: Faulty::new(wire.socket(endpoint(number)), faults, seed),
            turn: Turn::new(&Sizes::for_batch(SLOTS)),
        }
    }

    /// One turn of a worker's loop; whether there was anything to do.
    fn turn(&mut self, now: Moment, leases: &HashMap<u8, Endpoint>) -> bool {
        let mut peers = |address: Ipv4Addr| match address.octets() {
            [10, 5, subnet, _] => leases.get(&subnet).copied(),
            _ => None,
        };
        self.turn.run(now, &mut self.forwarder, &mut peers, &mut self.tun, &mut self.socket).unwrap()
    }

    fn totals(&self) -> Totals {
        Totals::of([self.forwarder.counters()])
    }
}

/// Nodes 1 to n; node k leases 10.5.k.0/24 and sits at 192.0.2.k.
struct World {
    nodes: Vec<Node>,
    wire: Wire,
    leases: HashMap<u8, Endpoint>,
    now: Moment,
}

impl World {
    fn new(nodes: u8, path_mtu: u16, faults: Faults, seed: u64) -> Self {
        let wire = Wire::new(usize::from(path_mtu) - 28);
        let node = |number| Node::new(number, &wire, faults, seed.wrapping_add(u64::from(number)));
        let leases = (1..=nodes).map(|number| (number, endpoint(number))).collect();
        Self { nodes: (1..=nodes).map(node).collect(), wire, leases, now: Moment::ZERO }
    }

    /// Lets every node work until nothing moves, then lets late datagrams arrive, until that moves nothing either.
    fn settle(&mut self) {
        loop {
            let mut busy = false;
            for node in &mut self.nodes {
                busy |= node.turn(self.now, &self.leases);
            }
            self.now = self.now + Duration::from_millis(1);
            if !busy {
                for node in &mut self.nodes {
                    node.socket.flush().unwrap();
                }
                let mut late = false;
                for node in &mut self.nodes {
                    late |= node.turn(self.now, &self.leases);
                }
                if !late {
                    return;
                }
            }
        }
    }

    /// A packet from a container of node `from` to one of node `to`, with a number to know it by.
    fn send(&self, from: u8, to: u8, number: u32, len: u16, dont_fragment: bool) {
        let flags = if dont_fragment { 0x40 } else { 0 };
        let mut bytes = vec![0; usize::from(len)];
        bytes[..20].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, flags, 0, 64, 17, 0, 0, 10, 5, from, 2, 10, 5, to, 3]);
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        let (header, _) = etherparse::Ipv4Header::from_slice(&bytes).unwrap();
        bytes[10..12].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
        bytes[20..24].copy_from_slice(&number.to_be_bytes());
        let pattern = number.to_be_bytes()[3];
        bytes[24..].fill(pattern);
        self.nodes[usize::from(from) - 1].host.send(&bytes);
    }

    /// What arrived at each node's host: numbers by sender, in order, each checked to be whole.
    fn arrivals(&self) -> BTreeMap<(u8, u8), Vec<u32>> {
        let mut arrivals = BTreeMap::<_, Vec<u32>>::new();
        for (node, to) in self.nodes.iter().zip(1u8..) {
            while let Some((bytes, _)) = node.host.recv() {
                let (header, payload) = etherparse::Ipv4Header::from_slice(&bytes).unwrap();
                assert_eq!(header.header_checksum, header.calc_header_checksum());
                assert_eq!((header.time_to_live, header.destination), (62, [10, 5, to, 3]));
                let number = u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]]);
                assert!(payload[4..].iter().all(|byte| *byte == payload[3]), "packet {number} was damaged");
                arrivals.entry((header.source[2], to)).or_default().push(number);
            }
        }
        arrivals
    }

    /// Random traffic between all nodes; what was sent by (from, to).
    fn traffic(&mut self, packets: u32, random: &mut StdRng) -> BTreeMap<(u8, u8), Vec<u32>> {
        let nodes = u8::try_from(self.nodes.len()).unwrap();
        let mut sent = BTreeMap::<_, Vec<u32>>::new();
        for number in 0..packets {
            let from = random.random_range(1..=nodes);
            let to = (from + random.random_range(1..nodes) - 1) % nodes + 1;
            self.send(from, to, number, random.random_range(24..=1472), random.random());
            sent.entry((from, to)).or_default().push(number);
            if random.random_ratio(1, 50) {
                self.settle();
            }
        }
        self.settle();
        sent
    }
}

#[test]
fn on_a_good_underlay_everything_arrives_once_and_in_order() {
    let seed = seed();
    let mut world = World::new(5, 1500, Faults::default(), seed);
    let sent = world.traffic(4000, &mut StdRng::seed_from_u64(seed));
    assert_eq!(world.arrivals(), sent);
    let totals = Totals::of(world.nodes.iter().map(|node| node.forwarder.counters()));
    assert_eq!((totals.egress_packets, totals.ingress_packets, totals.icmp_sent), (4000, 4000, 0));
    assert_eq!(totals.egress_bytes, totals.ingress_bytes);
    assert!(totals.drops().all(|(_, count)| count == 0));
}

#[test]
fn on_a_bad_underlay_nothing_is_invented_damaged_or_misdelivered() {
    let seed = seed();
    let mut world = World::new(5, 1500, Faults { loss: 0.1, duplicate: 0.1, reorder: 0.2 }, seed);
    let sent = world.traffic(4000, &mut StdRng::seed_from_u64(seed));
    let mut arrived = 0;
    for (flow, numbers) in world.arrivals() {
        assert!(numbers.iter().all(|number| sent[&flow].binary_search(number).is_ok()), "{flow:?}");
        arrived += numbers.len() as u64;
    }
    let totals = Totals::of(world.nodes.iter().map(|node| node.forwarder.counters()));
    assert_eq!((totals.egress_packets, totals.ingress_packets), (4000, arrived));
    assert!((3000..4400).contains(&arrived), "{arrived}");
    assert!(totals.drops().all(|(_, count)| count == 0));
}

#[test]
fn a_peer_that_moves_is_reached_and_believed_at_its_new_address() {
    let mut world = World::new(3, 1500, Faults::default(), seed());
    let new_home = endpoint(77);
    world.nodes[1].socket = Faulty::new(world.wire.socket(new_home), Faults::default(), 0);
    // Node 2 sends from its new address before the others know of it.
    world.send(2, 1, 1, 100, false);
    world.settle();
    assert!(world.arrivals().is_empty());
    assert_eq!(world.nodes[0].totals().dropped(DropReason::SourceNotOfPeer), 1);

    world.leases.insert(2, new_home);
    world.send(2, 1, 2, 100, false);
    world.send(1, 2, 3, 100, false);
    world.settle();
    assert_eq!(world.arrivals(), BTreeMap::from([((1, 2), vec![3]), ((2, 1), vec![2])]));
}

#[test]
fn an_intruder_gets_nothing_in() {
    let mut world = World::new(2, 1500, Faults::default(), seed());
    // Node 3 runs the same software, with a lease that the others know nothing of.
    world.nodes.push(Node::new(3, &world.wire, Faults::default(), 0));
    for (number, (from, to)) in [(3, 1), (3, 2), (3, 1)].into_iter().enumerate() {
        world.send(from, to, u32::try_from(number).unwrap(), 100, false);
    }
    world.settle();
    assert!(world.arrivals().is_empty());
    assert_eq!(world.nodes[0].totals().dropped(DropReason::SourceUnleased), 2);
    assert_eq!(world.nodes[1].totals().dropped(DropReason::SourceUnleased), 1);
}

#[test]
fn a_sender_learns_the_path_mtu_and_comes_through() {
    let mut world = World::new(2, 1400, Faults::default(), seed());
    world.send(1, 2, 1, 1472, true);
    world.settle();
    let (answer, _) = world.nodes[0].host.recv().unwrap();
    assert_eq!((answer[20], answer[21]), (3, 4));
    let mtu = u16::from_be_bytes([answer[26], answer[27]]);
    assert_eq!(mtu, 1372);
    world.send(1, 2, 2, mtu, true);
    world.settle();
    assert_eq!(world.arrivals(), BTreeMap::from([((1, 2), vec![2])]));
    let totals = world.nodes[0].totals();
    assert_eq!((totals.dropped(DropReason::TooBig), totals.icmp_sent, totals.egress_packets), (1, 1, 1));
}
