//! Policies of every kind, in one form.

use std::fmt;
use std::net::IpAddr;

use super::Selector;
use crate::net::{Prefix4, Prefix6, Protocol};

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which kind of object it is.
    pub kind: PolicyKind,
    /// Its namespace; empty for kinds that have none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where it stands among the others.
    pub tier: Tier,
    /// Its place within its tier, lower first: 0 to 1000. Without meaning in [`Tier::NetworkPolicy`].
    pub priority: u16,
    /// The pods it is about.
    pub subject: Subject,
    /// Its rules for what comes to them; `None`: it does not speak of that direction.
    ///
    /// In [`Tier::NetworkPolicy`] `Some` isolates, with or without rules. In the other tiers no rules are no word.
    pub ingress: Option<Vec<Rule>>,
    /// Its rules for what leaves them, likewise.
    pub egress: Option<Vec<Rule>>,
}

/// The kinds of objects that are policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    /// `networking.k8s.io/v1`.
    NetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha2`.
    ClusterNetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha1`.
    AdminNetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha1`.
    BaselineAdminNetworkPolicy,
}

/// Which policies are asked first. Each tier's word is final unless it has none or passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// First: the administrator's rules, in order.
    Admin,
    /// Then: the union of what the namespaces' own policies allow, where there are any.
    NetworkPolicy,
    /// Last: the administrator's defaults, in order.
    Baseline,
}

/// The pods a policy is about. Never those on their host's network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Pods of the policy's own namespace.
    Own(Selector),
    /// Pods of such namespaces, wherever.
    Cluster {
        /// Which namespaces.
        namespaces: Selector,
        /// Which pods of theirs.
        pods: Selector,
    },
}

/// One rule. It matches when one of its peers and one of its ports do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name, where it has one; else it is known by its place.
    pub name: String,
    /// What becomes of a flow that it matches; always [`Action::Accept`] in a `NetworkPolicy`.
    pub action: Action,
    /// The other end; `None`: anybody, the outside included.
    pub peers: Option<Vec<Peer>>,
    /// Protocol and destination port; `None`: any, of any protocol.
    pub ports: Option<Vec<Ports>>,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// The flow is allowed, as far as this end is asked.
    Accept,
    /// It is refused.
    Deny,
    /// The rest of the tier is left out.
    Pass,
}

/// Who may be at the other end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    /// Pods of the policy's own namespace.
    Own(Selector),
    /// Pods of such namespaces.
    Pods {
        /// Which namespaces.
        namespaces: Selector,
        /// Which pods of theirs.
        pods: Selector,
    },
    /// Addresses, those of pods and nodes too.
    Block(Block),
    /// Addresses of such nodes, and so of the pods on their hosts' network.
    Nodes(Selector),
    /// Nobody: a peer that names nothing.
    Nothing,
    /// It was not understood. In an [`Action::Accept`] rule it matches nobody; in another the rule becomes a denial of everything,
    /// whatever its ports.
    Unintelligible,
}

/// A block of addresses of one family.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Block {
    /// IPv4.
    V4 {
        /// What it covers,
        cidr: Prefix4,
        /// but for these.
        except: Vec<Prefix4>,
    },
    /// IPv6.
    V6 {
        /// What it covers,
        cidr: Prefix6,
        /// but for these.
        except: Vec<Prefix6>,
    },
}

/// Which destination ports a rule matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ports {
    /// These, of a protocol.
    Numbers {
        /// Which protocol.
        protocol: Protocol,
        /// Lowest port; 0 for all of the protocol.
        first: u16,
        /// Highest port.
        last: u16,
    },
    /// The ports that the destination pod gives this name.
    Named {
        /// The name.
        name: String,
        /// Only where it is declared with this protocol; `None`: whatever was declared.
        protocol: Option<Protocol>,
    },
    /// None: it was not understood.
    Nothing,
}

impl Block {
    /// Whether it covers `address`.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::V4 { cidr, except }, IpAddr::V4(address)) => {
                cidr.contains(address) && !except.iter().any(|except| except.contains(address))
            }
            (Self::V6 { cidr, except }, IpAddr::V6(address)) => {
                cidr.contains(address) && !except.iter().any(|except| except.contains(address))
            }
            _ => false,
        }
    }
}

impl PolicyKind {
    /// Its name in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NetworkPolicy => "NetworkPolicy",
            Self::ClusterNetworkPolicy => "ClusterNetworkPolicy",
            Self::AdminNetworkPolicy => "AdminNetworkPolicy",
            Self::BaselineAdminNetworkPolicy => "BaselineAdminNetworkPolicy",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}
