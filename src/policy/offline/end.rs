//! The ends of a flow that is only thought of.

use std::fmt;
use std::net::IpAddr;

use super::Probe;
use crate::net::FlowKey;
use crate::policy::model::{Node, Pod};

/// Port that flows come from; no policy asks for it.
const SOURCE_PORT: u16 = 49_152;

/// Something that may send or receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// What it is.
    pub kind: EndKind,
    /// Its addresses; the first of each family is used.
    pub addresses: Vec<IpAddr>,
}

/// What an end is. Written `namespace/pod`, `node:NAME`, `ext:NAME`, or as the bare address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndKind {
    /// A pod with an identity of its own.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A node, and so the pods on its network.
    Node(String),
    /// Addresses outside that somebody gave a name.
    External(String),
    /// An address that nobody gave a name.
    Address(IpAddr),
}

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl End {
    /// The end that `pod` is: on its host's network, or finished, it is none.
    #[must_use]
    pub fn of_pod(pod: &Pod) -> Option<Self> {
        let kind = EndKind::Pod { namespace: pod.namespace.clone(), name: pod.name.clone() };
        (!pod.host_network && !pod.finished).then(|| Self { kind, addresses: pod.addresses.clone() })
    }

    /// The end that `node` is.
    #[must_use]
    pub fn of_node(node: &Node) -> Self {
        Self { kind: EndKind::Node(node.name.clone()), addresses: node.addresses.clone() }
    }

    /// Its address of a family.
    #[must_use]
    pub fn address(&self, family: Family) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| Family::of(*address) == family)
    }

    /// Whether it is a pod.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        matches!(self.kind, EndKind::Pod { .. })
    }

    /// The flow from here to `to` that `probe` asks about. None, if an end has no address of the family or neither is a pod.
    #[must_use]
    pub fn flow(&self, to: &Self, probe: Probe, family: Family) -> Option<FlowKey> {
        let concerns_policy = self.is_pod() || to.is_pod();
        let ends = concerns_policy.then(|| Some((self.address(family)?, to.address(family)?)))??;
        Some(FlowKey::new(probe.protocol, (ends.0, SOURCE_PORT), (ends.1, probe.port)))
    }
}

impl Family {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// That of `address`.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(to)
    }
}

impl fmt::Display for EndKind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { namespace, name } => write!(to, "{namespace}/{name}"),
            Self::Node(name) => write!(to, "node:{name}"),
            Self::External(name) => write!(to, "ext:{name}"),
            Self::Address(address) => address.fmt(to),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(kind: EndKind, addresses: &[&str]) -> End {
        End { kind, addresses: addresses.iter().map(|address| address.parse().unwrap()).collect() }
    }

    #[test]
    fn a_flow_needs_a_pod_and_two_addresses_of_one_family() {
        let pod = end(EndKind::Pod { namespace: "shop".into(), name: "web".into() }, &["10.1.0.2", "fd00::2", "10.1.0.3"]);
        let node = end(EndKind::Node("n1".into()), &["192.0.2.1"]);
        let outside = end(EndKind::External("web".into()), &["2001:db8::1"]);
        let probe = Probe::parse("UDP/53").unwrap();
        let flow = node.flow(&pod, probe, Family::V4).unwrap();
        assert_eq!(flow.to_string(), "UDP 192.0.2.1:49152 to 10.1.0.2:53");
        assert_eq!(node.flow(&pod, probe, Family::V6), None);
        assert!(outside.flow(&pod, probe, Family::V6).is_some());
        assert_eq!(node.flow(&node, probe, Family::V4), None);
        assert!(pod.flow(&pod, probe, Family::V6).is_some());
        assert_eq!((pod.to_string(), outside.to_string()), ("shop/web".into(), "ext:web".into()));
    }
}
