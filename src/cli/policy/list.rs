//! `felt policy list`.

use comfy_table::Table;
use serde_json::{Value, json};

use super::super::options::Target;
use super::super::store::{there, with_registry};
use super::super::{Failure, output};
use crate::control::registry::{PolicyEntry, kind_of};
use crate::policy::model::ObjectId;

/// Prints the objects in the registry.
pub fn list(as_json: bool, target: Target) -> Result<(), Failure> {
    there(&target)?;
    let mut entries = with_registry(target, async |registry| registry.policy_store()?.policies().await)?;
    entries.sort_by(|one, other| one.id.cmp(&other.id));
    output::say(&if as_json { manifests(&entries) } else { table(&entries) })
}

/// A list that `felt policy apply` takes again.
fn manifests(entries: &[PolicyEntry]) -> String {
    // What is no JSON cannot be shown in it; somebody else has put it there.
    let items: Vec<Value> = entries.iter().filter_map(|entry| serde_json::from_str(&entry.body).ok()).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn table(entries: &[PolicyEntry]) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING);
    table.set_header(["KIND", "NAMESPACE", "NAME"]);
    for entry in entries {
        let (namespace, name) = match &entry.id {
            ObjectId::Namespace(name) | ObjectId::Node(name) => ("", name),
            ObjectId::Pod { namespace, name } | ObjectId::Policy { namespace, name, .. } => (namespace.as_str(), name),
        };
        table.add_row([kind_of(&entry.id).as_str(), if namespace.is_empty() { "-" } else { namespace }, name.as_str()]);
    }
    table.trim_fmt()
}
