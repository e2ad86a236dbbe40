//! Which rules and routes there shall be, and which of those that are there are ours.

use ipnetwork::IpNetwork;

use super::NodeScope;
use crate::sys::netlink::{Route, RouteProtocol, RouteScope, RouteType, Rule, TABLE_MAIN};

/// The first of our four priorities, 99 to 102: behind the table of local addresses (0), before what tunnels and clouds put in
/// front of the main table (512 and up).
pub const FIRST_PRIORITY: u32 = 99;
/// The table that leads into the TUN: the number of flannel's port, which names no table in any distribution.
pub const TABLE: u32 = 8285;
/// What marks rules and routes as ours; taken by nobody in iproute2's `rt_protos`.
pub const PROTOCOL: RouteProtocol = RouteProtocol::Other(85);

const HOST: u32 = FIRST_PRIORITY;
const JUDGED: u32 = FIRST_PRIORITY + 1;
const FROM_PODS: u32 = FIRST_PRIORITY + 2;
const TO_PODS: u32 = FIRST_PRIORITY + 3;

/// The device by which packets of the host itself come in, as rules see it.
const LOOPBACK: &str = "lo";
/// Before and after any other route to the same place.
const FIRST: u32 = 1;
const LAST: u32 = u32::MAX - 1;

impl NodeScope {
    /// Every rule.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let each = |subnet: &IpNetwork| {
            let rule = |priority| Rule::new(subnet.is_ipv6(), priority).protocol(PROTOCOL);
            [
                rule(HOST).input(LOOPBACK).from(*subnet),
                rule(HOST).input(LOOPBACK).to(*subnet),
                rule(JUDGED).input(&self.device),
                rule(FROM_PODS).from(*subnet).table(TABLE),
                rule(TO_PODS).to(*subnet).table(TABLE),
            ]
        };
        let mut rules: Vec<Rule> = Vec::new();
        for rule in self.subnets.iter().flat_map(each) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        rules
    }

    /// Every route. That into the TUN is first, so that a table that is in use is never one that leads nowhere only.
    pub(super) fn routes(&self) -> Vec<Route> {
        let each = |subnet: &IpNetwork| {
            let everywhere = Route::everywhere(subnet.is_ipv6()).table(TABLE).protocol(PROTOCOL);
            [
                everywhere.clone().device(self.index).scope(RouteScope::Link).metric(FIRST),
                everywhere.kind(RouteType::BlackHole).metric(LAST),
                Route::new(*subnet).protocol(PROTOCOL).kind(RouteType::Unreachable).metric(LAST),
            ]
        };
        self.subnets.iter().flat_map(each).collect()
    }
}

/// Whether a rule is ours, now or from an earlier run; `device` is the name of the TUN.
pub(super) fn is_our_rule(rule: &Rule, device: &str) -> bool {
    let judged = |rule: &Rule| rule.does_as(&Rule::new(rule.ipv6, JUDGED).input(device));
    let host = |rule: &Rule| {
        let any = Rule { from: None, to: None, ..rule.clone() };
        any.does_as(&Rule::new(rule.ipv6, HOST).input(LOOPBACK))
    };
    match rule.protocol {
        Some(protocol) => protocol == PROTOCOL,
        // A kernel that does not keep it.
        None => (rule.table == TABLE && !rule.further) || host(rule) || judged(rule),
    }
}

/// Whether a route is ours, now or from an earlier run. No device is named: a former one may have had another index.
pub(super) fn is_our_route(route: &Route) -> bool {
    route.protocol == PROTOCOL && (route.table == TABLE || (route.table == TABLE_MAIN && route.kind == RouteType::Unreachable))
}

/// Whether `found` has the place of `wanted`: nothing else could be added there.
pub(super) fn has_place(found: &Route, wanted: &Route) -> bool {
    (found.to, found.table, found.metric) == (wanted.to, wanted.table, wanted.metric)
}

/// Whether `found` does what `wanted` shall do. What routes that lead nowhere have for a device differs between families.
pub(super) fn serves_as(found: &Route, wanted: &Route) -> bool {
    let same_way = wanted.kind != RouteType::Unicast || (found.device, found.gateway) == (wanted.device, wanted.gateway);
    has_place(found, wanted) && found.kind == wanted.kind && same_way
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(subnets: &[&str]) -> NodeScope {
        let subnets = subnets.iter().map(|subnet| subnet.parse().unwrap()).collect();
        NodeScope { device: "felt0".to_owned(), index: 7, subnets }
    }

    #[test]
    fn the_rules_are_those_of_the_design() {
        let rules: Vec<String> = scope(&["10.5.1.0/24"]).rules().iter().map(Rule::to_string).collect();
        let expected = [
            "99: from 10.5.1.0/24 iif lo lookup main",
            "99: to 10.5.1.0/24 iif lo lookup main",
            "100: iif felt0 lookup main",
            "101: from 10.5.1.0/24 lookup 8285",
            "102: to 10.5.1.0/24 lookup 8285",
        ];
        assert_eq!(rules, expected);
        assert_eq!(scope(&["10.5.1.0/24", "fd00::/64"]).rules().iter().filter(|rule| rule.ipv6).count(), 5);
        assert!(scope(&[]).rules().is_empty() && scope(&[]).routes().is_empty());
    }

    #[test]
    fn what_others_put_there_is_not_ours() {
        for rule in scope(&["10.5.1.0/24", "fd00::/64"]).rules() {
            assert!(is_our_rule(&rule, "felt0"));
            // An old kernel has forgotten who put it there.
            assert!(is_our_rule(&Rule { protocol: None, ..rule.clone() }, "felt0"), "{rule}");
            assert!(!is_our_rule(&Rule { protocol: Some(RouteProtocol::Boot), ..rule.clone() }, "felt0"));
        }
        let unmarked = Rule { protocol: None, ..Rule::new(false, 100).input("eth1") };
        assert!(!is_our_rule(&unmarked, "felt0") && is_our_rule(&unmarked, "eth1"));
        for route in scope(&["10.5.1.0/24"]).routes() {
            assert!(is_our_route(&route) && !is_our_route(&route.clone().protocol(RouteProtocol::Boot)));
        }
        assert!(!is_our_route(&Route::new("10.5.1.0/24".parse().unwrap()).protocol(PROTOCOL)));
    }
}
