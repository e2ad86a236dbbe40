//! Putting the rules and routes there, keeping them, and taking them away.

use ipnetwork::IpNetwork;

use super::ground::{has_place, is_our_route, is_our_rule, serves_as, subnets_of};
use crate::sys::netlink::{LOOSE, Netlink, NetlinkError, Route, Rule};

/// What shall go through the TUN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeScope {
    /// Name of the TUN. Rules name a device, so they last when it is made anew.
    pub device: String,
    /// Its index. Routes go with their device.
    pub index: u32,
    /// The overlay, all of which is routed into the TUN.
    pub network: Option<IpNetwork>,
    /// The pod subnets of this node, at most one of a family. A family without any is left alone.
    pub subnets: Vec<IpNetwork>,
    /// Subnets this node has had before, the oldest first: pods may still have addresses of them.
    pub former: Vec<IpNetwork>,
}

/// The scope cannot be what it should.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    /// No rules.
    #[error(
        "this kernel has no policy routing ({0}), which policy scope `node` is made of: use a kernel with \
         CONFIG_IP_MULTIPLE_TABLES (and CONFIG_IPV6_MULTIPLE_TABLES), or policy scope `overlay`"
    )]
    NoPolicyRouting(NetlinkError),
    /// The kernel refused.
    #[error("policy scope `node` is not in force: {0}")]
    Netlink(#[from] NetlinkError),
}

impl NodeScope {
    /// Brings rules, routes and the TUN's reverse-path filter into their state: adds what is missing, then removes what is ours
    /// and stale. Says whether anything had to be changed. The device must be up.
    ///
    /// At no step does a pod get past the TUN that did not before, and none is cut off that may have what it asks for.
    ///
    /// # Errors
    /// When the kernel refuses, or has no policy routing. What was there before is not taken away then.
    pub fn ensure(&self, netlink: &Netlink) -> Result<bool, ScopeError> {
        let present = netlink.rules().map_err(told)?;
        let mut changed = self.loosen(netlink)?;
        let wanted = self.rules();
        // Until a packet is sent into the TUN, its way on from there must be open; and what ends packets that find no way in
        // comes last.
        let (onward, inward): (Vec<&Rule>, Vec<&Rule>) = wanted.iter().partition(|rule| rule.input.is_some());
        changed |= ensure_rules(&onward, &present, netlink)?;
        changed |= self.ensure_routes(netlink)?;
        changed |= ensure_rules(&inward, &present, netlink)?;
        let stale = |rule: &Rule| is_our_rule(rule, &self.device) && !wanted.iter().any(|wanted| wanted.does_as(rule));
        changed |= remove_rules(present.into_iter().filter(stale).collect(), netlink)?;
        let wanted = self.routes();
        changed |= remove_routes(|route| !wanted.iter().any(|wanted| has_place(route, wanted)), netlink)?;
        Ok(changed)
    }

    /// The subnets whose pods are sent into a TUN by rules of ours in the kernel, whatever run they are from, the oldest first;
    /// `device` is the name of the TUN.
    ///
    /// # Errors
    /// When the kernel cannot be asked, or has no policy routing.
    pub fn in_force(device: &str, netlink: &Netlink) -> Result<Vec<IpNetwork>, ScopeError> {
        Ok(subnets_of(&netlink.rules().map_err(told)?, device))
    }

    /// Takes everything of ours away, whatever run it is from; `device` is the name of the TUN. Says whether there was anything.
    /// The reverse-path filter goes with the device.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove(device: &str, netlink: &Netlink) -> Result<bool, ScopeError> {
        let rules = remove_rules(our_rules(device, netlink)?, netlink)?;
        let routes = remove_routes(|_| true, netlink)?;
        Ok(rules || routes)
    }

    /// What [`remove`](Self::remove) would take away, in words.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn traces(device: &str, netlink: &Netlink) -> Result<Vec<String>, ScopeError> {
        let rules = our_rules(device, netlink)?.into_iter().map(|rule| rule.to_string());
        let routes = netlink.routes()?.into_iter().filter(is_our_route);
        Ok(rules.chain(routes.map(|route| format!("{route} in table {}", route.table))).collect())
    }

    fn loosen(&self, netlink: &Netlink) -> Result<bool, NetlinkError> {
        // There is no such filter for IPv6.
        if !self.subnets.iter().chain(&self.former).any(IpNetwork::is_ipv4) {
            return Ok(false);
        }
        match netlink.link_at(self.index)? {
            Some(link) if link.reverse_path == Some(LOOSE) => Ok(false),
            _ => netlink.loosen_reverse_path(self.index).map(|()| true),
        }
    }

    fn ensure_routes(&self, netlink: &Netlink) -> Result<bool, NetlinkError> {
        let present = netlink.routes()?;
        let mut changed = false;
        for route in self.routes() {
            if present.iter().any(|found| serves_as(found, &route)) {
                continue;
            }
            // In one step, so that pods never find the place empty.
            netlink.replace_route(&route)?;
            changed = true;
        }
        Ok(changed)
    }
}

fn our_rules(device: &str, netlink: &Netlink) -> Result<Vec<Rule>, ScopeError> {
    match netlink.rules().map_err(told) {
        Ok(rules) => Ok(rules.into_iter().filter(|rule| is_our_rule(rule, device)).collect()),
        // Then there can be none.
        Err(ScopeError::NoPolicyRouting(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn ensure_rules(wanted: &[&Rule], present: &[Rule], netlink: &Netlink) -> Result<bool, ScopeError> {
    let mut changed = false;
    for rule in wanted.iter().filter(|rule| !present.iter().any(|found| found.does_as(rule))) {
        already(netlink.add_rule(rule), libc::EEXIST).map_err(told)?;
        changed = true;
    }
    Ok(changed)
}

/// Removes rules, those first that send packets into the TUN.
fn remove_rules(mut rules: Vec<Rule>, netlink: &Netlink) -> Result<bool, ScopeError> {
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
    for rule in &rules {
        already(netlink.delete_rule(rule), libc::ENOENT).map_err(told)?;
    }
    Ok(!rules.is_empty())
}

/// Removes those of our routes for which `stale` holds.
fn remove_routes(stale: impl Fn(&Route) -> bool, netlink: &Netlink) -> Result<bool, NetlinkError> {
    let mut changed = false;
    for route in netlink.routes()?.iter().filter(|route| is_our_route(route) && stale(route)) {
        already(netlink.delete_route(route), libc::ESRCH)?;
        changed = true;
    }
    Ok(changed)
}

/// What somebody else has done meanwhile is done.
fn already(result: Result<(), NetlinkError>, errno: i32) -> Result<(), NetlinkError> {
    match result {
        Err(error) if error.errno() == Some(errno) => Ok(()),
        other => other,
    }
}

fn told(error: NetlinkError) -> ScopeError {
    match error.errno() {
        Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT) => ScopeError::NoPolicyRouting(error),
        _ => ScopeError::Netlink(error),
    }
}
