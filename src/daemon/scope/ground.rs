//! Which rules and routes there shall be, and which of those that are there are ours.

use ipnetwork::IpNetwork;

use super::NodeScope;
use crate::sys::netlink::{Event, Route, RouteProtocol, RouteScope, RouteType, Rule, RuleAction, TABLE_MAIN};

/// The first of our priorities, 97 to 103: behind the table of local addresses (0), before what tunnels and clouds put in
/// front of the main table (512 and up).
pub const FIRST_PRIORITY: u32 = 97;
/// The table that leads into the TUN: the number of flannel's port, which names no table in any distribution.
pub const TABLE: u32 = 8285;
/// What marks rules and routes as ours; taken by nobody in iproute2's `rt_protos`.
pub const PROTOCOL: RouteProtocol = RouteProtocol::Other(85);

const RETURNED: u32 = FIRST_PRIORITY;
const RETURNED_END: u32 = FIRST_PRIORITY + 1;
const HOST: u32 = FIRST_PRIORITY + 2;
const JUDGED: u32 = FIRST_PRIORITY + 2;
const JUDGED_END: u32 = FIRST_PRIORITY + 3;
const FROM_PODS: u32 = FIRST_PRIORITY + 4;
const TO_PODS: u32 = FIRST_PRIORITY + 5;
const PODS_END: u32 = FIRST_PRIORITY + 6;

/// The device by which packets of the host itself come in, as rules see it.
const LOOPBACK: &str = "lo";
/// Before and after any other route to the same place.
const FIRST: u32 = 1;
const LAST: u32 = u32::MAX - 1;

impl NodeScope {
    /// Every rule, in the order in which they are put there: each is added before one that must not be without it.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = Vec::new();
        let of_pods = self.subnets.iter().chain(&self.former);
        for rule in
            self.former.iter().flat_map(|subnet| self.returned(subnet)).chain(of_pods.flat_map(|subnet| self.each(subnet)))
        {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        rules.sort_by_key(|rule| rule.priority);
        rules
    }

    /// The rules for each subnet that pods have addresses of.
    fn each(&self, subnet: &IpNetwork) -> [Rule; 8] {
        let rule = |priority| Rule::new(subnet.is_ipv6(), priority).protocol(PROTOCOL);
        [
            rule(HOST).input(LOOPBACK).from(*subnet),
            rule(HOST).input(LOOPBACK).to(*subnet),
            rule(JUDGED).input(&self.device),
            rule(JUDGED_END).input(&self.device).action(RuleAction::Unreachable),
            rule(FROM_PODS).from(*subnet).table(TABLE),
            rule(TO_PODS).to(*subnet).table(TABLE),
            rule(PODS_END).from(*subnet).action(RuleAction::Blackhole),
            rule(PODS_END).to(*subnet).action(RuleAction::Blackhole),
        ]
    }

    /// The rules by which a judged packet for a former subnet finds its pod or ends: the overlay's own route does not count.
    fn returned(&self, subnet: &IpNetwork) -> Vec<Rule> {
        let Some(network) = self.network.filter(|network| covers(network, subnet)) else { return Vec::new() };
        let rule = |priority| Rule::new(subnet.is_ipv6(), priority).protocol(PROTOCOL).input(&self.device).to(*subnet);
        let pods = rule(RETURNED).suppress(network.prefix().into());
        vec![pods, rule(RETURNED_END).action(RuleAction::Unreachable)]
    }

    /// Every route. That into the TUN is first, so that a table that is in use is never one that leads nowhere only.
    pub(super) fn routes(&self) -> Vec<Route> {
        let inward = |subnet: &IpNetwork| {
            let everywhere = Route::everywhere(subnet.is_ipv6()).table(TABLE).protocol(PROTOCOL);
            let device = everywhere.clone().device(self.index).scope(RouteScope::Link).metric(FIRST);
            [device, everywhere.kind(RouteType::BlackHole).metric(LAST)]
        };
        let nobody = |subnet: &IpNetwork| Route::new(*subnet).protocol(PROTOCOL).kind(RouteType::Unreachable).metric(LAST);
        let mut routes: Vec<Route> = Vec::new();
        for route in self.subnets.iter().chain(&self.former).flat_map(inward) {
            if !routes.contains(&route) {
                routes.push(route);
            }
        }
        routes.extend(self.subnets.iter().map(nobody));
        routes
    }
}

/// Whether `outer` has all addresses of `inner`.
pub(super) fn covers(outer: &IpNetwork, inner: &IpNetwork) -> bool {
    outer.prefix() <= inner.prefix() && outer.contains(inner.network())
}

/// The subnets whose pods the rules of ours among `rules` send into the TUN, the oldest first.
pub(super) fn subnets_of(rules: &[Rule], device: &str) -> Vec<IpNetwork> {
    let sends = |rule: &&Rule| rule.priority == FROM_PODS && rule.table == TABLE && is_our_rule(rule, device);
    rules.iter().filter(sends).filter_map(|rule| rule.from).collect()
}

/// Whether a rule is ours, now or from an earlier run; `device` is the name of the TUN.
pub(super) fn is_our_rule(rule: &Rule, device: &str) -> bool {
    // A kernel that does not keep who put it there.
    let Some(protocol) = rule.protocol else { return looks_like_ours(rule, device) };
    protocol == PROTOCOL
}

fn looks_like_ours(rule: &Rule, device: &str) -> bool {
    let template = |priority| Rule::new(rule.ipv6, priority);
    let judged = [
        template(JUDGED).input(device),
        template(JUDGED_END).input(device).action(RuleAction::Unreachable),
        template(RETURNED_END).input(device).action(RuleAction::Unreachable),
    ];
    let of_pods = [template(HOST).input(LOOPBACK), template(PODS_END).action(RuleAction::Blackhole)];
    let any = Rule { from: None, to: None, suppress: None, ..rule.clone() };
    let is_returned = rule.suppress.is_some() && any.does_as(&template(RETURNED).input(device));
    let is_like = |others: &[Rule]| others.iter().any(|other| any.does_as(other));
    (rule.table == TABLE && !rule.further) || is_returned || (rule.suppress.is_none() && (is_like(&judged) || is_like(&of_pods)))
}

/// Whether a route is ours, now or from an earlier run. No device is named: a former one may have had another index.
pub(super) fn is_our_route(route: &Route) -> bool {
    route.protocol == PROTOCOL && (route.table == TABLE || (route.table == TABLE_MAIN && route.kind == RouteType::Unreachable))
}

/// Whether news may be of what is ours, or of the device of this index. Routes of others come and go all the time.
pub fn is_news(event: &Event, device: u32) -> bool {
    match event {
        Event::Route(route) | Event::RouteGone(route) => {
            route.table == TABLE || route.protocol == PROTOCOL || route.device == Some(device)
        }
        _ => true,
    }
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

    fn nets(texts: &[&str]) -> Vec<IpNetwork> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn scope(subnets: &[&str], former: &[&str]) -> NodeScope {
        let network = Some("10.5.0.0/16".parse().unwrap());
        NodeScope { device: "felt0".to_owned(), index: 7, network, subnets: nets(subnets), former: nets(former) }
    }

    #[test]
    fn the_rules_are_those_of_the_design() {
        let rules: Vec<String> = scope(&["10.5.1.0/24"], &["10.5.2.0/24"]).rules().iter().map(Rule::to_string).collect();
        let expected = [
            "97: to 10.5.2.0/24 iif felt0 lookup main suppress_prefixlength 16",
            "98: to 10.5.2.0/24 iif felt0 unreachable",
            "99: from 10.5.1.0/24 iif lo lookup main",
            "99: to 10.5.1.0/24 iif lo lookup main",
            "99: iif felt0 lookup main",
            "99: from 10.5.2.0/24 iif lo lookup main",
            "99: to 10.5.2.0/24 iif lo lookup main",
            "100: iif felt0 unreachable",
            "101: from 10.5.1.0/24 lookup 8285",
            "101: from 10.5.2.0/24 lookup 8285",
            "102: to 10.5.1.0/24 lookup 8285",
            "102: to 10.5.2.0/24 lookup 8285",
            "103: from 10.5.1.0/24 blackhole",
            "103: to 10.5.1.0/24 blackhole",
            "103: from 10.5.2.0/24 blackhole",
            "103: to 10.5.2.0/24 blackhole",
        ];
        assert_eq!(rules, expected);
        let both = scope(&["10.5.1.0/24", "fd00::/64"], &["192.168.1.0/24"]).rules();
        assert_eq!(both.iter().filter(|rule| rule.ipv6).count(), 8);
        assert!(both.iter().all(|rule| rule.suppress.is_none()), "no route into the TUN leads there");
        assert_eq!(subnets_of(&both, "felt0"), nets(&["10.5.1.0/24", "fd00::/64", "192.168.1.0/24"]));
        assert!(scope(&[], &[]).rules().is_empty() && scope(&[], &[]).routes().is_empty());
    }

    #[test]
    fn what_others_put_there_is_not_ours() {
        for rule in scope(&["10.5.1.0/24", "fd00::/64"], &["10.5.2.0/24"]).rules() {
            assert!(is_our_rule(&rule, "felt0"));
            // An old kernel has forgotten who put it there.
            assert!(is_our_rule(&Rule { protocol: None, ..rule.clone() }, "felt0"), "{rule}");
            assert!(!is_our_rule(&Rule { protocol: Some(RouteProtocol::Boot), ..rule.clone() }, "felt0"));
        }
        let unmarked = Rule { protocol: None, ..Rule::new(false, 99).input("eth1") };
        assert!(!is_our_rule(&unmarked, "felt0") && is_our_rule(&unmarked, "eth1"));
        for route in scope(&["10.5.1.0/24"], &["10.5.2.0/24"]).routes() {
            assert!(is_our_route(&route) && !is_our_route(&route.clone().protocol(RouteProtocol::Boot)));
        }
        assert!(!is_our_route(&Route::new("10.5.1.0/24".parse().unwrap()).protocol(PROTOCOL)));
    }
}
