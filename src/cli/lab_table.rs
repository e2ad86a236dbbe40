//! What a test network looks like, as a table and as JSON.

use comfy_table::{Table, presets};

use super::Failure;
use crate::lab::LabStatus;

/// For people: a row for each node and pod.
pub fn text(status: &LabStatus) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["PLACE", "STATE", "ADDRESS", "LEASE", "NAMESPACE"]);
    let registry = &status.registry;
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    table.add_row([
        "registry".to_owned(),
        if registry.pid.is_some() { "running" } else { "stopped" }.to_owned(),
        or_none(registry.endpoint.map(|endpoint| endpoint.to_string())),
        String::new(),
        registry.namespace.clone(),
    ]);
    for node in &status.nodes {
        let state = match (node.pid, node.ready) {
            (None, _) => "stopped",
            (Some(_), false) => "starting",
            (Some(_), true) => "ready",
        };
        table.add_row([
            node.name.clone(),
            state.to_owned(),
            node.underlay.to_string(),
            or_none(node.lease.as_ref().map(|lease| lease.subnet.to_string())),
            node.namespace.clone(),
        ]);
        for pod in &node.pods {
            let address = or_none(pod.address.map(|address| address.to_string()));
            table.add_row([format!("  {}", pod.name), String::new(), address, String::new(), pod.namespace.clone()]);
        }
    }
    let policy = status.policy.as_ref().map_or_else(String::new, |policy| {
        let dirs: Vec<_> = policy.dirs.iter().map(|dir| dir.display().to_string()).collect();
        format!("\npolicy ({}): {}", policy.scope, dirs.join(", "))
    });
    let unfinished = if status.complete { "" } else { "\nbuilding it did not come to its end; `felt lab down` removes it" };
    format!("{}{policy}{unfinished}", table.trim_fmt())
}

/// For programs.
pub fn json(status: &LabStatus) -> Result<String, Failure> {
    serde_json::to_string_pretty(status).map_err(|error| Failure::Internal(error.into()))
}
