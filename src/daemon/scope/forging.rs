//! May pods of this node send in the name of others? Rules go by a packet's source, so only the kernel's reverse-path filter of
//! each pod's own device can tell that a source is not the pod's.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use super::NodeScope;
use super::ground::covers;
use crate::sys::netlink::{Link, Netlink, NetlinkError, Route, RouteType, TABLE_MAIN};

/// The reverse-path filter by which only what would be answered by the same device comes in.
const STRICT: u8 = 1;
/// How often it is looked: pods come and go, and a line for each would be too much.
const PAUSE: Duration = Duration::from_mins(1);
/// Names that are told in one line.
const NAMED: usize = 5;

/// Devices of pods without a strict filter, each spoken of once.
#[derive(Debug, Default)]
pub(super) struct Forging {
    said: BTreeSet<String>,
    looked: Option<Instant>,
}

impl Forging {
    /// Looks now and then at the devices by which pods of `scope` are reached, and speaks of those that were not spoken of.
    pub(super) fn look(&mut self, netlink: &Netlink, scope: &NodeScope) -> Result<(), NetlinkError> {
        if self.looked.is_some_and(|looked| looked.elapsed() < PAUSE) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let found = open_devices(scope, &netlink.links()?, &netlink.routes()?, filter_of_all());
        // One that is gone or was set right is news if it comes again.
        self.said.retain(|device| found.contains(device));
        let news: Vec<&String> = found.iter().filter(|device| !self.said.contains(*device)).collect();
        if news.is_empty() {
            return Ok(());
        }
        let devices = news.iter().take(NAMED).map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
        tracing::warn!(
            devices,
            count = news.len(),
            "the reverse-path filter of pods' devices is not strict: such a pod can send in the name of another, or of nobody, and \
             policy cannot tell; set net.ipv4.conf.<device>.rp_filter=1 and net.ipv4.conf.all.rp_filter to 0 or 1"
        );
        self.said = found;
        Ok(())
    }
}

/// The names of devices by which pods are reached and by which anything may come in.
fn open_devices(scope: &NodeScope, links: &[Link], routes: &[Route], all: u8) -> BTreeSet<String> {
    let is_pod = |network: &ipnetwork::IpNetwork| {
        network.is_ipv4() && scope.subnets.iter().chain(&scope.former).any(|subnet| covers(subnet, network))
    };
    let ways = routes.iter().filter(|route| route.table == TABLE_MAIN && route.kind == RouteType::Unicast && is_pod(&route.to));
    let devices: BTreeSet<u32> = ways.filter_map(|route| route.device).filter(|device| *device != scope.index).collect();
    let is_open = |link: &&Link| link.reverse_path.is_some_and(|own| own.max(all) != STRICT);
    links.iter().filter(|link| devices.contains(&link.index)).filter(is_open).map(|link| link.name.clone()).collect()
}

/// The host's own setting; a device's is in force if it is greater. Where it cannot be read, devices speak for themselves.
fn filter_of_all() -> u8 {
    let text = fs::read_to_string("/proc/sys/net/ipv4/conf/all/rp_filter").unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::OperState;

    #[test]
    fn a_device_is_closed_only_by_a_strict_filter() {
        let subnets = vec!["10.5.1.0/24".parse().unwrap()];
        let scope = NodeScope { device: "felt0".to_owned(), index: 1, network: None, subnets, former: Vec::new() };
        let link = |index: u32, filter| Link {
            index,
            name: format!("pod{index}"),
            mtu: 1500,
            up: true,
            running: true,
            carrier: true,
            loopback: false,
            kind: None,
            state: OperState::Up,
            txqlen: 0,
            master: None,
            alias: None,
            reverse_path: Some(filter),
        };
        let links = [link(1, 2), link(2, 0), link(3, 1), link(4, 2), link(5, 0)];
        let to = |text: &str, device| Route::new(text.parse().unwrap()).device(device);
        let routes =
            [to("10.5.1.0/24", 1), to("10.5.1.2/32", 2), to("10.5.1.3/32", 3), to("10.5.1.4/32", 4), to("10.5.9.5/32", 5)];
        let found = |all| open_devices(&scope, &links, &routes, all).into_iter().collect::<Vec<_>>();
        assert_eq!(found(0), ["pod2", "pod4"]);
        assert_eq!(found(1), ["pod4"]);
        assert_eq!(found(2), ["pod2", "pod3", "pod4"]);
    }
}
