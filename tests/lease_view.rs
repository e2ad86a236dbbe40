//! What a view makes of a watch's reports, up to the answers of the table.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use felt::lease::{
    Change, Lease, LeaseAttrs, LeaseEvent, LeaseTable, LeaseView, LeaseWarning, OwnNews, Route, Update, ViewChange,
};
use felt::net::{Endpoint, Prefix4};
use proptest::prelude::*;

const OWN: &str = "10.5.9.0-24";
const OWN_IP: &str = "192.168.0.9";

fn lease(subnet: &str, public_ip: &str) -> Lease {
    let attrs = LeaseAttrs::udp(public_ip.parse().unwrap());
    Lease { subnet: subnet.parse().unwrap(), attrs, ttl: Some(Duration::from_mins(1)), revision: 10 }
}

fn view() -> LeaseView {
    let mut view = LeaseView::new("10.5.0.0/16".parse().unwrap(), OWN_IP.parse().unwrap(), 8285);
    assert_eq!(view.set_own(Some(&lease(OWN, OWN_IP))), ViewChange::default());
    view
}

fn snapshot(leases: &[Lease]) -> Update {
    Update { revision: 20, change: Change::Snapshot(leases.to_vec()) }
}

fn events(events: Vec<LeaseEvent>) -> Update {
    Update { revision: 20, change: Change::Events(events) }
}

fn added(subnet: &str, public_ip: &str) -> Update {
    events(vec![LeaseEvent::Added(lease(subnet, public_ip))])
}

fn removed(subnet: &str) -> Update {
    events(vec![LeaseEvent::Removed(subnet.parse().unwrap())])
}

fn set(subnet: &str, public_ip: &str) -> Route {
    Route::Set(subnet.parse().unwrap(), Endpoint::from((public_ip.parse::<Ipv4Addr>().unwrap(), 8285)))
}

fn unset(subnet: &str) -> Route {
    Route::Remove(subnet.parse().unwrap())
}

#[test]
fn a_snapshot_is_compared_by_value() {
    let mut view = view();
    let [a, b] = [lease("10.5.1.0-24", "192.168.0.1"), lease("10.5.2.0-24", "192.168.0.2")];
    let first = view.update(snapshot(&[a.clone(), b, lease(OWN, OWN_IP)]));
    assert_eq!(first.routes, [set("10.5.1.0/24", "192.168.0.1"), set("10.5.2.0/24", "192.168.0.2")]);
    assert_eq!(first.own, Some(OwnNews::Seen(lease(OWN, OWN_IP))));

    let moved = lease("10.5.2.0-24", "192.168.0.77");
    let second = view.update(snapshot(&[moved.clone(), lease("10.5.3.0-24", "192.168.0.3"), lease(OWN, OWN_IP)]));
    let expected = [unset("10.5.1.0/24"), set("10.5.2.0/24", "192.168.0.77"), set("10.5.3.0/24", "192.168.0.3")];
    assert_eq!(second.routes, expected);
    let same = view.update(snapshot(&[moved, lease("10.5.3.0-24", "192.168.0.3"), lease(OWN, OWN_IP)]));
    assert_eq!((same.routes, same.warnings, view.peers()), (vec![], vec![], 2));
}

#[test]
fn a_lease_may_name_a_port_of_its_own() {
    let mut view = view();
    let at = |subnet: &str, public_ip: &str, port| {
        let lease = lease(subnet, public_ip);
        Lease { attrs: LeaseAttrs { port: Some(port), ..lease.attrs.clone() }, ..lease }
    };
    let to = |subnet: &str, endpoint: &str| Route::Set(subnet.parse().unwrap(), endpoint.parse().unwrap());
    let first = view.update(snapshot(&[at("10.5.1.0-24", "192.168.0.1", 9000), lease("10.5.2.0-24", "192.168.0.2")]));
    assert_eq!(first.routes, [to("10.5.1.0/24", "192.168.0.1:9000"), to("10.5.2.0/24", "192.168.0.2:8285")]);
    let moved = view.update(events(vec![LeaseEvent::Added(at("10.5.1.0-24", "192.168.0.1", 9001))]));
    assert_eq!(moved.routes, [to("10.5.1.0/24", "192.168.0.1:9001")]);
    // Behind our own address is somebody else, if at another port.
    let beside = view.update(events(vec![LeaseEvent::Added(at("10.5.3.0-24", OWN_IP, 9000))]));
    assert_eq!((beside.routes, beside.warnings), (vec![to("10.5.3.0/24", "192.168.0.9:9000")], vec![]));
    let ours = view.update(events(vec![LeaseEvent::Added(at("10.5.4.0-24", OWN_IP, 8285))]));
    assert!(ours.routes.is_empty() && matches!(ours.warnings[..], [LeaseWarning::OwnAddress { .. }]));
    assert_eq!(at("10.5.1.0-24", "192.168.0.1", 9000).attrs.to_json(), r#"{"PublicIP":"192.168.0.1","PublicIPv6":null}"#);
}

#[test]
fn events_change_what_they_name_and_no_more() {
    let mut view = view();
    assert_eq!(view.update(added("10.5.1.0-24", "192.168.0.1")).routes, [set("10.5.1.0/24", "192.168.0.1")]);
    assert_eq!(view.update(added("10.5.1.0-24", "192.168.0.1")), ViewChange::default(), "a renewal");
    assert_eq!(view.update(added("10.5.1.0-24", "192.168.0.5")).routes, [set("10.5.1.0/24", "192.168.0.5")], "it moved");
    assert_eq!(view.update(added("10.5.2.0-24", "192.168.0.5")).routes, [set("10.5.2.0/24", "192.168.0.5")], "two of one node");
    assert_eq!(view.update(removed("10.5.7.0-24")), ViewChange::default(), "never heard of");
    assert_eq!(view.update(removed("10.5.1.0-24")).routes, [unset("10.5.1.0/24")]);
    assert_eq!(view.peers(), 1);
    let both = vec![LeaseEvent::Removed("10.5.2.0-24".parse().unwrap()), LeaseEvent::Added(lease("10.5.2.0-24", "192.168.0.5"))];
    assert_eq!(view.update(events(both)), ViewChange::default(), "gone and back within one report");
}

#[test]
fn the_backend_type_of_a_peer_does_not_matter() {
    let mut other = lease("10.5.1.0-24", "192.168.0.1");
    other.attrs.backend_type = "vxlan".into();
    assert_eq!(view().update(snapshot(&[other])).routes, [set("10.5.1.0/24", "192.168.0.1")]);
}

#[test]
fn our_own_lease_is_news_and_never_a_route() {
    let mut view = view();
    assert_eq!(
        view.update(added(OWN, OWN_IP)),
        ViewChange { own: Some(OwnNews::Seen(lease(OWN, OWN_IP))), ..Default::default() }
    );
    let taken = view.update(added(OWN, "192.168.0.66"));
    assert_eq!(taken, ViewChange { own: Some(OwnNews::Taken(lease(OWN, "192.168.0.66"))), ..Default::default() });
    assert_eq!(view.set_own(None).routes, [set("10.5.9.0/24", "192.168.0.66")], "the other's once we gave it up");
    let back = view.set_own(Some(&lease(OWN, OWN_IP)));
    assert_eq!(back.routes, [unset("10.5.9.0/24")]);
    assert_eq!(view.update(removed(OWN)).own, Some(OwnNews::Removed));
    assert_eq!(view.update(snapshot(&[])).own, Some(OwnNews::Removed));
}

#[test]
fn news_from_before_we_acquired_is_no_news() {
    let mut view = view();
    for change in [
        Change::Snapshot(vec![]),
        Change::Events(vec![LeaseEvent::Removed(OWN.parse().unwrap())]),
        Change::Events(vec![LeaseEvent::Added(Lease { revision: 9, ..lease(OWN, "192.168.0.66") })]),
    ] {
        assert_eq!(view.update(Update { revision: 9, change }), ViewChange::default());
    }
}

#[test]
fn while_we_move_our_record_under_the_former_address_is_no_news() {
    let new = "192.168.0.19";
    let mut view = view();
    view.update(snapshot(&[lease(OWN, OWN_IP), lease("10.5.1.0-24", "192.168.0.1")]));
    assert_eq!(view.set_moving(&lease(OWN, new), OWN_IP.parse().unwrap()), ViewChange::default());
    // A renewal from before the move, seen only now, and a listing in between.
    let late = Lease { revision: 11, ..lease(OWN, OWN_IP) };
    assert_eq!(view.update(events(vec![LeaseEvent::Added(late.clone())])), ViewChange::default());
    assert_eq!(view.update(snapshot(&[late.clone(), lease("10.5.1.0-24", "192.168.0.1")])), ViewChange::default());
    assert_eq!(view.update(added(OWN, new)).own, Some(OwnNews::Seen(lease(OWN, new))));
    assert!(matches!(view.update(added(OWN, "192.168.0.66")).own, Some(OwnNews::Taken(_))), "somebody else's all the same");
    assert_eq!(view.update(removed(OWN)).own, Some(OwnNews::Removed));

    // The address may be somebody else's by then.
    assert_eq!(view.update(added("10.5.2.0-24", OWN_IP)).routes, [set("10.5.2.0/24", OWN_IP)]);
    view.set_own(Some(&Lease { revision: 12, ..lease(OWN, new) }));
    assert_eq!(view.update(events(vec![LeaseEvent::Added(late)])).own, None, "older than the renewal");
    let taken = Lease { revision: 13, ..lease(OWN, OWN_IP) };
    assert!(matches!(view.update(events(vec![LeaseEvent::Added(taken)])).own, Some(OwnNews::Taken(_))), "the move is over");
}

#[test]
fn without_revisions_bad_news_of_our_own_lease_is_doubtful() {
    let unnumbered = |subnet, public_ip| Lease { revision: 0, ..lease(subnet, public_ip) };
    let mut view = view();
    view.set_own(Some(&unnumbered(OWN, OWN_IP)));
    for bad in [
        Change::Snapshot(vec![]),
        Change::Events(vec![LeaseEvent::Removed(OWN.parse().unwrap())]),
        Change::Events(vec![LeaseEvent::Added(unnumbered(OWN, "192.168.0.66"))]),
        Change::Snapshot(vec![unnumbered(OWN, "192.168.0.66")]),
    ] {
        assert_eq!(view.update(Update { revision: 7, change: bad }).own, Some(OwnNews::Doubtful));
    }
    let good = unnumbered(OWN, OWN_IP);
    let change = view.update(Update { revision: 7, change: Change::Snapshot(vec![good.clone()]) });
    assert_eq!(change.own, Some(OwnNews::Seen(good)));
}

#[test]
fn records_that_would_do_harm_are_left_out_and_told_once() {
    let mut view = view();
    let bad = [
        lease("10.5.1.0-24", "10.5.16.9"),
        lease("10.5.2.0-24", OWN_IP),
        lease("10.5.8.0-23", "192.168.0.3"),
        lease("10.5.9.128-25", "192.168.0.4"),
        lease("0.0.0.0-0&fd00:5::-64", "192.168.0.5"),
    ];
    let change = view.update(snapshot(&bad));
    assert_eq!(change.routes, []);
    let texts: Vec<String> = change.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(texts[0].contains("10.5.16.9 lies inside the overlay 10.5.0.0/16"), "{texts:?}");
    assert!(texts[1].contains("192.168.0.9 is our own"), "{texts:?}");
    assert!(texts[2].contains("10.5.8.0-23") && texts[2].contains("overlaps our own subnet 10.5.9.0/24"), "{texts:?}");
    assert!(texts[3].contains("10.5.9.128-25"), "{texts:?}");

    assert_eq!(view.update(snapshot(&bad)), ViewChange { own: Some(OwnNews::Removed), ..Default::default() }, "told once");
    let better = view.update(added("10.5.1.0-24", "192.168.0.1"));
    assert_eq!((better.routes, better.warnings), (vec![set("10.5.1.0/24", "192.168.0.1")], vec![]));
    let worse = view.update(added("10.5.1.0-24", "10.5.16.9"));
    assert_eq!((worse.routes, worse.warnings.len()), (vec![unset("10.5.1.0/24")], 1), "bad again: told again");
}

#[test]
fn an_address_that_is_no_node_s_makes_no_route() {
    for public_ip in ["0.0.0.0", "224.0.0.1", "255.255.255.255"] {
        let mut view = view();
        let change = view.update(added("10.5.1.0-24", public_ip));
        let (subnet, address) = ("10.5.1.0-24".parse().unwrap(), public_ip.parse().unwrap());
        let expected = ViewChange { warnings: vec![LeaseWarning::NoNode { subnet, public_ip: address }], ..Default::default() };
        assert_eq!(change, expected);
        assert_eq!(view.update(added("10.5.1.0-24", public_ip)), ViewChange::default(), "told once");
        assert_eq!(view.update(added("10.5.1.0-24", "192.168.0.1")).routes, [set("10.5.1.0/24", "192.168.0.1")]);
        assert_eq!(view.update(added("10.5.1.0-24", public_ip)).routes, [unset("10.5.1.0/24")]);
    }
}

#[test]
fn overlapping_peers_are_told_of_and_the_longer_prefix_wins() {
    let mut view = view();
    let table = Arc::new(LeaseTable::new("10.5.0.0/16".parse().unwrap(), 24));
    let change = view.update(snapshot(&[lease("10.5.0.0-21", "192.168.0.1"), lease("10.5.1.0-24", "192.168.0.2")]));
    change.apply_to(&table);
    let other: Prefix4 = "10.5.0.0/21".parse().unwrap();
    let public_ip = Ipv4Addr::new(192, 168, 0, 2);
    assert_eq!(change.warnings, [LeaseWarning::OverlapsPeer { subnet: "10.5.1.0-24".parse().unwrap(), public_ip, other }]);
    let mut reader = table.reader();
    let lookup = reader.batch();
    let peers = [[10, 5, 1, 1], [10, 5, 2, 1]].map(|address| lookup.peer_of(address.into()).map(|peer| peer.ip().to_string()));
    assert_eq!(peers, [Some("192.168.0.2".to_owned()), Some("192.168.0.1".to_owned())]);
    let recut = view.update(snapshot(&[lease("10.5.0.0-22", "192.168.0.1"), lease("10.5.4.0-24", "192.168.0.2")]));
    assert_eq!(recut.warnings, [], "what is gone overlaps nothing");
}

#[test]
fn one_subnet_under_two_keys_keeps_its_route_until_both_are_gone() {
    let mut view = view();
    view.update(snapshot(&[lease("10.5.1.0-24", "192.168.0.1"), lease("10.5.1.0-24&fd00:5::-64", "192.168.0.2")]));
    assert_eq!(view.update(removed("10.5.1.0-24")).routes, [set("10.5.1.0/24", "192.168.0.2")]);
    assert_eq!(view.update(removed("10.5.1.0-24&fd00:5::-64")).routes, [unset("10.5.1.0/24")]);
}

fn any_lease() -> impl Strategy<Value = Lease> {
    let key = prop_oneof![
        4 => (0u8..12).prop_map(|slice| format!("10.5.{slice}.0-24")),
        1 => prop::sample::select(vec!["10.5.8.0-22", "10.5.3.128-25", "10.5.2.0-24&fd00:5::-64", "10.6.1.0-24"]).prop_map(str::to_owned),
    ];
    (key, prop::sample::select(vec!["192.168.0.1", "192.168.0.2", OWN_IP, "10.5.3.3"])).prop_map(|(key, ip)| lease(&key, ip))
}

fn any_update() -> impl Strategy<Value = Update> {
    let event = prop_oneof![
        2 => any_lease().prop_map(LeaseEvent::Added),
        1 => any_lease().prop_map(|lease| LeaseEvent::Removed(lease.subnet)),
    ];
    prop_oneof![
        3 => prop::collection::vec(event, 1..5).prop_map(events),
        1 => prop::collection::vec(any_lease(), 0..8).prop_map(|leases| snapshot(&leases)),
    ]
}

proptest! {
    /// However the records came about, the table is what a fresh view makes of them.
    #[test]
    fn the_table_depends_on_the_records_alone(updates in prop::collection::vec(any_update(), 1..12), late in any::<bool>()) {
        let table = LeaseTable::new("10.5.0.0/16".parse().unwrap(), 24);
        let mut view = LeaseView::new("10.5.0.0/16".parse().unwrap(), OWN_IP.parse().unwrap(), 8285);
        let mut records = std::collections::BTreeMap::new();
        if !late {
            view.set_own(Some(&lease(OWN, OWN_IP))).apply_to(&table);
        }
        for update in updates {
            match update.change.clone() {
                Change::Snapshot(leases) => records = leases.into_iter().map(|lease| (lease.subnet, lease)).collect(),
                Change::Events(events) => events.into_iter().for_each(|event| match event {
                    LeaseEvent::Added(lease) => _ = records.insert(lease.subnet, lease),
                    LeaseEvent::Removed(key) => _ = records.remove(&key),
                }),
            }
            view.update(update).apply_to(&table);
        }
        view.set_own(Some(&lease(OWN, OWN_IP))).apply_to(&table);

        let fresh = LeaseTable::new("10.5.0.0/16".parse().unwrap(), 24);
        let mut twin = LeaseView::new("10.5.0.0/16".parse().unwrap(), OWN_IP.parse().unwrap(), 8285);
        twin.set_own(Some(&lease(OWN, OWN_IP))).apply_to(&fresh);
        let leases: Vec<Lease> = records.into_values().collect();
        twin.update(snapshot(&leases)).apply_to(&fresh);
        prop_assert_eq!(table.entries(), fresh.entries());
        prop_assert_eq!(view.peers(), fresh.entries().len());
    }
}
