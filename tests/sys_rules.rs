//! Rules of policy routing, routes of other tables, and reverse-path filters against the running kernel. Needs root.

mod sys_support;

use std::net::IpAddr;

use felt::sys::netlink::{Event, LOOSE, Monitor, Netlink, Route, RouteProtocol, RouteType, Rule, RuleAction};
use ipnetwork::IpNetwork;
use sys_support::TestNetns;

const PROTOCOL: RouteProtocol = RouteProtocol::Other(85);

fn net(text: &str) -> IpNetwork {
    text.parse().unwrap()
}

fn inside(work: impl FnOnce(&Netlink) + Send) {
    TestNetns::new("rules").run_in(|| work(&Netlink::open().unwrap())).unwrap();
}

/// One of each kind of selector and family.
fn rules() -> Vec<Rule> {
    let rules = [
        Rule::new(false, 99).input("lo"),
        Rule::new(false, 99).input("not-there0").suppress(16),
        Rule::new(false, 100).input("not-there0").action(RuleAction::Unreachable),
        Rule::new(false, 101).from(net("10.5.1.0/24")).table(8285),
        Rule::new(false, 102).to(net("10.5.1.0/24")).table(200),
        Rule::new(true, 99).input("lo"),
        Rule::new(true, 101).from(net("fd00:5:1::/64")).table(8285),
        Rule::new(true, 102).to(net("fd00:5:1::/64")).table(8285),
        Rule::new(true, 103).to(net("fd00:5:1::/64")).action(RuleAction::Blackhole),
    ];
    rules.map(|rule| rule.protocol(PROTOCOL)).to_vec()
}

#[test]
fn rules_are_listed_as_they_were_added() {
    inside(|netlink| {
        let before = netlink.rules().unwrap();
        let kernels: Vec<_> = before.iter().map(|rule| (rule.ipv6, rule.priority, rule.table)).collect();
        assert_eq!(kernels, [(false, 0, 255), (false, 32766, 254), (false, 32767, 253), (true, 0, 255), (true, 32766, 254)]);
        assert!(before.iter().all(|rule| !rule.further && rule.protocol == Some(RouteProtocol::Kernel)));

        for rule in rules() {
            netlink.add_rule(&rule).unwrap();
            assert_eq!(netlink.add_rule(&rule).unwrap_err().errno(), Some(libc::EEXIST));
        }
        let mut listed = netlink.rules().unwrap();
        listed.retain(|rule| !before.contains(rule));
        assert_eq!(listed, rules());

        for rule in rules() {
            netlink.delete_rule(&rule).unwrap();
            let again = netlink.delete_rule(&rule).unwrap_err();
            assert!(again.errno() == Some(libc::ENOENT) && again.to_string().contains(&rule.to_string()), "{again}");
        }
        assert_eq!(netlink.rules().unwrap(), before);
    });
}

#[test]
fn a_rule_that_somebody_else_has_too_is_removed_for_oneself_only() {
    inside(|netlink| {
        for rule in rules() {
            let other = rule.clone().protocol(RouteProtocol::Boot);
            netlink.add_rule(&other).unwrap();
            netlink.add_rule(&rule).unwrap();
            netlink.delete_rule(&rule).unwrap();
            let left: Vec<Rule> = netlink.rules().unwrap().into_iter().filter(|found| found.does_as(&rule)).collect();
            assert_eq!(left, [other]);
        }
    });
}

#[test]
fn a_rule_of_ip_that_selects_by_more_is_told_apart() {
    inside(|netlink| {
        let ip = |words: &str| assert!(std::process::Command::new("ip").args(words.split(' ')).status().unwrap().success());
        ip("rule add prio 100 iif felt0 fwmark 7 lookup main");
        ip("rule add prio 100 iif felt0 lookup main suppress_prefixlength 0");
        ip("rule add prio 100 iif felt0 lookup main");
        ip("rule add prio 100 iif felt0 prohibit");
        let plain = Rule::new(false, 100).input("felt0");
        let found: Vec<Rule> = netlink.rules().unwrap().into_iter().filter(|rule| rule.priority == 100).collect();
        assert_eq!(found.iter().map(|rule| rule.further).collect::<Vec<_>>(), [true, false, false, true]);
        assert_eq!(found.iter().map(|rule| rule.does_as(&plain)).collect::<Vec<_>>(), [false, false, true, false]);
        assert_eq!(found[1].suppress, Some(0));
    });
}

#[test]
fn a_rule_leads_by_a_route_of_another_table() {
    inside(|netlink| {
        netlink.create_veth("a0", "b0", None).unwrap();
        let index = netlink.link("a0").unwrap().index;
        netlink.set_up(index).unwrap();
        netlink.set_up(netlink.link("b0").unwrap().index).unwrap();
        for (to, ipv6) in [("192.0.2.1", false), ("2001:db8::1", true)] {
            let to: IpAddr = to.parse().unwrap();
            assert!(netlink.route_to(to).is_err(), "no way there");
            let leads = Route::everywhere(ipv6).table(8285).device(index).metric(1).protocol(PROTOCOL);
            netlink.add_route(&leads).unwrap();
            netlink.add_route(&Route::everywhere(ipv6).table(8285).kind(RouteType::BlackHole).metric(9)).unwrap();
            assert!(netlink.route_to(to).is_err(), "not asked");
            netlink.add_rule(&Rule::new(ipv6, 100).to(IpNetwork::from(to)).table(8285)).unwrap();
            assert_eq!(netlink.route_to(to).unwrap().device, Some(index));
            let ours = |route: &&Route| route.table == 8285 && route.protocol == PROTOCOL && route.to.is_ipv6() == ipv6;
            let listed = netlink.routes().unwrap();
            assert_eq!(listed.iter().filter(ours).map(|route| route.device).collect::<Vec<_>>(), [Some(index)]);
            netlink.delete_route(&leads).unwrap();
            // Nobody falls through to the main table.
            netlink.add_route(&Route::everywhere(ipv6).device(index)).unwrap();
            assert!(netlink.route_to(to).is_err());
        }
    });
}

#[test]
fn a_monitor_tells_of_rules() {
    inside(|netlink| {
        let mut monitor = Monitor::open().unwrap();
        for rule in rules() {
            netlink.add_rule(&rule).unwrap();
            assert_eq!(monitor.next_event().unwrap(), Some(Event::Rule(rule.clone())));
            netlink.delete_rule(&rule).unwrap();
            assert_eq!(monitor.next_event().unwrap(), Some(Event::RuleGone(rule)));
        }
        assert_eq!(monitor.next_event().unwrap(), None);
    });
}

#[test]
fn a_monitor_tells_of_routes_if_asked_to() {
    inside(|netlink| {
        let (mut all, mut some) = (Monitor::open_with_routes().unwrap(), Monitor::open().unwrap());
        for to in ["192.0.2.0/24", "2001:db8::/64"] {
            let route = Route::new(net(to)).table(8285).kind(RouteType::BlackHole).metric(9).protocol(PROTOCOL);
            netlink.add_route(&route).unwrap();
            netlink.delete_route(&route).unwrap();
            let is_it = |found: &Route| (found.to, found.table, found.protocol) == (route.to, 8285, PROTOCOL);
            assert!(matches!(all.next_event().unwrap(), Some(Event::Route(found)) if is_it(&found)));
            assert!(matches!(all.next_event().unwrap(), Some(Event::RouteGone(found)) if is_it(&found)));
        }
        assert_eq!((all.next_event().unwrap(), some.next_event().unwrap()), (None, None));
    });
}

#[test]
fn a_reverse_path_filter_is_loosened_and_nothing_else() {
    inside(|netlink| {
        netlink.create_veth("a0", "b0", None).unwrap();
        let sysctl = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/a0/{name}")).unwrap();
        std::fs::write("/proc/sys/net/ipv4/conf/a0/rp_filter", "1").unwrap();
        std::fs::write("/proc/sys/net/ipv4/conf/a0/accept_local", "1").unwrap();
        let link = netlink.link("a0").unwrap();
        assert_eq!(link.reverse_path, Some(1));
        netlink.loosen_reverse_path(link.index).unwrap();
        assert_eq!(netlink.link("a0").unwrap().reverse_path, Some(LOOSE));
        assert_eq!((sysctl("rp_filter").trim(), sysctl("accept_local").trim()), ("2", "1"));
        assert_eq!(netlink.link("b0").unwrap().reverse_path.map(|filter| filter == LOOSE), Some(false));
    });
}
