//! `felt policy`: one file per subcommand.
//!
//! `apply`, `delete` and `list` are about a registry, `manifests` reads for them. `matrix`, `explain` and `check` ask no network and no
//! registry: `read` makes a cluster of manifests, the forwarder's own engine judges it, and `words` says why.

mod apply;
mod check;
mod delete;
mod describe;
mod explain;
mod kinds;
mod list;
mod manifests;
mod matrix;
mod matrix_json;
mod matrix_table;
mod page;
mod read;
pub mod tool_args;
mod words;

use std::process::ExitCode;

use super::policy_args::PolicyCommand;
use super::{Failure, options};

/// Exit code of a question that was answered "no": a flow that is refused, an expectation that does not hold.
const NO: u8 = 5;

/// Does what was asked for.
pub fn policy(command: PolicyCommand) -> Result<ExitCode, Failure> {
    match command {
        PolicyCommand::Matrix(args) => return matrix::matrix(&args),
        PolicyCommand::Explain(args) => return explain::explain(&args),
        PolicyCommand::Check(args) => return check::check(&args),
        PolicyCommand::Apply { file, registry } => apply::apply(&file, options::target(*registry)?)?,
        PolicyCommand::Delete { which, registry } => delete::delete(which, options::target(*registry)?)?,
        PolicyCommand::List { json, registry } => list::list(json, options::target(*registry)?)?,
    }
    Ok(ExitCode::SUCCESS)
}
