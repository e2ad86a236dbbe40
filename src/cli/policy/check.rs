//! `felt policy check`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::tool_args::CheckArgs;
use super::{NO, read, words};
use crate::cli::{Failure, output};
use crate::control::source::documents::{self, Format};
use crate::policy::offline::{Difference, Expectations, Outcome, World};

/// Differences shown to people for one expectation; a count tells of the others.
const MOST_SHOWN: usize = 20;

/// Says whether what is expected holds.
pub fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    if args.read.files.contains(&args.expectations) && args.expectations == Path::new("-") {
        return Err(Failure::Usage("manifests and expectations cannot both come from standard input".to_owned()));
    }
    let expectations = expectations(&args.expectations)?;
    let mut found = read::world(&args.read)?;
    let outcome = expectations.check(&mut found.world).map_err(|errors| {
        let lines = errors.iter().map(|error| format!("{}: {error}", read::name(&args.expectations)));
        Failure::Usage(lines.collect::<Vec<_>>().join("\n"))
    })?;
    let shown = if args.json {
        let value = value(&expectations, &outcome, &mut found.world);
        serde_json::to_string_pretty(&value).map_err(|error| Failure::Internal(error.into()))?
    } else {
        text(&expectations, &outcome, &mut found.world)
    };
    output::say(&shown)?;
    found.is_understood()?;
    Ok(if outcome.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(NO) })
}

fn expectations(path: &Path) -> Result<Expectations, Failure> {
    let wrong = |reason: String| Failure::Usage(format!("{}: {reason}", read::name(path)));
    let documents = documents::read(&read::text(path)?, Format::Yaml).map_err(|error| wrong(error.to_string()))?;
    let [document] = documents.as_slice() else {
        return Err(wrong(format!("expected one document with `allow` and `deny`, found {}", documents.len())));
    };
    Expectations::read(&document.value).map_err(|error| wrong(error.to_string()))
}

fn text(expectations: &Expectations, outcome: &Outcome, world: &mut World) -> String {
    let Outcome { flows, differences } = outcome;
    let mut text = String::new();
    for (number, expectation) in expectations.0.iter().enumerate() {
        let here: Vec<&Difference> = differences.iter().filter(|difference| difference.expectation == number).collect();
        if here.is_empty() {
            continue;
        }
        let expected = if expectation.allowed { "expected to be allowed" } else { "expected to be refused" };
        let note = if expectation.note.is_empty() { String::new() } else { format!(" ({})", expectation.note) };
        writeln!(text, "{}{note}: {expected}", expectation.place).unwrap_or_default();
        for difference in here.iter().take(MOST_SHOWN) {
            let Difference { from, to, probe, family, found, .. } = difference;
            writeln!(text, "  {from} to {to}, {probe} {family}: {}", found.meaning()).unwrap_or_default();
            for reason in reasons(difference, world) {
                writeln!(text, "    {reason}").unwrap_or_default();
            }
        }
        if here.len() > MOST_SHOWN {
            writeln!(text, "  and {} flows more; --json has all", here.len() - MOST_SHOWN).unwrap_or_default();
        }
    }
    let all = expectations.0.len();
    match differences.len() {
        0 => write!(text, "all {all} expectations hold: {flows} flows are as they should be").unwrap_or_default(),
        wrong => write!(text, "{wrong} of {flows} flows are not as they should be").unwrap_or_default(),
    }
    text
}

/// Why a flow is as it is: what refuses it, or what lets it through.
fn reasons(difference: &Difference, world: &mut World) -> Vec<String> {
    words::reasons(&world.explain(&difference.from, &difference.to, &difference.key))
}

fn value(expectations: &Expectations, outcome: &Outcome, world: &mut World) -> Value {
    let differences = outcome.differences.iter().map(|difference| {
        let expectation = expectations.0.get(difference.expectation);
        json!({
            "expectation": expectation.map(|expectation| expectation.place.as_str()),
            "note": expectation.map(|expectation| expectation.note.as_str()),
            "from": difference.from.to_string(),
            "to": difference.to.to_string(),
            "protocol": difference.probe.protocol.to_string(),
            "port": difference.probe.port,
            "family": difference.family.as_str(),
            "expected": if expectation.is_some_and(|expectation| expectation.allowed) { "allowed" } else { "refused" },
            "letter": difference.found.as_char(),
            "reasons": reasons(difference, world),
        })
    });
    let differences: Vec<Value> = differences.collect();
    json!({
        "holds": outcome.differences.is_empty(),
        "expectations": expectations.0.len(),
        "flows": outcome.flows,
        "differences": differences,
    })
}
