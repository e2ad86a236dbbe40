//! Whole overlays in memory: nodes with real forwarders over an underlay that loses, repeats and reorders, with offloads and
//! without.
//!
//! A failing run prints its seed; `FELT_SEED=<seed>` repeats it.

#[path = "simulation_support/equality.rs"]
mod equality;
#[path = "simulation_support/world.rs"]
mod world;

use std::collections::BTreeMap;

use felt::forward::DropReason;
use felt::port::fault::{Faults, Faulty};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use world::{Node, Ports, World, endpoint, seed};

#[test]
fn on_a_good_underlay_everything_arrives_once_and_in_order() {
    let seed = seed();
    for ports in [Ports::plain(), Ports::offloaded()] {
        let mut world = World::new(5, 1500, ports, Faults::default(), seed);
        let sent = world.traffic(4000, &mut StdRng::seed_from_u64(seed));
        assert_eq!(world.arrivals(), sent);
        let totals = world.totals();
        assert_eq!((totals.egress_packets, totals.ingress_packets, totals.icmp_sent), (4000, 4000, 0));
        assert_eq!(totals.egress_bytes, totals.ingress_bytes);
        assert!(totals.drops().all(|(_, count)| count == 0));
    }
}

#[test]
fn on_a_bad_underlay_nothing_is_invented_damaged_or_misdelivered() {
    let seed = seed();
    for ports in [Ports::plain(), Ports::offloaded()] {
        let mut world = World::new(5, 1500, ports, Faults { loss: 0.1, duplicate: 0.1, reorder: 0.2 }, seed);
        let sent = world.traffic(4000, &mut StdRng::seed_from_u64(seed));
        let mut arrived = 0;
        for (flow, numbers) in world.arrivals() {
            assert!(numbers.iter().all(|number| sent[&flow].binary_search(number).is_ok()), "{flow:?}");
            arrived += numbers.len() as u64;
        }
        let totals = world.totals();
        assert_eq!((totals.egress_packets, totals.ingress_packets), (4000, arrived));
        assert!((3000..4400).contains(&arrived), "{arrived}");
        assert!(totals.drops().all(|(_, count)| count == 0));
    }
}

#[test]
fn a_peer_that_moves_is_reached_and_believed_at_its_new_address() {
    let mut world = World::new(3, 1500, Ports::offloaded(), Faults::default(), seed());
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
    let mut world = World::new(2, 1500, Ports::offloaded(), Faults::default(), seed());
    // Node 3 runs the same software, with a lease that the others know nothing of.
    world.nodes.push(Node::new(3, &world.wire, Ports::offloaded(), Faults::default(), 0));
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
    let mut world = World::new(2, 1400, Ports::offloaded(), Faults::default(), seed());
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
