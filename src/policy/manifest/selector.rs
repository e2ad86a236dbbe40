//! Label selectors and labels.

use std::collections::BTreeSet;

use super::super::model::{Labels, Requirement, Selector};
use super::at::At;
use super::remark::Notes;

/// A label selector; `null` is the empty one. `None`: not understood, and remarked on.
pub(super) fn selector(at: &At<'_>, notes: &mut Notes) -> Option<Selector> {
    if at.value.is_null() {
        return Some(Selector::everything());
    }
    if !notes.knows(at, &["matchLabels", "matchExpressions"]) {
        return None;
    }
    let mut requirements = Vec::new();
    if let Some(at) = at.field("matchLabels") {
        match labels(&at) {
            Ok(labels) => {
                for (key, value) in labels {
                    if !is_key(&key) || !is_value(&value) {
                        notes.add(&at, format!("label keys and values, found `{key}: {value}`"));
                        return None;
                    }
                    requirements.push(Requirement::In(key, BTreeSet::from([value])));
                }
            }
            Err(at) => {
                notes.add(&at, "labels: texts by name");
                return None;
            }
        }
    }
    if let Some(at) = at.field("matchExpressions") {
        let Some(items) = at.items() else {
            notes.add(&at, "a list of expressions");
            return None;
        };
        for item in items {
            requirements.push(requirement(&item, notes)?);
        }
    }
    Some(Selector::All(requirements))
}

/// The labels here, or the place that is none. As in the API's own reader a value of `null` is the empty text.
pub(super) fn labels<'a>(at: &'a At<'a>) -> Result<Labels, At<'a>> {
    let Some(fields) = at.value.as_object() else {
        return if at.value.is_null() { Ok(Labels::new()) } else { Err(*at) };
    };
    let label = |(name, value): (&'a String, &'a serde_json::Value)| match value {
        serde_json::Value::Null => Ok((name.clone(), String::new())),
        serde_json::Value::String(text) => Ok((name.clone(), text.clone())),
        _ => Err(at.place(name)),
    };
    fields.iter().map(label).collect()
}

fn requirement(at: &At<'_>, notes: &mut Notes) -> Option<Requirement> {
    if !notes.knows(at, &["key", "operator", "values"]) {
        return None;
    }
    let key = at.place("key");
    let Some(name) = key.text().filter(|name| is_key(name)) else {
        notes.add(&key, "the key of a label");
        return None;
    };
    let values = at.place("values");
    let read = match values.items() {
        Some(items) => items.map(|item| item.text().filter(|text| is_value(text)).map(str::to_owned)).collect(),
        None => values.value.is_null().then(BTreeSet::new),
    };
    let Some(read) = read else {
        notes.add(&values, "a list of label values");
        return None;
    };
    let operator = at.place("operator");
    let name = name.to_owned();
    match (operator.text(), read.is_empty()) {
        (Some("In"), false) => Some(Requirement::In(name, read)),
        (Some("NotIn"), false) => Some(Requirement::NotIn(name, read)),
        (Some("Exists"), true) => Some(Requirement::Exists(name)),
        (Some("DoesNotExist"), true) => Some(Requirement::DoesNotExist(name)),
        (Some("In" | "NotIn"), true) => {
            notes.add(&values, "at least one value");
            None
        }
        (Some("Exists" | "DoesNotExist"), false) => {
            notes.add(&values, "no values, as the operator takes none");
            None
        }
        _ => {
            notes.add(&operator, "`In`, `NotIn`, `Exists` or `DoesNotExist`");
            None
        }
    }
}

/// Whether this can be a label's key: a name of 63 characters at most, behind a DNS name and a slash if need be.
fn is_key(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let is_dns = |prefix: &str| {
        prefix.len() <= 253
            && prefix.split('.').all(|part| {
                let inside = part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
                inside && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
            })
    };
    !name.is_empty() && is_value(name) && prefix.is_none_or(is_dns)
}

/// Whether this can be a label's value: nothing, or 63 characters at most that begin and end with a letter or a digit.
fn is_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let at_ends = [bytes.first(), bytes.last()].into_iter().flatten().all(u8::is_ascii_alphanumeric);
    let inside = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    bytes.len() <= 63 && at_ends && inside
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::model::ObjectId;
    use super::*;

    fn read(value: &Value) -> (Option<Selector>, usize) {
        let mut notes = Notes::new(ObjectId::Node("n".into()));
        let read = selector(&At::root(value), &mut notes);
        (read, notes.into_remarks().len())
    }

    #[test]
    fn what_the_api_takes_is_understood() {
        let values = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect::<BTreeSet<_>>();
        let table = [
            (json!(null), vec![]),
            (json!({}), vec![]),
            (json!({"matchLabels": null, "matchExpressions": []}), vec![]),
            (json!({"matchLabels": {"a": "", "b.c/D_e": "1.x"}}), {
                vec![Requirement::In("a".into(), values(&[""])), Requirement::In("b.c/D_e".into(), values(&["1.x"]))]
            }),
            (json!({"matchLabels": {"a": null}}), vec![Requirement::In("a".into(), values(&[""]))]),
            (
                json!({"matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["x", "y", "x"]}, {"key": "b", "operator": "NotIn", "values": ["z"]},
                    {"key": "c", "operator": "Exists"}, {"key": "d", "operator": "DoesNotExist", "values": []}
                ]}),
                {
                    let (c, d) = (Requirement::Exists("c".into()), Requirement::DoesNotExist("d".into()));
                    vec![Requirement::In("a".into(), values(&["x", "y"])), Requirement::NotIn("b".into(), values(&["z"])), c, d]
                },
            ),
        ];
        for (value, expected) in table {
            assert_eq!(read(&value), (Some(Selector::All(expected)), 0), "{value}");
        }
    }

    #[test]
    fn anything_else_is_remarked_on() {
        let table = [
            json!(1),
            json!([]),
            json!({"matchLabel": {}}),
            json!({"matchLabels": ["a"]}),
            json!({"matchLabels": {"a": 1}}),
            json!({"matchLabels": {"a b": "c"}}),
            json!({"matchLabels": {"a": "-"}}),
            json!({"matchExpressions": {}}),
            json!({"matchExpressions": [null]}),
            json!({"matchExpressions": [{"operator": "Exists"}]}),
            json!({"matchExpressions": [{"key": "", "operator": "DoesNotExist"}]}),
            json!({"matchExpressions": [{"key": "-a", "operator": "DoesNotExist"}]}),
            json!({"matchExpressions": [{"key": "/a", "operator": "DoesNotExist"}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "in", "values": ["x"]}]}),
            json!({"matchExpressions": [{"key": "a", "values": ["x"]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": []}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": [1]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x y"]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": "x"}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "not": true}]}),
            json!({"matchExpressions": [{"key": "a".repeat(64), "operator": "DoesNotExist"}]}),
        ];
        for value in table {
            assert_eq!(read(&value), (None, 1), "{value}");
        }
    }
}
