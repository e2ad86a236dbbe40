//! `felt policy matrix`.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use super::tool_args::{MatrixArgs, MatrixFormat};
use super::{matrix_json, matrix_table, page, read};
use crate::cli::{Failure, output};
use crate::policy::offline::{Matrix, usual_probes};

/// Probes asked where nobody said which.
const USUAL_PROBES: usize = 8;

/// Judges every pair, and shows that.
pub fn matrix(args: &MatrixArgs) -> Result<ExitCode, Failure> {
    let mut found = read::world(&args.read)?;
    let mut probes = args.probe.clone();
    if probes.is_empty() {
        let left_out;
        (probes, left_out) = usual_probes(found.world.objects(), USUAL_PROBES);
        if left_out > 0 {
            output::complain(&format!("note: {left_out} more ports are named by policies and pods; ask for them with --probe"));
        }
    }
    // Who asks twice is answered once.
    let mut once = BTreeSet::new();
    probes.retain(|probe| once.insert(*probe));
    let matrix = Matrix::of(&mut found.world, &probes);
    output::say(&match args.format {
        MatrixFormat::Table => matrix_table::text(&matrix, screen()),
        MatrixFormat::Json => matrix_json::json(&matrix)?,
        MatrixFormat::Html => {
            let (page, left_out) = page::page(&mut found.world, &matrix)?;
            if left_out > 0 {
                let all = matrix.ends.len();
                output::complain(&format!("note: {left_out} of {all} ends are not on the page; --format json has all"));
            }
            page
        }
    })?;
    found.is_whole()?;
    Ok(ExitCode::SUCCESS)
}

fn screen() -> matrix_table::Screen {
    let is_terminal = io::stdout().is_terminal();
    let colour = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    matrix_table::Screen { width: if is_terminal { comfy_table::Table::new().width() } else { None }, colour }
}
