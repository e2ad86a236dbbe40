//! `felt lease list`.

use comfy_table::Table;
use serde_json::Value;

use super::super::options::Target;
use super::super::store::{there, with_registry};
use super::super::{Failure, output};
use super::shown::{columns, object, unnamed_backend};
use crate::lease::Lease;

/// Prints the leases in the registry, in the order of subnets.
pub fn list(as_json: bool, target: Target) -> Result<(), Failure> {
    there(&target)?;
    let (mut leases, unnamed) = with_registry(target, async |registry| {
        // First, so that a registry out of reach is told as such.
        let leases = registry.leases().await?;
        Ok((leases, unnamed_backend(registry).await))
    })?;
    leases.sort_by_key(|lease| lease.subnet);
    let as_object = || leases.iter().map(object).collect::<Value>().to_string();
    output::say(&if as_json { as_object() } else { table(&leases, unnamed) })
}

fn table(leases: &[Lease], unnamed: &str) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING);
    table.set_header(["SUBNET", "NODE", "BACKEND", "TIME LEFT", ""]);
    for lease in leases {
        table.add_row(columns(lease, unnamed));
    }
    table.trim_fmt()
}
