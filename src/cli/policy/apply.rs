//! `felt policy apply`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::anyhow;

use super::super::options::Target;
use super::super::store::with_registry;
use super::super::{Failure, output};
use super::kinds::printed;
use super::manifests::{self, Manifest};
use crate::control::registry::{PolicyEntry, PolicyEvent};
use crate::control::source::reading::Outcome;
use crate::policy::model::ObjectId;

/// Puts the objects of `files` into the registry.
pub fn apply(files: &[PathBuf], target: Target) -> Result<(), Failure> {
    let bodies = checked(manifests::read(files)?)?;
    let names = bodies.iter().map(|(id, _)| printed(id)).collect::<Result<Vec<_>, _>>()?;
    let outcomes = with_registry(target, async |registry| {
        let store = registry.policy_store()?;
        let before: BTreeMap<_, _> = store.policies().await?.into_iter().map(|entry| (entry.id, entry.body)).collect();
        let (mut outcomes, mut writes) = (Vec::new(), Vec::new());
        for (id, body) in bodies {
            outcomes.push(match before.get(&id) {
                None => "created",
                Some(there) if *there == body => "unchanged",
                Some(_) => "configured",
            });
            if before.get(&id) != Some(&body) {
                writes.push(PolicyEvent::Put(PolicyEntry { id, body }));
            }
        }
        store.write_policies(&writes).await?;
        Ok(outcomes)
    })?;
    let lines: Vec<_> = names.iter().zip(outcomes).map(|(name, outcome)| format!("{name} {outcome}")).collect();
    output::say(&lines.join("\n"))
}

/// The objects and their bodies, in order; nothing, if one of them cannot be read.
fn checked(manifests: Vec<Manifest>) -> Result<Vec<(ObjectId, String)>, Failure> {
    let (mut bodies, mut errors) = (Vec::<(ObjectId, String)>::new(), Vec::new());
    for Manifest { name, items } in manifests {
        for item in items {
            let place = format!("{name}, line {}", item.line);
            match item.outcome {
                Outcome::Object { object, remarks } => {
                    for remark in remarks {
                        output::complain(&format!("warning: {place}: {remark}"));
                    }
                    let (id, body) = (object.id(), item.value.to_string());
                    match bodies.iter_mut().find(|(known, _)| *known == id) {
                        Some(known) => {
                            output::complain(&format!("warning: {place}: {id} is given twice; the one here counts"));
                            known.1 = body;
                        }
                        None => bodies.push((id, body)),
                    }
                }
                Outcome::Skipped { kind, name } => {
                    output::complain(&format!("warning: {place}: {kind} {name} is of no use to policy and is left out"));
                }
                Outcome::Unreadable { error, .. } => errors.push(format!("{place}: {error}")),
            }
        }
    }
    if !errors.is_empty() {
        return Err(Failure::AnsweredNo(anyhow!("nothing was written:\n{}", errors.join("\n"))));
    }
    if bodies.is_empty() {
        return Err(Failure::AnsweredNo(anyhow!("there is no policy object in what was given, so nothing was written")));
    }
    Ok(bodies)
}
