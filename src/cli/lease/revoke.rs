//! `felt lease revoke`.

use anyhow::anyhow;

use super::super::options::Target;
use super::super::store::{there, with_registry};
use super::super::{Failure, output};
use super::shown::subnet;
use crate::lease::SubnetKey;

/// Takes a lease away, and says what its node makes of that.
pub fn revoke(key: SubnetKey, target: Target) -> Result<(), Failure> {
    there(&target)?;
    let lease = with_registry(target, async |registry| {
        let Some(lease) = registry.lease(&key).await? else { return Ok(None) };
        registry.revoke(&key).await?;
        Ok(Some(lease))
    })?;
    let name = subnet(&key);
    let Some(lease) = lease else {
        return Err(Failure::AnsweredNo(anyhow!("nobody leases {name}: `felt lease list` shows what is leased")));
    };
    let what = if lease.is_reservation() { "reservation" } else { "lease" };
    let node = lease.attrs.public_ip;
    output::say(&format!(
        "{what} {name} of {node} is revoked; if that node runs, it stops forwarding and asks for a subnet again, this one first"
    ))
}
