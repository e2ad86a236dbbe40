//! `felt lease reserve` and `felt lease unreserve`.

use std::net::Ipv4Addr;

use anyhow::anyhow;

use super::super::options::Target;
use super::super::store::{there, with_registry};
use super::super::{Failure, output};
use super::shown::{duration, subnet};
use crate::control::registry::{RegistryError, Reservation};
use crate::lease::{Lease, NetworkConfig, SubnetKey};

/// Keeps a subnet for a node.
pub fn reserve(key: SubnetKey, public_ip: Ipv4Addr, target: Target) -> Result<(), Failure> {
    there(&target)?;
    let reserved = with_registry(target, async |registry| {
        // What a registry server would say to it depends on whose it is, so it is looked at here.
        let config = registry.config().await?;
        let leases = registry.leases().await?;
        if let Err(failure) = fits(key, public_ip, &config).and_then(|()| free(key, public_ip, &leases)) {
            return Ok(Err(failure));
        }
        registry.reserve(&Reservation { subnet: key, public_ip }).await?;
        Ok(Ok(leases))
    })?;
    let leases = reserved?;
    output::say(&format!("{} is reserved for {public_ip}", subnet(&key)))?;
    let other = leases.iter().find(|lease| lease.attrs.public_ip == public_ip && lease.subnet != key);
    let Some(other) = other.map(|lease| subnet(&lease.subnet)) else { return Ok(()) };
    output::say(&format!("{public_ip} also holds {other}, and keeps to it: stop that node and revoke {other} to have it move"))
}

/// Lets a reservation end.
pub fn unreserve(key: SubnetKey, target: Target) -> Result<(), Failure> {
    there(&target)?;
    let (was_reserved, lease) = with_registry(target, async |registry| {
        let was_reserved = registry.unreserve(&key).await?;
        Ok((was_reserved, registry.lease(&key).await?))
    })?;
    let name = subnet(&key);
    match (was_reserved, lease) {
        (true, lease) => {
            let left = lease.and_then(|lease| lease.ttl).map_or_else(String::new, |left| format!(" of {}", duration(left)));
            output::say(&format!("{name} is reserved no more: its lease{left} ends unless its node renews it"))
        }
        (false, Some(lease)) => Err(Failure::AnsweredNo(anyhow!("{name} is not reserved: {} leases it", lease.attrs.public_ip))),
        (false, None) => Err(Failure::AnsweredNo(anyhow!("{name} is not reserved, and nobody leases it"))),
    }
}

/// Whether a node at that address could hold that subnet.
fn fits(key: SubnetKey, public_ip: Ipv4Addr, config: &str) -> Result<(), Failure> {
    let config = NetworkConfig::parse(config).map_err(|error| RegistryError::BadConfig(error.to_string()))?;
    let Some(range) = config.ipv4 else {
        return Err(Failure::Usage("the network has no IPv4, and only IPv4 subnets can be reserved".to_owned()));
    };
    if key.v6.is_some() || !range.admits(&key.v4) {
        return Err(Failure::Usage(format!(
            "expected a /{} subnet of {} from {} to {}, found {}; others are not leased in this network",
            range.subnet_len,
            range.network,
            range.min,
            range.max,
            subnet(&key)
        )));
    }
    if range.network.contains(public_ip) {
        return Err(Failure::Usage(format!(
            "expected the address of a node on the underlay, found {public_ip}, which lies inside the overlay {}",
            range.network
        )));
    }
    Ok(())
}

/// Whether nobody else holds any of it.
fn free(key: SubnetKey, public_ip: Ipv4Addr, leases: &[Lease]) -> Result<(), Failure> {
    let is_other =
        |lease: &&Lease| lease.subnet.v4.overlaps(&key.v4) && (lease.subnet != key || lease.attrs.public_ip != public_ip);
    let Some(lease) = leases.iter().find(is_other) else { return Ok(()) };
    let kept = match lease.ttl {
        None => "without an end".to_owned(),
        Some(left) => format!("for another {}", duration(left)),
    };
    let (name, holder) = (subnet(&lease.subnet), lease.attrs.public_ip);
    Err(Failure::AnsweredNo(anyhow!(
        "{} is taken: {holder} holds {name} {kept}; choose another subnet, or, if that node is gone, `felt lease revoke {name}` first",
        subnet(&key)
    )))
}
