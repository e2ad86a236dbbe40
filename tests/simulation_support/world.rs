//! Nodes with real forwarders and turns, and an underlay between them, all in memory.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use felt::buf::TrainLimit;
use felt::daemon::tuning::Sizes;
use felt::daemon::turn::Turn;
use felt::forward::{Counters, Forwarder, SourceCheck, Totals, Tunnel};
use felt::net::{Endpoint, Moment};
use felt::port::fault::{Faults, Faulty};
use felt::port::memory::{Socket, Tun, TunHost, Wire, tun};
use rand::RngExt as _;
use rand::rngs::StdRng;

/// What the nodes' ports can do, and how much they move at once.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// Super-packets to the host, and trains of datagrams; one by one without.
    pub trains: Option<TrainLimit>,
    pub sizes: Sizes,
}

impl Ports {
    /// Packet by packet.
    pub fn plain() -> Self {
        Self { trains: None, sizes: Sizes::for_batch(32) }
    }

    /// With all offloads.
    pub fn offloaded() -> Self {
        Self { trains: Some(TrainLimit { datagrams: 128, bytes: 65_507 }), ..Self::plain() }
    }
}

#[expect(clippy::print_stdout, reason = "the harness shows it only when a test fails")]
pub fn seed() -> u64 {
    let seed = std::env::var("FELT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random);
    println!("FELT_SEED={seed}");
    seed
}

pub fn endpoint(node: u8) -> Endpoint {
    Endpoint::from(([192, 0, 2, node], 8285))
}

pub struct Node {
    pub forwarder: Forwarder,
    pub host: TunHost,
    pub socket: Faulty<Socket>,
    tun: Tun,
    turn: Turn,
}

impl Node {
    pub fn new(number: u8, wire: &Wire, ports: Ports, faults: Faults, seed: u64) -> Self {
        let mut forwarder = Forwarder::new(Arc::new(Counters::default()));
        forwarder.adopt(Some(&Tunnel {
            own: format!("10.5.{number}.0/24").parse().unwrap(),
            network: "10.5.0.0/16".parse().unwrap(),
            mtu: 1472,
            endpoint: endpoint(number),
            source_check: SourceCheck::Strict,
        }));
        let (tun, host) = tun();
        let tun = if ports.trains.is_some() { tun } else { tun.without_supers() };
        Self {
            forwarder,
            host,
            tun,
            socket: Faulty::new(wire.socket(endpoint(number)), faults, seed),
            turn: Turn::new(&ports.sizes),
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

    pub fn totals(&self) -> Totals {
        Totals::of([self.forwarder.counters()])
    }
}

/// Nodes 1 to n; node k leases 10.5.k.0/24 and sits at 192.0.2.k.
pub struct World {
    pub nodes: Vec<Node>,
    pub wire: Wire,
    pub leases: HashMap<u8, Endpoint>,
    now: Moment,
}

impl World {
    pub fn new(nodes: u8, path_mtu: u16, ports: Ports, faults: Faults, seed: u64) -> Self {
        let wire = Wire::new(usize::from(path_mtu) - 28);
        let wire = if let Some(trains) = ports.trains { wire.with_trains(trains) } else { wire };
        let node = |number| Node::new(number, &wire, ports, faults, seed.wrapping_add(u64::from(number)));
        let leases = (1..=nodes).map(|number| (number, endpoint(number))).collect();
        Self { nodes: (1..=nodes).map(node).collect(), wire, leases, now: Moment::ZERO }
    }

    /// Lets every node work until nothing moves, then lets late datagrams arrive, until that moves nothing either.
    pub fn settle(&mut self) {
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

    /// What all nodes have counted.
    pub fn totals(&self) -> Totals {
        Totals::of(self.nodes.iter().map(|node| node.forwarder.counters()))
    }

    /// A packet from a container of node `from` to one of node `to`, with a number to know it by.
    pub fn send(&self, from: u8, to: u8, number: u32, len: u16, dont_fragment: bool) {
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
    pub fn arrivals(&self) -> BTreeMap<(u8, u8), Vec<u32>> {
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
    pub fn traffic(&mut self, packets: u32, random: &mut StdRng) -> BTreeMap<(u8, u8), Vec<u32>> {
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
