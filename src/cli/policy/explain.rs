//! `felt policy explain`.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::tool_args::ExplainArgs;
use super::{NO, read, words};
use crate::cli::{Failure, output};
use crate::policy::Explanation;
use crate::policy::offline::{Family, Letter};

/// Says whether a flow is allowed, in each family that both ends have, and why.
pub fn explain(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let mut found = read::world(&args.read)?;
    let end = |text: &str| found.world.end(text).map_err(|error| Failure::Usage(error.to_string()));
    let (from, to) = (end(&args.from)?, end(&args.to)?);
    if !from.is_pod() && !to.is_pod() {
        return Err(Failure::Usage(format!("neither {from} nor {to} is a pod, so policy has no say")));
    }
    let flows = Family::ALL.into_iter().filter_map(|family| Some((family, from.flow(&to, args.port, family)?)));
    let explained: Vec<(Family, Explanation)> =
        flows.map(|(family, key)| (family, found.world.explain(&from, &to, &key))).collect();
    if explained.is_empty() {
        return Err(Failure::Usage(format!("{from} and {to} have no addresses of one family")));
    }
    let is_allowed = explained.iter().all(|(_, one)| Letter::of(one.verdict) == Letter::Allowed);

    if args.json {
        let flows = explained.iter().map(|(family, one)| {
            let mut flow = words::value(one, args.port, &found.world);
            if let Value::Object(fields) = &mut flow {
                fields.insert("family".to_owned(), family.as_str().into());
            }
            flow
        });
        let flows: Vec<Value> = flows.collect();
        let whole = json!({"from": from.to_string(), "to": to.to_string(), "allowed": is_allowed, "flows": flows});
        output::say(&serde_json::to_string_pretty(&whole).map_err(|error| Failure::Internal(error.into()))?)?;
    } else {
        let flows = explained.iter().map(|(_, one)| {
            let (source, destination) = (one.egress.subject.address(), one.ingress.subject.address());
            let verdict = Letter::of(one.verdict).meaning();
            format!(
                "{} from {from} ({source}) to {to} ({destination}): {verdict}\n\n{}",
                args.port,
                words::text(one, &found.world)
            )
        });
        output::say(&flows.collect::<Vec<_>>().join("\n\n"))?;
    }
    found.is_whole()?;
    Ok(if is_allowed { ExitCode::SUCCESS } else { ExitCode::from(NO) })
}
