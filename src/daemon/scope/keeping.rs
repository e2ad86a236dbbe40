//! The scope of a node while it runs: in force or not, and what goes past it.

use super::{NodeScope, ScopeError, bypass};
use crate::sys::netlink::Netlink;

/// What a node keeps in force for as long as its device is up.
#[derive(Debug)]
pub struct Keeping {
    scope: Option<NodeScope>,
    bypassed: Vec<String>,
}

impl Keeping {
    /// Puts `scope` in force; for none, takes away what an earlier run by the device's name `device` left, which would send all
    /// traffic of the pods to a node that does not give it back.
    ///
    /// # Errors
    /// Those of [`NodeScope::ensure`].
    pub fn begin(scope: Option<NodeScope>, device: &str, netlink: &Netlink) -> Result<Self, ScopeError> {
        if scope.is_none()
            && let Err(error) = NodeScope::remove(device, netlink)
        {
            tracing::warn!("routing rules that an earlier run with policy scope `node` left cannot be removed: {error}");
        }
        let mut keeping = Self { scope, bypassed: Vec::new() };
        keeping.look(netlink)?;
        Ok(keeping)
    }

    /// Goes on with another scope, in force from the next look. Between the two, the former stays.
    pub fn change(&mut self, scope: Option<NodeScope>) {
        self.scope = scope;
    }

    /// Puts right what is not, and says whether there was anything; tells once of bridges by which pods go round the policy.
    ///
    /// # Errors
    /// Those of [`NodeScope::ensure`].
    pub fn look(&mut self, netlink: &Netlink) -> Result<bool, ScopeError> {
        let Some(scope) = &self.scope else { return Ok(false) };
        let changed = scope.ensure(netlink)?;
        let bypassed = bypass(netlink, &scope.subnets)?;
        for bridge in bypassed.iter().filter(|bridge| !self.bypassed.contains(bridge)) {
            tracing::warn!(
                bridge,
                "pods on bridge {bridge} talk to each other past the TUN: policy between them is not enforced; use a routed (ptp) CNI"
            );
        }
        self.bypassed = bypassed;
        Ok(changed)
    }

    /// The bridges by which pods go round the policy, as of the last look.
    #[must_use]
    pub fn bypassed(&self) -> &[String] {
        &self.bypassed
    }
}
