//! The part of the network config that allocation needs.

use std::net::Ipv4Addr;

use super::RegistryError;
use crate::lease::{NetworkConfig, SubnetRange};

/// The IPv4 subnets that a network config's text offers.
pub(super) fn range_of(config: &str) -> Result<SubnetRange<Ipv4Addr>, RegistryError> {
    let config = NetworkConfig::parse(config).map_err(|error| RegistryError::BadConfig(error.to_string()))?;
    config.ipv4.ok_or_else(|| {
        RegistryError::Unsupported(
            "expected a network config with IPv4, found EnableIPv4 false; IPv6 alone is not leased yet".into(),
        )
    })
}
