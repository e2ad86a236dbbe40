//! `felt policy delete`.

use std::collections::BTreeSet;

use anyhow::anyhow;

use super::super::options::Target;
use super::super::policy_args::DeleteArgs;
use super::super::store::{there, with_registry};
use super::super::{Failure, output};
use super::kinds::{id, printed};
use super::manifests;
use crate::control::registry::PolicyEvent;
use crate::control::source::reading::Outcome;
use crate::policy::model::ObjectId;

/// Takes objects out of the registry.
pub fn delete(which: DeleteArgs, target: Target) -> Result<(), Failure> {
    let ids = match (which.kind, which.name) {
        (Some(kind), Some(name)) => vec![id(&kind, &name, &which.namespace)?],
        _ => named_in(&which.file)?,
    };
    let names = ids.iter().map(printed).collect::<Result<Vec<_>, _>>()?;
    there(&target)?;
    let found = with_registry(target, async |registry| {
        let store = registry.policy_store()?;
        let before: BTreeSet<_> = store.policies().await?.into_iter().map(|entry| entry.id).collect();
        let found: Vec<_> = ids.iter().map(|id| before.contains(id)).collect();
        let gone: Vec<_> = ids.into_iter().filter(|id| before.contains(id)).map(PolicyEvent::Deleted).collect();
        store.write_policies(&gone).await?;
        Ok(found)
    })?;
    for (name, found) in names.iter().zip(&found) {
        output::say(&format!("{name} {}", if *found { "deleted" } else { "not found" }))?;
    }
    match found.iter().filter(|found| !**found).count() {
        0 => Ok(()),
        missing => Err(Failure::AnsweredNo(anyhow!("{missing} of {} objects were not there", found.len()))),
    }
}

/// The objects that manifests name. What is wrong with them otherwise does not matter here.
fn named_in(files: &[std::path::PathBuf]) -> Result<Vec<ObjectId>, Failure> {
    let mut ids = Vec::new();
    for manifest in manifests::read(files)? {
        for item in manifest.items {
            let id = match item.outcome {
                Outcome::Object { object, .. } => object.id(),
                Outcome::Unreadable { id: Some(id), .. } => id,
                Outcome::Skipped { .. } => continue,
                Outcome::Unreadable { id: None, error } => {
                    let error = anyhow!("nothing was deleted: {}, line {}: {error}", manifest.name, item.line);
                    return Err(Failure::AnsweredNo(error));
                }
            };
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    if ids.is_empty() {
        return Err(Failure::AnsweredNo(anyhow!("there is no policy object in what was given, so nothing was deleted")));
    }
    Ok(ids)
}
