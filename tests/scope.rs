//! Policy scope `node` in the running kernel: which rules and routes there are, and what is left of others. Needs root.
//! What traffic makes of them is in `scope_traffic`.

mod sys_support;

use felt::daemon::scope::{FORMER_MAX, Keeping, NodeScope, PROTOCOL, TABLE, bypass};
use felt::sys::netlink::{Event, LOOSE, Monitor, Netlink, Route, RouteProtocol, RouteType, Rule, RuleAction};
use felt::sys::tun::{Multiqueue, TunQueue};
use ipnetwork::IpNetwork;
use sys_support::TestNetns;

fn net(text: &str) -> IpNetwork {
    text.parse().unwrap()
}

fn inside(work: impl FnOnce(&Netlink) + Send) {
    TestNetns::new("scope").run_in(|| work(&Netlink::open().unwrap())).unwrap();
}

/// A TUN that is up, and the scope through it.
fn scope(netlink: &Netlink, device: &str, subnets: &[&str]) -> (TunQueue, NodeScope) {
    let queue = TunQueue::open(device, Multiqueue::No).unwrap();
    let index = netlink.link(device).unwrap().index;
    netlink.set_up(index).unwrap();
    let subnets = subnets.iter().map(|subnet| net(subnet)).collect();
    let network = Some(net("10.5.0.0/16"));
    (queue, NodeScope { device: device.to_owned(), index, network, subnets, former: Vec::new() })
}

const BOTH: [&str; 2] = ["10.5.1.0/24", "fd00:5:1::/64"];

/// Rules beside the kernel's own, as `ip` shows them. Which of one family and priority was there first does not matter.
fn rules(netlink: &Netlink) -> Vec<String> {
    let mut rules: Vec<Rule> = netlink.rules().unwrap();
    rules.retain(|rule| rule.protocol != Some(RouteProtocol::Kernel));
    rules.sort_by_key(|rule| (rule.ipv6, rule.priority, rule.to_string()));
    rules.iter().map(Rule::to_string).collect()
}

/// Routes by kind, destination, table and metric, that the kernel did not make by itself.
fn routes(netlink: &Netlink) -> Vec<(RouteType, String, u32, u32)> {
    let routes = netlink.routes().unwrap().into_iter().filter(|route| route.protocol == PROTOCOL);
    routes.map(|route| (route.kind, route.to.to_string(), route.table, route.metric.unwrap_or(0))).collect()
}

fn expected_rules(device: &str, subnet: &str) -> [String; 8] {
    [
        format!("99: from {subnet} iif lo lookup main"),
        format!("99: iif {device} lookup main"),
        format!("99: to {subnet} iif lo lookup main"),
        format!("100: iif {device} unreachable"),
        format!("101: from {subnet} lookup 8285"),
        format!("102: to {subnet} lookup 8285"),
        format!("103: from {subnet} blackhole"),
        format!("103: to {subnet} blackhole"),
    ]
}

#[test]
fn everything_is_put_there_once_and_taken_away_again() {
    inside(|netlink| {
        let (_queue, scope) = scope(netlink, "felt0", &BOTH);
        let before = (netlink.rules().unwrap(), routes(netlink));
        assert!(scope.ensure(netlink).unwrap());
        assert_eq!(rules(netlink), BOTH.map(|subnet| expected_rules("felt0", subnet)).concat());
        assert_eq!(netlink.link("felt0").unwrap().reverse_path, Some(LOOSE));
        let mut found = routes(netlink);
        found.sort_by_key(|(kind, to, ..)| (to.clone(), u8::from(*kind)));
        let last = u32::MAX - 1;
        let expected = [
            (RouteType::Unicast, "0.0.0.0/0", TABLE, 1),
            (RouteType::BlackHole, "0.0.0.0/0", TABLE, last),
            (RouteType::Unreachable, "10.5.1.0/24", 254, last),
            (RouteType::Unicast, "::/0", TABLE, 1),
            (RouteType::BlackHole, "::/0", TABLE, last),
            (RouteType::Unreachable, "fd00:5:1::/64", 254, last),
        ];
        assert_eq!(found, expected.map(|(kind, to, table, metric)| (kind, to.to_owned(), table, metric)));

        assert!(!scope.ensure(netlink).unwrap(), "nothing to do");
        assert!(NodeScope::remove("felt0", netlink).unwrap());
        assert_eq!((netlink.rules().unwrap(), routes(netlink)), before);
        assert!(!NodeScope::remove("felt0", netlink).unwrap());
    });
}

#[test]
fn every_piece_that_is_missing_is_put_back() {
    inside(|netlink| {
        let (_queue, scope) = scope(netlink, "felt0", &BOTH);
        scope.ensure(netlink).unwrap();
        let whole = (rules(netlink), routes(netlink).len());
        let is_whole = || {
            assert!(scope.ensure(netlink).unwrap());
            assert_eq!((rules(netlink), routes(netlink).len()), whole);
            assert!(!scope.ensure(netlink).unwrap());
        };
        for rule in netlink.rules().unwrap().iter().filter(|rule| rule.protocol == Some(PROTOCOL)) {
            netlink.delete_rule(rule).unwrap();
            is_whole();
        }
        for route in netlink.routes().unwrap().iter().filter(|route| route.protocol == PROTOCOL) {
            netlink.delete_route(route).unwrap();
            is_whole();
        }
        std::fs::write("/proc/sys/net/ipv4/conf/felt0/rp_filter", "1").unwrap();
        is_whole();
        // Down and up takes the routes by the device along, not those that lead nowhere.
        netlink.set_down(scope.index).unwrap();
        assert!(routes(netlink).iter().all(|(kind, ..)| *kind != RouteType::Unicast) && routes(netlink).len() == whole.1 - 2);
        netlink.set_up(scope.index).unwrap();
        is_whole();
    });
}

#[test]
fn what_another_run_left_is_taken_over_or_taken_away() {
    inside(|netlink| {
        let (old_queue, old) = scope(netlink, "felt0", &BOTH);
        let before = netlink.rules().unwrap();
        old.ensure(netlink).unwrap();
        // Another subnet, one family less.
        let moved = NodeScope { subnets: vec![net("10.5.2.0/24")], ..old.clone() };
        assert!(moved.ensure(netlink).unwrap());
        assert_eq!(rules(netlink), expected_rules("felt0", "10.5.2.0/24"));
        assert_eq!(routes(netlink).len(), 3);
        // Another device, while the old one is still there.
        let (queue, other) = scope(netlink, "felt7", &["10.5.2.0/24"]);
        assert!(other.ensure(netlink).unwrap() && !other.ensure(netlink).unwrap());
        assert_eq!(rules(netlink), expected_rules("felt7", "10.5.2.0/24"));
        let inward: Vec<Route> =
            netlink.routes().unwrap().into_iter().filter(|route| route.table == TABLE && route.metric == Some(1)).collect();
        assert_eq!(inward.iter().map(|route| route.device).collect::<Vec<_>>(), [Some(other.index)]);
        // The same name again, with another index.
        drop((old_queue, queue));
        let (_spare, _) = scope(netlink, "spare0", &[]);
        let (_queue, again) = scope(netlink, "felt7", &["10.5.2.0/24"]);
        assert_ne!(again.index, other.index);
        assert!(again.ensure(netlink).unwrap() && !again.ensure(netlink).unwrap());
        assert_eq!(rules(netlink), expected_rules("felt7", "10.5.2.0/24"));
        // Whoever removes it need not know which subnet it was.
        assert!(NodeScope::remove("felt3", netlink).unwrap());
        assert_eq!((netlink.rules().unwrap(), routes(netlink).len()), (before, 0));
    });
}

#[test]
fn former_subnets_stay_covered_across_changes_and_restarts_up_to_a_number() {
    inside(|netlink| {
        let (_queue, scope) = scope(netlink, "felt0", &BOTH);
        let before = netlink.rules().unwrap();
        let of = |number: usize| NodeScope { subnets: vec![net(&format!("10.5.{number}.0/24"))], ..scope.clone() };
        let covered = || -> Vec<String> {
            let rules = netlink.rules().unwrap().into_iter().filter(|rule| rule.priority == 101);
            rules.filter_map(|rule| Some(rule.from?.to_string())).collect()
        };
        let is_unreachable = |to: &str| {
            let mut found = routes(netlink).into_iter();
            found.any(|(kind, route, table, _)| (kind, route.as_str(), table) == (RouteType::Unreachable, to, 254))
        };
        let mut keeping = Keeping::begin(Some(scope.clone()), "felt0", netlink).unwrap();
        keeping.change(Some(of(2)));
        assert!(keeping.look(netlink).unwrap() && !keeping.look(netlink).unwrap());
        assert_eq!(covered(), ["10.5.1.0/24", "10.5.2.0/24", "fd00:5:1::/64"]);
        assert!(is_unreachable("10.5.2.0/24") && !is_unreachable("10.5.1.0/24"), "another node may lease it");
        // Killed, and started with another subnet still.
        drop(keeping);
        let mut keeping = Keeping::begin(Some(of(3)), "felt0", netlink).unwrap();
        assert_eq!(keeping.former(), ["10.5.1.0/24", "10.5.2.0/24", "fd00:5:1::/64"].map(net));
        assert_eq!(covered(), ["10.5.1.0/24", "10.5.2.0/24", "10.5.3.0/24", "fd00:5:1::/64"]);
        // Put back as any other rule.
        for rule in netlink.rules().unwrap().iter().filter(|rule| rule.protocol == Some(PROTOCOL)) {
            netlink.delete_rule(rule).unwrap();
        }
        assert!(keeping.look(netlink).unwrap());
        assert_eq!(covered().len(), 4);
        // Ours again.
        keeping.change(Some(of(1)));
        keeping.look(netlink).unwrap();
        assert_eq!(keeping.former(), ["10.5.2.0/24", "fd00:5:1::/64", "10.5.3.0/24"].map(net));
        for number in 4..40 {
            keeping.change(Some(of(number)));
            keeping.look(netlink).unwrap();
        }
        assert_eq!((keeping.former().len(), covered().len()), (FORMER_MAX, FORMER_MAX + 1));
        assert_eq!(keeping.former().last(), Some(&net("10.5.38.0/24")));
        assert!(NodeScope::remove("felt0", netlink).unwrap());
        assert_eq!((netlink.rules().unwrap(), routes(netlink).len()), (before, 0));
    });
}

#[test]
fn what_others_put_there_stays() {
    inside(|netlink| {
        let (_queue, scope) = scope(netlink, "felt0", &["10.5.1.0/24"]);
        let others = [
            Rule::new(false, 98).from(net("10.5.1.0/24")).table(7),
            Rule::new(false, 99).input("eth1"),
            Rule::new(false, 101).from(net("10.5.9.0/24")).table(TABLE),
            Rule::new(false, 102).to(net("10.5.1.0/24")).table(TABLE),
            Rule::new(true, 99).input("felt0"),
            Rule::new(false, 103).from(net("10.5.9.0/24")).action(RuleAction::Blackhole),
        ];
        for rule in &others {
            netlink.add_rule(rule).unwrap();
        }
        let route = Route::new(net("192.0.2.0/24")).table(TABLE).device(scope.index);
        netlink.add_route(&route).unwrap();
        let before = (netlink.rules().unwrap(), netlink.routes().unwrap());
        scope.ensure(netlink).unwrap();
        assert!(!scope.ensure(netlink).unwrap());
        let with_ours = netlink.rules().unwrap();
        assert!(others.iter().all(|rule| with_ours.iter().any(|found| found.does_as(rule))));
        // One of the eight did what was wanted already.
        assert_eq!(with_ours.len(), before.0.len() + 7);
        NodeScope::remove("felt0", netlink).unwrap();
        assert_eq!((netlink.rules().unwrap(), netlink.routes().unwrap()), before);
    });
}

#[test]
fn the_way_out_of_the_tun_is_open_before_anything_is_sent_in_and_until_nothing_is() {
    inside(|netlink| {
        let (_queue, scope) = scope(netlink, "felt0", &["10.5.1.0/24"]);
        let mut monitor = Monitor::open().unwrap();
        let mut told = || -> Vec<String> {
            let events = std::iter::from_fn(|| monitor.next_event().unwrap());
            let told = events.filter_map(|event| match event {
                Event::Rule(rule) => Some(format!("+{}", rule.priority)),
                Event::RuleGone(rule) => Some(format!("-{}", rule.priority)),
                _ => None,
            });
            told.collect()
        };
        scope.ensure(netlink).unwrap();
        assert_eq!(told(), ["+99", "+99", "+99", "+100", "+101", "+102", "+103", "+103"]);
        // New pods are covered before the old ones are let go.
        let moved = NodeScope { subnets: vec![net("10.5.2.0/24")], ..scope.clone() };
        moved.ensure(netlink).unwrap();
        assert_eq!(told(), ["+99", "+99", "+101", "+102", "+103", "+103", "-103", "-103", "-102", "-101", "-99", "-99"]);
        NodeScope::remove("felt0", netlink).unwrap();
        assert_eq!(told(), ["-103", "-103", "-102", "-101", "-100", "-99", "-99", "-99"]);
    });
}

#[test]
fn bridged_pods_are_found_out() {
    inside(|netlink| {
        let subnets = BOTH.map(net);
        let found = || bypass(netlink, &subnets).unwrap();
        let pod = netlink.create_veth("pod1", "eth0", None).unwrap();
        netlink.set_up(pod.index).unwrap();
        netlink.set_up(netlink.link("eth0").unwrap().index).unwrap();
        netlink.add_address(pod.index, net("10.5.1.1/32")).unwrap();
        netlink.add_route(&Route::new(net("10.5.1.2/32")).device(pod.index)).unwrap();
        let bridge = |name: &str, address: &str| {
            let bridge = netlink.create_bridge(name).unwrap();
            netlink.add_address(bridge.index, net(address)).unwrap();
            netlink.set_up(bridge.index).unwrap();
            bridge.index
        };
        bridge("docker0", "172.17.0.1/16");
        assert_eq!(found(), Vec::<String>::new(), "routed pods, and a bridge of somebody else's");

        let cni = bridge("cni0", "10.5.1.1/24");
        assert_eq!(found(), ["cni0"]);
        bridge("six0", "fd00:5:1::1/64");
        assert_eq!(found(), ["cni0", "six0"]);
        netlink.set_down(cni).unwrap();
        assert_eq!(found(), ["six0"]);
        // A pod that is routed to by its port.
        let port = bridge("br0", "192.168.7.1/24");
        netlink.set_master(pod.index, Some(port)).unwrap();
        assert_eq!(found(), ["br0", "six0"]);
    });
}
