//! The scope of a node while it runs: in force or not, which subnets it had before, and what goes past it.

use ipnetwork::IpNetwork;

use super::forging::Forging;
use super::ground::covers;
use super::{NodeScope, ScopeError, bypass};
use crate::sys::netlink::Netlink;

/// Former subnets that are kept at most, so that rules do not pile up; the oldest go first.
pub const FORMER_MAX: usize = 16;

/// What a node keeps in force for as long as its device is up.
#[derive(Debug)]
pub struct Keeping {
    scope: Option<NodeScope>,
    /// Why it is not in force, as of the last look.
    hindrance: Option<String>,
    bypassed: Vec<String>,
    forging: Forging,
}

impl Keeping {
    /// Puts `scope` in force, and keeps the subnets of an earlier run; for none, takes away what an earlier run by the device's
    /// name `device` left, which would send all traffic of the pods to a node that does not give it back.
    ///
    /// # Errors
    /// Those of [`NodeScope::ensure`].
    pub fn begin(scope: Option<NodeScope>, device: &str, netlink: &Netlink) -> Result<Self, ScopeError> {
        if scope.is_none()
            && let Err(error) = NodeScope::remove(device, netlink)
        {
            tracing::warn!("routing rules that an earlier run with policy scope `node` left cannot be removed: {error}");
        }
        let mut keeping = Self { scope: None, hindrance: None, bypassed: Vec::new(), forging: Forging::default() };
        let left = if scope.is_some() { NodeScope::in_force(device, netlink)? } else { Vec::new() };
        keeping.adopt(scope, left, &[]);
        keeping.look(netlink)?;
        Ok(keeping)
    }

    /// Goes on with another scope, in force from the next look. Between the two, the former stays; and its subnets stay covered,
    /// because there are pods with addresses of them.
    pub fn change(&mut self, scope: Option<NodeScope>) {
        let known = self.former().to_vec();
        let before = self.scope.take().map_or_else(Vec::new, |scope| [scope.former, scope.subnets].concat());
        self.adopt(scope, before, &known);
    }

    /// Puts right what is not, and says whether there was anything; tells once of bridges by which pods go round the policy, and
    /// of devices by which they may take on addresses that are not theirs.
    ///
    /// # Errors
    /// Those of [`NodeScope::ensure`].
    pub fn look(&mut self, netlink: &Netlink) -> Result<bool, ScopeError> {
        let Some(scope) = &self.scope else { return Ok(false) };
        let changed = scope.ensure(netlink).inspect_err(|error| self.hindrance = Some(error.to_string()))?;
        self.hindrance = None;
        let bypassed = bypass(netlink, &scope.subnets)?;
        for bridge in bypassed.iter().filter(|bridge| !self.bypassed.contains(bridge)) {
            tracing::warn!(
                bridge,
                "pods on bridge {bridge} talk to each other past the TUN: policy between them is not enforced; use a routed (ptp) CNI"
            );
        }
        self.bypassed = bypassed;
        self.forging.look(netlink, scope)?;
        Ok(changed)
    }

    /// Why the scope is not in force, as of the last look.
    #[must_use]
    pub fn hindrance(&self) -> Option<&str> {
        self.hindrance.as_deref()
    }

    /// Subnets this node had before, whose pods stay under policy; the oldest first.
    #[must_use]
    pub fn former(&self) -> &[IpNetwork] {
        self.scope.as_ref().map(|scope| &*scope.former).unwrap_or_default()
    }

    /// The bridges by which pods go round the policy, as of the last look.
    #[must_use]
    pub fn bypassed(&self) -> &[String] {
        &self.bypassed
    }

    /// Goes by `scope` beside those of `before` that it leaves out, and says so if they are others than `known`.
    fn adopt(&mut self, scope: Option<NodeScope>, before: Vec<IpNetwork>, known: &[IpNetwork]) {
        self.scope = scope.map(|scope| {
            let former = former(before, &scope.subnets);
            NodeScope { former, ..scope }
        });
        let former = self.former();
        if !former.is_empty() && former != known {
            let names: Vec<String> = former.iter().map(ToString::to_string).collect();
            tracing::warn!(
                former = names.join(" "),
                "this node had other subnets before: pods with addresses of them stay under policy; restart them"
            );
        }
    }
}

/// Which of the subnets of `before`, the oldest first, have to be kept beside `subnets`.
fn former(before: Vec<IpNetwork>, subnets: &[IpNetwork]) -> Vec<IpNetwork> {
    let mut kept: Vec<IpNetwork> = Vec::new();
    for subnet in before.into_iter().filter(|subnet| !subnets.iter().any(|own| covers(own, subnet))) {
        kept.retain(|earlier| *earlier != subnet);
        kept.push(subnet);
    }
    for dropped in kept.drain(..kept.len().saturating_sub(FORMER_MAX)) {
        tracing::warn!("more than {FORMER_MAX} former subnets: pods with addresses of {dropped} are no longer under policy");
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(number: usize) -> IpNetwork {
        format!("10.5.{number}.0/24").parse().unwrap()
    }

    #[test]
    fn former_subnets_are_kept_once_in_order_and_up_to_a_number() {
        let before = [3, 1, 2, 1].map(net).to_vec();
        assert_eq!(former(before.clone(), &[net(2)]), [net(3), net(1)]);
        assert_eq!(former(before, &["10.5.0.0/16".parse().unwrap()]), []);
        let many: Vec<IpNetwork> = (0..FORMER_MAX + 3).map(net).collect();
        assert_eq!(former(many.clone(), &[net(200)]), many[3..]);
    }
}
