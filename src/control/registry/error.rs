//! What can go wrong with a registry.

/// Why a registry did not do as asked.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum RegistryError {
    /// No contact: refused, timed out, closed. Worth trying again.
    #[error("{registry} cannot be reached: {reason}")]
    Unreachable { registry: String, reason: String },
    /// The other side refuses us: certificate, user, password.
    #[error("{registry} refused access: {reason}")]
    Denied { registry: String, reason: String },
    /// No network config under the key named.
    #[error("no network config at {place}; put one there with `felt config set FILE`")]
    NoConfig { place: String },
    /// The config does not make a network.
    #[error("network config: {0}")]
    BadConfig(String),
    /// Every subnet between SubnetMin and SubnetMax is held.
    #[error("out of subnets: every subnet of {range} is leased; enlarge the network or revoke leases of nodes that are gone")]
    OutOfSubnets { range: String },
    /// Somebody else has it.
    #[error("subnet {subnet} is already taken by {holder}")]
    Taken { subnet: String, holder: String },
    /// Two nodes announce one address.
    #[error(
        "public IP {public_ip} is announced by another node (machine id {other}), which leases {subnet}; give this node its own with --public-ip, revoke that lease if the node is gone, or, if this is that node and its machine id has changed, start it with --node-id={other}"
    )]
    DuplicatePublicIp { public_ip: std::net::Ipv4Addr, other: String, subnet: String },
    /// Lost every race.
    #[error("max retries reached trying to acquire a subnet: {attempts} attempts lost to other nodes")]
    Raced { attempts: u32 },
    /// This registry cannot do that.
    #[error("{0}")]
    Unsupported(String),
    /// The registry understood, and said no; its own words.
    #[error("{registry} answered: {reason}")]
    Refused { registry: String, reason: String },
    /// The registry answered something that makes no sense.
    #[error("{registry} answered what could not be understood: {reason}")]
    Protocol { registry: String, reason: String },
}

impl RegistryError {
    /// Whether the same call may succeed later without anybody changing anything here.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// What is wrong, without saying again with which registry.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Unreachable { reason, .. } => reason.clone(),
            Self::Denied { reason, .. } => format!("access refused: {reason}"),
            Self::Refused { reason, .. } => format!("the answer was {reason}"),
            other => other.to_string(),
        }
    }
}
