//! Expectations as they are written.
//!
//! ```yaml
//! allow:
//!   - from: shop/web                      # a pod, node:NAME, ext:NAME, or an address
//!     to: {namespace: shop, labels: {app: db}}
//!     port: TCP/5432                      # or a list, as from and to may be
//! deny:
//!   - note: nobody but web talks to the database
//!     from: [{namespaceLabels: {team: ads}}, guest/*]
//!     to: shop/db-0
//!     port: [TCP/5432, TCP/22]
//! ```

use serde_json::{Map, Value};

use super::{Expectation, Expectations, Probe, ProbeError, Who};
use crate::policy::model::Labels;

/// Why expectations cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpectError {
    /// They are not written as expected.
    #[error("{place}: expected {expected}, found {found}")]
    Syntax {
        /// Where: `allow[0].from`.
        place: String,
        /// What could be understood.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A port is none.
    #[error("{place}: {reason}")]
    Port {
        /// Where.
        place: String,
        /// What is wrong.
        reason: ProbeError,
    },
    /// A name or selector means nothing.
    #[error("{place}: {reason}")]
    Names {
        /// Where.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// An expectation is about nothing.
    #[error("{0}: there is no flow to check: neither end is a pod, or they have no addresses of one family")]
    NoFlow(String),
    /// Nothing is expected.
    #[error("expected at least one entry under `allow` or `deny`, found none")]
    Empty,
}

impl Expectations {
    /// Understands the value of a whole file.
    ///
    /// # Errors
    /// [`ExpectError`], of the first thing that is not as it should be.
    pub fn read(value: &Value) -> Result<Self, ExpectError> {
        let file = fields(value, "the file", &["allow", "deny"])?;
        let mut found = Vec::new();
        for (name, allowed) in [("allow", true), ("deny", false)] {
            let list = match file.get(name) {
                None | Some(Value::Null) => continue,
                Some(Value::Array(list)) => list,
                Some(other) => return Err(syntax(name, "a list of expectations", other)),
            };
            for (number, entry) in list.iter().enumerate() {
                found.push(expectation(entry, format!("{name}[{number}]"), allowed)?);
            }
        }
        if found.is_empty() { Err(ExpectError::Empty) } else { Ok(Self(found)) }
    }
}

fn expectation(value: &Value, place: String, allowed: bool) -> Result<Expectation, ExpectError> {
    let entry = fields(value, &place, &["from", "to", "port", "note"])?;
    let part = |name: &str| {
        let there = entry.get(name).filter(|value| !value.is_null());
        there.ok_or_else(|| syntax(&place, &format!("`{name}`"), &Value::Null)).map(|value| (value, format!("{place}.{name}")))
    };
    let from = part("from").and_then(|(value, place)| each(value, &place, who))?;
    let to = part("to").and_then(|(value, place)| each(value, &place, who))?;
    let probes = part("port").and_then(|(value, place)| each(value, &place, probe))?;
    let note = match entry.get("note") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(note)) => note.clone(),
        Some(other) => return Err(syntax(&format!("{place}.note"), "a text", other)),
    };
    Ok(Expectation { place, note, allowed, from, to, probes })
}

/// One, or each of a list.
fn each<T>(value: &Value, place: &str, read: fn(&Value, &str) -> Result<T, ExpectError>) -> Result<Vec<T>, ExpectError> {
    match value {
        Value::Array(list) if list.is_empty() => Err(syntax(place, "at least one", value)),
        Value::Array(list) => list.iter().enumerate().map(|(number, value)| read(value, &format!("{place}[{number}]"))).collect(),
        value => Ok(vec![read(value, place)?]),
    }
}

fn who(value: &Value, place: &str) -> Result<Who, ExpectError> {
    if let Value::String(text) = value {
        let everybody_in = text.strip_suffix("/*").filter(|namespace| !namespace.is_empty() && !namespace.contains('/'));
        return Ok(match everybody_in {
            Some(namespace) => {
                let (namespace_labels, labels) = Default::default();
                Who::Pods { namespace: Some(namespace.to_owned()), namespace_labels, labels }
            }
            None => Who::End(text.clone()),
        });
    }
    let selector = fields(value, place, &["namespace", "namespaceLabels", "labels"]).map_err(|error| match error {
        ExpectError::Syntax { place, found, .. } if !value.is_object() => {
            let expected = "a name, or a selector with `namespace`, `namespaceLabels` or `labels`".to_owned();
            ExpectError::Syntax { place, expected, found }
        }
        error => error,
    })?;
    let namespace = match selector.get("namespace") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name.clone()),
        Some(other) => return Err(syntax(&format!("{place}.namespace"), "the name of a namespace", other)),
    };
    let labels_at = |name: &str| labels(selector.get(name), &format!("{place}.{name}"));
    Ok(Who::Pods { namespace, namespace_labels: labels_at("namespaceLabels")?, labels: labels_at("labels")? })
}

fn labels(value: Option<&Value>, place: &str) -> Result<Labels, ExpectError> {
    let fields = match value {
        None | Some(Value::Null) => return Ok(Labels::new()),
        Some(Value::Object(fields)) => fields,
        Some(other) => return Err(syntax(place, "labels: texts by name", other)),
    };
    let label = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        other => Err(syntax(&format!("{place}.{key}"), "a text; put it in quotes", other)),
    };
    fields.iter().map(label).collect()
}

fn probe(value: &Value, place: &str) -> Result<Probe, ExpectError> {
    match value {
        Value::String(text) => Probe::parse(text).map_err(|reason| ExpectError::Port { place: place.to_owned(), reason }),
        other => Err(syntax(place, "PROTOCOL/PORT such as TCP/80", other)),
    }
}

/// The fields of an object that has no others than `known`; a misspelt one would be an expectation that nobody checks.
fn fields<'a>(value: &'a Value, place: &str, known: &[&str]) -> Result<&'a Map<String, Value>, ExpectError> {
    let names = || known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let Value::Object(fields) = value else {
        return Err(syntax(place, &format!("an object with {}", names()), value));
    };
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => {
            let (place, expected) = (place.to_owned(), format!("no fields but {}", names()));
            Err(ExpectError::Syntax { place, expected, found: format!("`{key}`") })
        }
        None => Ok(fields),
    }
}

fn syntax(place: &str, expected: &str, found: &Value) -> ExpectError {
    const MOST: usize = 60;
    let found = match found {
        Value::Null => "nothing".to_owned(),
        found => {
            let text = found.to_string();
            let short: String = text.chars().take(MOST).collect();
            if short.len() < text.len() { format!("{short}…") } else { short }
        }
    };
    ExpectError::Syntax { place: place.to_owned(), expected: expected.to_owned(), found }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_or_many_may_be_written() {
        let file = json!({"allow": [{"from": "a/b", "to": ["node:n", "c/*", {"labels": {"app": "db"}}], "port": "TCP/80"}],
                          "deny": [{"from": {}, "to": "192.0.2.1", "port": ["UDP/53", "TCP/53"], "note": "none of that"}]});
        let Expectations(read) = Expectations::read(&file).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].place.as_str(), read[0].allowed, read[0].to.len()), ("allow[0]", true, 3));
        let pods = |namespace: Option<&str>, labels: &[(&str, &str)]| Who::Pods {
            namespace: namespace.map(str::to_owned),
            namespace_labels: Labels::new(),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        };
        assert_eq!(read[0].to, [Who::End("node:n".into()), pods(Some("c"), &[]), pods(None, &[("app", "db")])]);
        assert_eq!((&read[1].from[..], read[1].probes.len()), (&[pods(None, &[])][..], 2));
        assert_eq!((read[1].place.as_str(), read[1].note.as_str(), read[1].allowed), ("deny[0]", "none of that", false));
    }

    #[test]
    fn what_is_misspelt_is_not_passed_over() {
        let one = |entry: Value| json!({"deny": [entry]});
        let table = [
            (json!([]), "the file: expected an object with `allow`, `deny`, found []"),
            (json!({}), "expected at least one entry under `allow` or `deny`, found none"),
            (json!({"allowed": []}), "the file: expected no fields but `allow`, `deny`, found `allowed`"),
            (json!({"allow": {}}), "allow: expected a list of expectations, found {}"),
            (one(json!({"from": "a/b", "port": "TCP/1"})), "deny[0]: expected `to`, found nothing"),
            (one(json!({"from": "a/b", "to": [], "port": "TCP/1"})), "deny[0].to: expected at least one, found []"),
            (one(json!({"from": "a/b", "to": "a/b"})), "deny[0]: expected `port`, found nothing"),
            (one(json!({"from": 7, "to": "a/b", "port": "TCP/1"})), "deny[0].from: expected a name, or a selector with"),
            (one(json!({"from": {"label": {}}, "to": "a", "port": "TCP/1"})), "deny[0].from: expected no fields but `namespace`"),
            (one(json!({"from": {"labels": {"a": 1}}, "to": "a", "port": "TCP/1"})), "deny[0].from.labels.a: expected a text"),
            (
                one(json!({"from": "a/b", "to": "a/b", "port": 80})),
                "deny[0].port: expected PROTOCOL/PORT such as TCP/80, found 80",
            ),
            (one(json!({"from": "a/b", "to": "a/b", "port": ["TCP"]})), "deny[0].port[0]: expected PROTOCOL/PORT"),
        ];
        for (value, expected) in table {
            let error = Expectations::read(&value).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{value}: {error}");
        }
    }
}
