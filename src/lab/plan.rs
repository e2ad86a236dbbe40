//! What a lab is to look like, and the addresses that follow from it.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{LabError, LabName, LabPolicy, policy};
use crate::lease::NetworkConfig;
use crate::net::Prefix4;

/// Where the registry listens; the hub is the first address of the underlay.
pub const HUB_ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 1);
/// Prefix length of the underlay 172.30.0.0/16.
pub const UNDERLAY_LEN: u8 = 16;
/// Port of flannel's `/v1` API.
const SERVE_PORT: u16 = 8889;
/// Port of etcd's client API.
const ETCD_PORT: u16 = 2379;
/// Most nodes of a lab: node N has the address 172.30.1.N.
pub const MAX_NODES: u16 = 250;
/// Most pods of a node: a /24 with the network's, the gateway's and the broadcast address taken out.
pub const MAX_PODS: u16 = 250;
/// Least MTU that every IPv4 host must take. Source: RFC 791.
const MIN_MTU: u32 = 576;
/// Largest MTU of a veth device.
const MAX_MTU: u32 = 65_535;

/// What a lab is to look like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabPlan {
    /// Told apart from other labs on this machine by its name.
    pub name: LabName,
    /// How many nodes, 1 to [`MAX_NODES`].
    pub nodes: u16,
    /// What joins the nodes. Records of labs from before there was a choice do not have it.
    #[serde(default)]
    pub link: Link,
    /// How many pods each node has, 0 to [`MAX_PODS`].
    pub pods_per_node: u16,
    /// Where leases come from.
    pub registry: RegistryKind,
    /// The network config, as JSON text.
    pub config: String,
    /// The `felt` binary.
    pub felt: PathBuf,
    /// MTU of the links between nodes, in bytes.
    pub underlay_mtu: u32,
    /// Further arguments for every `felt run`.
    pub run_args: Vec<String>,
    /// Whether the daemons enforce policy, and which. Records of labs from before they could do not have it.
    #[serde(default)]
    pub policy: Option<LabPolicy>,
}

/// What joins the nodes of a lab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// Each node's uplink ends at the hub's bridge.
    #[default]
    Switched,
    /// Two nodes, uplink to uplink with nothing between them that could slow packets down or change them; each has another
    /// device, [`CONTROL_LINE`](super::CONTROL_LINE), for the hub alone. What throughput is measured on.
    Direct,
}

/// Where the leases of a lab come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegistryKind {
    /// `felt serve` with a file-backed store.
    Embedded,
    /// A real etcd server.
    Etcd,
    /// Nowhere: no daemon runs. Node N has the Nth /24 of the network, and nodes route to each other over the
    /// underlay. What an overlay can be compared with.
    Absent,
}

impl LabPlan {
    /// Three nodes with two pods each on the embedded registry, overlay 10.99.0.0/16, underlay of 1500 bytes.
    #[must_use]
    pub fn new(felt: PathBuf) -> Self {
        Self {
            name: LabName::default(),
            nodes: 3,
            link: Link::Switched,
            pods_per_node: 2,
            registry: RegistryKind::Embedded,
            config: r#"{"Network": "10.99.0.0/16", "Backend": {"Type": "udp"}}"#.to_owned(),
            felt,
            underlay_mtu: 1500,
            run_args: Vec::new(),
            policy: None,
        }
    }

    /// # Errors
    /// [`LabError::BadPlan`] when a number is out of range, other than two nodes are to be joined directly, the config is none,
    /// its network has no room for the nodes or is the underlay's, or a folder of policies is not there.
    pub fn check(&self) -> Result<(), LabError> {
        within("number of nodes", self.nodes, 1, MAX_NODES)?;
        within("pods per node", self.pods_per_node, 0, MAX_PODS)?;
        within("underlay MTU", self.underlay_mtu, MIN_MTU, MAX_MTU)?;
        if self.link == Link::Direct && self.nodes != 2 {
            return Err(LabError::BadPlan(format!("a direct link joins 2 nodes, found {}", self.nodes)));
        }
        policy::check(self)?;
        let (network, underlay) = (self.network()?, underlay_network());
        if network.overlaps(&underlay) {
            return Err(LabError::BadPlan(format!("network {network} overlaps the underlay {underlay}; choose another Network")));
        }
        if self.registry == RegistryKind::Absent { self.fixed_subnet(self.nodes).map(drop) } else { Ok(()) }
    }

    /// Node numbers, from 1.
    pub fn node_numbers(&self) -> impl Iterator<Item = u16> + use<> {
        1..=self.nodes
    }

    /// Pod numbers of any node, from 1.
    pub fn pod_numbers(&self) -> impl Iterator<Item = u16> + use<> {
        1..=self.pods_per_node
    }

    /// The underlay address of a node.
    #[must_use]
    pub fn underlay(&self, node: u16) -> Ipv4Addr {
        Ipv4Addr::from_bits(Ipv4Addr::new(172, 30, 1, 0).to_bits() + u32::from(node))
    }

    /// Where the registry listens; `None` without one.
    #[must_use]
    pub fn registry_endpoint(&self) -> Option<SocketAddrV4> {
        match self.registry {
            RegistryKind::Embedded => Some(SocketAddrV4::new(HUB_ADDRESS, SERVE_PORT)),
            RegistryKind::Etcd => Some(SocketAddrV4::new(HUB_ADDRESS, ETCD_PORT)),
            RegistryKind::Absent => None,
        }
    }

    /// The flags by which `felt` finds the registry; none without one.
    #[must_use]
    pub fn registry_args(&self) -> Vec<String> {
        match (self.registry, self.registry_endpoint()) {
            (RegistryKind::Embedded, Some(endpoint)) => vec!["--remote".to_owned(), endpoint.to_string()],
            (RegistryKind::Etcd, Some(endpoint)) => vec!["--etcd-endpoints".to_owned(), format!("http://{endpoint}")],
            _ => Vec::new(),
        }
    }

    /// The subnet a node has in a lab without a registry.
    pub(super) fn fixed_subnet(&self, node: u16) -> Result<Prefix4, LabError> {
        const FIXED_LEN: u8 = 24;
        let network = self.network()?;
        let offset = u128::from(node) << (32 - FIXED_LEN);
        let base = (network.len() <= FIXED_LEN).then(|| network.nth(offset)).flatten();
        base.and_then(|base| Prefix4::new(base, FIXED_LEN).ok()).ok_or_else(|| {
            LabError::BadPlan(format!("{network} is too small to give {node} nodes a /{FIXED_LEN} each; use a larger Network"))
        })
    }

    /// The overlay network of the config.
    pub(super) fn network(&self) -> Result<Prefix4, LabError> {
        let bad = |reason: String| LabError::BadPlan(format!("network config: {reason}"));
        let config = NetworkConfig::parse(&self.config).map_err(|error| bad(error.to_string()))?;
        let range = config.ipv4.ok_or_else(|| bad("expected an IPv4 network, as the underlay is IPv4".to_owned()))?;
        Ok(range.network)
    }
}

fn underlay_network() -> Prefix4 {
    Prefix4::new(HUB_ADDRESS, UNDERLAY_LEN).unwrap_or_else(|_| unreachable!("a constant within 32 bits"))
}

fn within<T: Copy + PartialOrd + std::fmt::Display>(what: &str, found: T, min: T, max: T) -> Result<(), LabError> {
    if min <= found && found <= max {
        Ok(())
    } else {
        Err(LabError::BadPlan(format!("{what} must be {min} to {max}, found {found}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::PolicyScope;

    fn plan() -> LabPlan {
        LabPlan::new("felt".into())
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert!(plan().check().is_ok());
        for bad in [
            LabPlan { nodes: 0, ..plan() },
            LabPlan { nodes: MAX_NODES + 1, ..plan() },
            LabPlan { pods_per_node: MAX_PODS + 1, ..plan() },
            LabPlan { link: Link::Direct, ..plan() },
            LabPlan { underlay_mtu: MIN_MTU - 1, ..plan() },
            LabPlan { underlay_mtu: MAX_MTU + 1, ..plan() },
        ] {
            assert!(matches!(bad.check(), Err(LabError::BadPlan(_))), "{bad:?}");
        }
    }

    #[test]
    fn older_records_are_of_switched_labs_without_policy() {
        let policy = LabPolicy { dirs: vec!["/tmp".into()], scope: PolicyScope::Node };
        let direct = LabPlan { link: Link::Direct, nodes: 2, policy: Some(policy), ..plan() };
        assert!(direct.check().is_ok());
        let mut record = serde_json::to_value(&direct).unwrap();
        assert_eq!(serde_json::from_value::<LabPlan>(record.clone()).unwrap(), direct);
        assert_eq!(record.as_object_mut().unwrap().remove("link").unwrap(), "direct");
        assert_eq!(record.as_object_mut().unwrap().remove("policy").unwrap()["scope"], "node");
        let older = LabPlan { link: Link::Switched, policy: None, ..direct };
        assert_eq!(serde_json::from_value::<LabPlan>(record).unwrap(), older);
    }

    #[test]
    fn a_lab_without_registry_needs_room_for_its_nodes() {
        let absent = LabPlan { registry: RegistryKind::Absent, ..plan() };
        assert!(absent.check().is_ok());
        assert_eq!(absent.fixed_subnet(3).unwrap().to_string(), "10.99.3.0/24");
        for config in ["{}", "x", r#"{"Network": 1}"#, r#"{"Network": "10.9.0.0/24"}"#, r#"{"Network": "172.30.0.0/20"}"#] {
            let bad = LabPlan { config: config.to_owned(), ..absent.clone() };
            assert!(matches!(bad.check(), Err(LabError::BadPlan(_))), "{config}");
        }
    }

    #[test]
    fn underlay_addresses_are_distinct_and_inside() {
        let underlay = underlay_network();
        let all: std::collections::BTreeSet<_> = (1..=MAX_NODES).map(|node| plan().underlay(node)).collect();
        assert_eq!(all.len(), usize::from(MAX_NODES));
        assert!(all.iter().all(|address| underlay.contains(*address) && *address != HUB_ADDRESS));
    }
}
