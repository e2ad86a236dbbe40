//! Labs of two nodes joined back to back: reach, cables, daemons, and that nothing is left.

mod lab_support;

use std::net::Ipv4Addr;
use std::time::Duration;

use felt::lab::probe::ping;
use felt::lab::{
    CONTROL_LINE, EphemeralLab, HUB_ADDRESS, Interrupt, Lab, LabError, LabPlan, Link, Place, RegistryKind, Silent, UPLINK,
};
use felt::sys::netlink::Netlink;
use lab_support::{namespaces_of, plan, processes_marked};

const PATIENCE: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(300);

fn direct(test: &str, registry: RegistryKind) -> LabPlan {
    LabPlan { link: Link::Direct, registry, nodes: 2, pods_per_node: 1, ..plan(test) }
}

fn up(plan: LabPlan) -> EphemeralLab {
    EphemeralLab::up(plan, &mut Silent, &Interrupt::new()).unwrap()
}

fn pod(node: u16) -> Place {
    Place::Pod { node, pod: 1 }
}

fn netlink(lab: &Lab, place: Place) -> Netlink {
    lab.netns(place).unwrap().run_in(Netlink::open).unwrap().unwrap()
}

fn answers_within(lab: &Lab, from: Place, to: Ipv4Addr, patience: Duration) -> bool {
    ping(&lab.netns(from).unwrap(), to, patience, &Interrupt::new()).unwrap().is_some()
}

fn answers(lab: &Lab, from: Place, to: Place) -> bool {
    answers_within(lab, from, lab.address(to).unwrap(), PATIENCE)
}

/// Pings until one is answered, as routes and daemons may need a moment.
fn comes_to_answer(lab: &Lab, from: Place, to: Place) -> bool {
    let address = lab.address(to).unwrap();
    let look = || Ok(answers_within(lab, from, address, SHORT).then_some(()));
    Interrupt::new().wait(PATIENCE, look).unwrap().is_some()
}

#[test]
fn nothing_is_between_the_nodes() {
    let lab = up(direct("dir", RegistryKind::Absent));
    for from in lab.nodes().map(|node| node.place()).chain(lab.pods()) {
        assert!(lab.pods().all(|to| answers(&lab, from, to)), "{from}");
    }
    for node in [1, 2] {
        assert!(answers(&lab, Place::Node(node), Place::Hub) && answers(&lab, Place::Hub, Place::Node(node)));
    }
    // Without the hub they have each other still.
    let hub = netlink(&lab, Place::Hub);
    for node in ["node1", "node2"] {
        hub.set_down(hub.link(node).unwrap().index).unwrap();
    }
    assert!(!answers_within(&lab, Place::Node(1), HUB_ADDRESS, SHORT));
    assert!(answers(&lab, pod(1), pod(2)) && answers(&lab, Place::Node(2), Place::Node(1)));
}

#[test]
fn a_direct_link_joins_two() {
    let error = EphemeralLab::up(LabPlan { nodes: 3, ..direct("three", RegistryKind::Absent) }, &mut Silent, &Interrupt::new());
    let error = error.unwrap_err();
    assert!(matches!(&error, LabError::BadPlan(said) if said == "a direct link joins 2 nodes, found 3"), "{error}");
    let lab = up(LabPlan { underlay_mtu: 9000, ..direct("mtu", RegistryKind::Absent) });
    for node in [1, 2] {
        let netlink = netlink(&lab, Place::Node(node));
        assert_eq!([UPLINK, CONTROL_LINE].map(|name| netlink.link(name).unwrap().mtu), [9000, 9000]);
    }
}

#[test]
fn cables_are_pulled_and_put_back() {
    let lab = up(direct("cable", RegistryKind::Absent));
    let [one, two] = [1, 2].map(|number| lab.node(number).unwrap());
    let passes = |from, to| answers_within(&lab, from, lab.address(to).unwrap(), SHORT);
    assert!(answers(&lab, pod(1), pod(2)));
    one.cut().unwrap();
    assert!(!passes(pod(1), pod(2)) && !passes(Place::Node(1), Place::Hub) && passes(Place::Node(2), Place::Hub));
    two.cut().unwrap();
    assert!(!passes(Place::Node(2), Place::Hub));
    // Either cable alone joins nobody.
    one.heal().unwrap();
    assert!(!passes(pod(1), pod(2)) && answers(&lab, Place::Node(1), Place::Hub));
    two.heal().unwrap();
    assert!(comes_to_answer(&lab, pod(1), pod(2)) && comes_to_answer(&lab, pod(2), pod(1)));
    assert!(answers(&lab, Place::Node(2), Place::Hub));
}

#[test]
fn daemons_live_on_a_direct_link_and_leave_nothing() {
    for registry in [RegistryKind::Embedded, RegistryKind::Etcd] {
        let lab = up(direct("daemons", registry));
        let (name, directory) = (lab.plan().name.clone(), lab.directory());
        assert!(comes_to_answer(&lab, pod(1), pod(2)) && comes_to_answer(&lab, pod(2), pod(1)));
        let status = Lab::open(&name).unwrap().status().unwrap();
        assert!(status.complete && status.registry.pid.is_some() && status.nodes.iter().all(|node| node.ready));
        assert_eq!(status.nodes[1].underlay, Ipv4Addr::new(172, 30, 1, 2));

        lab.node(2).unwrap().cut().unwrap();
        assert!(!answers_within(&lab, pod(1), lab.address(pod(2)).unwrap(), SHORT));
        lab.node(2).unwrap().heal().unwrap();
        assert!(comes_to_answer(&lab, pod(1), pod(2)) && comes_to_answer(&lab, pod(2), pod(1)));

        assert_eq!(namespaces_of(&name).len(), 1 + 2 + 2);
        let removed = lab.down().unwrap();
        assert_eq!((removed.processes, removed.namespaces, removed.directory), (3, 5, true));
        assert!(namespaces_of(&name).is_empty() && processes_marked(&name).is_empty() && !directory.exists());
    }
}
