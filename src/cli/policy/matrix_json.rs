//! A matrix for programs.

use serde::Serialize;

use crate::cli::Failure;
use crate::policy::offline::{Matrix, Table};

#[derive(Serialize)]
struct Whole {
    probes: Vec<Asked>,
}

#[derive(Serialize)]
struct Asked {
    protocol: String,
    port: u16,
    family: &'static str,
    endpoints: Vec<String>,
    rows: Vec<String>,
}

/// The matrix as JSON; the letters are those of the legend.
pub fn json(matrix: &Matrix) -> Result<String, Failure> {
    let names: Vec<String> = matrix.ends.iter().map(ToString::to_string).collect();
    let probes = matrix.tables.iter().map(|table| Asked {
        protocol: table.probe.protocol.to_string(),
        port: table.probe.port,
        family: table.family.as_str(),
        endpoints: names.clone(),
        rows: table.rows.iter().map(|row| Table::letters(row)).collect(),
    });
    serde_json::to_string_pretty(&Whole { probes: probes.collect() }).map_err(|error| Failure::Internal(error.into()))
}
