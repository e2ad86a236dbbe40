//! `felt lease watch`.

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::super::options::Target;
use super::super::store::{there, with_registry};
use super::super::{Failure, output};
use super::changes::{Known, News, What};
use super::shown::{columns, object, unnamed_backend};
use crate::control::registry::{RegistryAdmin, RegistryError};

/// Prints the leases, then what changes, until nobody reads it any more.
pub fn watch(as_json: bool, target: Target) -> Result<(), Failure> {
    there(&target)?;
    with_registry(target, async |registry| follow(as_json, registry).await)?
}

async fn follow(as_json: bool, registry: &dyn RegistryAdmin) -> Result<Result<(), Failure>, RegistryError> {
    // A watch waits for a registry that is away; who asks for one that never was there should be told.
    registry.leases().await?;
    let unnamed = unnamed_backend(registry).await;
    let mut updates = registry.watch_leases().await;
    let mut known = Known::default();
    while let Some(update) = updates.recv().await {
        for news in known.take(update) {
            let line = if as_json { line_object(&news).to_string() } else { line(&news, unnamed) };
            match output::tell(&line) {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(())),
                Err(failure) => return Ok(Err(failure)),
            }
        }
    }
    let ended = anyhow::anyhow!("the watch of the leases has broken down; please report what was logged before");
    Ok(Err(Failure::Internal(ended)))
}

/// For programs.
fn line_object(news: &News) -> Value {
    let mut line = json!({"time": now(), "change": name(&news.what), "lease": object(&news.lease)});
    if let What::Changed(respects) = &news.what {
        let before = respects.iter().map(|respect| (respect.name.to_owned(), Value::from(respect.before.as_str())));
        line["before"] = before.collect::<serde_json::Map<_, _>>().into();
    }
    line
}

/// For people.
fn line(news: &News, unnamed: &str) -> String {
    let [subnet, node, backend, left, reserved] = columns(&news.lease, unnamed);
    let what = name(&news.what);
    let lease = format!("{} {what:<8} {subnet:<18} {node:<15} {backend:<8}", now());
    let rest = match &news.what {
        What::Removed => String::new(),
        What::Changed(respects) => {
            let respects = respects.iter().map(|respect| format!("{} was {}", respect.name, respect.before));
            format!(" {left:<8} {reserved} ({})", respects.collect::<Vec<_>>().join(", "))
        }
        _ => format!(" {left:<8} {reserved}"),
    };
    format!("{lease}{rest}").trim_end().to_owned()
}

fn name(what: &What) -> &'static str {
    match what {
        What::Present => "present",
        What::Added => "added",
        What::Renewed => "renewed",
        What::Changed(_) => "changed",
        What::Removed => "removed",
    }
}

fn now() -> String {
    let now = OffsetDateTime::now_utc().truncate_to_second();
    now.format(&Rfc3339).unwrap_or_default()
}
