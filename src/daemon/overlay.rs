//! The overlay as one config describes it: what this node may lease, what it sends through, and who holds what.

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::lease::{Backend, Change, LeaseTable, LeaseView, SubnetRange, Update, ViewChange};
use crate::lease::{ConfigError, NetworkConfig};
use crate::net::Prefix4;

/// Why this node cannot work by a config that is valid in itself.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    /// The config is not valid.
    #[error("network config: {0}")]
    Config(#[from] ConfigError),
    /// An encapsulation that this version does not speak.
    #[error(
        "network config: backend type `{0}` is not available in this version of felt, only `udp` is; set `\"Backend\":{{\"Type\":\"udp\"}}`, or run flanneld on this node"
    )]
    Backend(&'static str),
    /// No IPv4 in it.
    #[error("network config: EnableIPv4 is false, and this version of felt carries IPv4 only; set it to true")]
    NoIpv4,
    /// IPv6 beside it.
    #[error(
        "network config: EnableIPv6 is true, and this version of felt carries IPv4 only; leave it out, or run flanneld on this node"
    )]
    Ipv6,
}

/// One config, and everything that hangs on it.
#[derive(Debug)]
pub struct Overlay {
    /// The IPv4 network and the subnets it is cut into.
    pub range: SubnetRange<Ipv4Addr>,
    /// Whether a node may hold any subnet of the network, however the config would cut it.
    pub any_subnet: bool,
    /// Port of every node on the underlay.
    pub port: u16,
    /// MTU of the underlay, if the config overrides what the route says.
    pub underlay_mtu: Option<u16>,
    /// Who leases what, for the workers.
    pub table: Arc<LeaseTable>,
    /// The same, for the rules.
    pub view: LeaseView,
}

/// What a new config means for a node that runs by an older one.
#[derive(Debug, PartialEq, Eq)]
pub enum Difference {
    /// Nothing that matters here.
    None,
    /// Other limits, but the subnet we hold is still one of them.
    Limits,
    /// Another network, of which the subnet we hold is one as well, or we hold none.
    Network,
    /// The subnet we hold is none of the new network's: another must be acquired.
    Subnet,
}

impl Overlay {
    /// The overlay of `config` for a node at `public_ip`.
    ///
    /// # Errors
    /// When this version cannot work by it.
    pub fn new(config: &NetworkConfig, public_ip: Ipv4Addr) -> Result<Self, OverlayError> {
        let range = config.ipv4.ok_or(OverlayError::NoIpv4)?;
        // A dual-stack node's lease has both parts; ours would take its place with one.
        if config.ipv6.is_some() {
            return Err(OverlayError::Ipv6);
        }
        let (port, underlay_mtu) = match config.backend {
            Backend::Udp { port, mtu } => (port, mtu),
            Backend::Other { kind } => return Err(OverlayError::Backend(kind)),
        };
        Ok(Self {
            range,
            any_subnet: false,
            port,
            underlay_mtu,
            table: Arc::new(LeaseTable::new(range.network, range.subnet_len)),
            view: LeaseView::new(range.network, public_ip, port),
        })
    }

    /// The same where subnets are given to nodes unless `cuts_subnets`.
    #[must_use]
    pub fn given(self, cuts_subnets: bool) -> Self {
        Self { any_subnet: !cuts_subnets, ..self }
    }

    /// Whether a node may hold `subnet`.
    #[must_use]
    pub fn admits(&self, subnet: Prefix4) -> bool {
        if self.any_subnet { self.range.network.covers(&subnet) } else { self.range.admits(&subnet) }
    }

    /// Learns the leases of other nodes that `older` knows of; `public_ip` is ours. The change is to be put in force.
    pub fn take_leases_of(&mut self, older: &Self, public_ip: Ipv4Addr) -> ViewChange {
        let leases = older.view.leases().filter(|lease| lease.attrs.public_ip != public_ip).cloned().collect();
        self.view.update(Update { revision: 0, change: Change::Snapshot(leases) })
    }

    /// What changes for a node that holds `own` when `newer` takes this one's place.
    pub fn difference(&self, newer: &Self, own: Option<&Prefix4>) -> Difference {
        let slices = |overlay: &Self| (overlay.range.network, overlay.range.subnet_len);
        if self.range == newer.range {
            Difference::None
        } else if own.is_some_and(|own| !newer.admits(*own)) {
            Difference::Subnet
        } else if slices(self) == slices(newer) {
            Difference::Limits
        } else {
            Difference::Network
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(text: &str) -> Result<Overlay, OverlayError> {
        Overlay::new(&NetworkConfig::parse(text).unwrap(), Ipv4Addr::new(192, 0, 2, 1))
    }

    #[test]
    fn only_what_this_version_carries_is_taken() {
        assert_eq!(overlay(r#"{"Network":"10.5.0.0/16"}"#).unwrap().port, 8285);
        let vxlan = overlay(r#"{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}"#);
        assert_eq!(vxlan.unwrap_err(), OverlayError::Backend("vxlan"));
        let ipv6 = overlay(r#"{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/48"}"#);
        assert_eq!(ipv6.unwrap_err(), OverlayError::NoIpv4);
        let both = overlay(r#"{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00::/48"}"#);
        assert_eq!(both.unwrap_err(), OverlayError::Ipv6);
    }

    #[test]
    fn a_change_is_judged_by_what_it_does_to_the_subnet_held() {
        let old = overlay(r#"{"Network":"10.5.0.0/16"}"#).unwrap();
        let own = "10.5.7.0/24".parse().unwrap();
        for (text, difference) in [
            (r#"{"Network":"10.5.0.0/16","SubnetLen":24}"#, Difference::None),
            (r#"{"Network":"10.5.0.0/16","SubnetMax":"10.5.9.0"}"#, Difference::Limits),
            (r#"{"Network":"10.5.0.0/16","SubnetMax":"10.5.6.0"}"#, Difference::Subnet),
            (r#"{"Network":"10.5.0.0/16","SubnetLen":25}"#, Difference::Subnet),
            (r#"{"Network":"10.9.0.0/16"}"#, Difference::Subnet),
            (r#"{"Network":"10.0.0.0/8"}"#, Difference::Network),
            (r#"{"Network":"10.5.0.0/20"}"#, Difference::Network),
        ] {
            assert_eq!(old.difference(&overlay(text).unwrap(), Some(&own)), difference, "{text}");
        }
        let narrower = overlay(r#"{"Network":"10.5.0.0/16","SubnetMax":"10.5.6.0"}"#).unwrap();
        assert_eq!(old.difference(&narrower, None), Difference::Limits);
        assert_eq!(old.difference(&overlay(r#"{"Network":"10.9.0.0/16"}"#).unwrap(), None), Difference::Network);
    }

    #[test]
    fn a_given_subnet_only_has_to_lie_inside_the_network() {
        let overlay = overlay(r#"{"Network":"10.5.0.0/16"}"#).unwrap();
        let subnets = ["10.5.0.0/24", "10.5.7.128/25", "10.5.0.0/16", "10.6.0.0/24"].map(|text| text.parse().unwrap());
        assert_eq!(subnets.map(|subnet| overlay.admits(subnet)), [false; 4]);
        let given = overlay.given(false);
        assert_eq!(subnets.map(|subnet| given.admits(subnet)), [true, true, true, false]);
    }
}
