//! From documents to policy objects: lists taken apart, each object read alone, and what is wrong with it said in a few words.

use std::path::Path;

use serde_json::{Value, json};

use super::Complaint;
use super::documents::{self, Document, DocumentError, Format};
use crate::policy::manifest::{self, ManifestError, Read};
use crate::policy::model::{Object, ObjectId, PolicyKind};

/// How deep lists may lie in lists.
const DEEPEST_LIST: usize = 4;

/// One object of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The line where its document begins.
    pub line: u64,
    /// The object as it was given; what it inherits from its list is filled in.
    pub value: Value,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is understood, but for what the remarks say.
    Object {
        /// The object.
        object: Box<Object>,
        /// What was not understood of it, each a sentence.
        remarks: Vec<String>,
    },
    /// It is of a kind that policy does not need, such as a `Service`.
    Skipped {
        /// Its kind.
        kind: String,
        /// Its name; empty if it has none.
        name: String,
    },
    /// It cannot be used.
    Unreadable {
        /// Which object it is, if that is known.
        id: Option<ObjectId>,
        /// What is wrong with it.
        error: ManifestError,
    },
}

/// How a file is to be read, by its name. `None`: it is none that holds manifests.
#[must_use]
pub fn format_of(file: &Path) -> Option<Format> {
    match file.extension()?.to_str()? {
        "json" => Some(Format::Json),
        "yaml" | "yml" => Some(Format::Yaml),
        _ => None,
    }
}

/// Every object in a text.
///
/// # Errors
/// When the text cannot be read as a whole.
pub fn read(text: &str, format: Format) -> Result<Vec<Item>, DocumentError> {
    let mut items = Vec::new();
    for Document { line, value } in documents::read(text, format)? {
        take_apart(value, DEEPEST_LIST, &mut |value| items.push(item(line, value)));
    }
    Ok(items)
}

/// The object in a registry's body, known there as `id`.
///
/// # Errors
/// What is wrong with it, in a sentence.
pub fn read_body(id: &ObjectId, body: &str) -> Result<(Object, Vec<String>), String> {
    let mut found = manifest::read_text(body).into_iter();
    match (found.next(), found.next()) {
        (Some(Ok(Read::Object { object, remarks })), None) if object.id() == *id => {
            Ok((object, remarks.iter().map(ToString::to_string).collect()))
        }
        (Some(Ok(Read::Object { object, .. })), None) => {
            Err(format!("expected the object that the key names, {id}, found {}", object.id()))
        }
        (Some(Err(error)), None) => Err(error.to_string()),
        (Some(Ok(Read::Skipped { kind, .. })), None) => Err(format!("expected {id}, found a {kind}")),
        _ => Err(format!("expected {id} alone, found a list")),
    }
}

impl Item {
    /// What there is to be said about it; `place` is the file it is in. Kinds that policy does not need are nothing to speak of.
    #[must_use]
    pub fn complaints(&self, place: &str) -> Vec<Complaint> {
        let place = format!("{place}, line {}", self.line);
        match &self.outcome {
            Outcome::Object { remarks, .. } => remarks.iter().map(|remark| Complaint::remark(&place, remark)).collect(),
            Outcome::Skipped { .. } => Vec::new(),
            Outcome::Unreadable { error, .. } => vec![Complaint::error(place, error.to_string())],
        }
    }
}

/// Reads one object. It is no list.
fn item(line: u64, value: Value) -> Item {
    let outcome = match manifest::read(&value).pop() {
        Some(Ok(Read::Object { object, remarks })) => {
            Outcome::Object { object: Box::new(object), remarks: remarks.iter().map(ToString::to_string).collect() }
        }
        Some(Ok(Read::Skipped { kind, name, .. })) => Outcome::Skipped { kind, name },
        Some(Err(error)) => Outcome::Unreadable { id: error.object().cloned(), error },
        // A list without items.
        None => Outcome::Skipped { kind: "List".to_owned(), name: String::new() },
    };
    Item { line, value, outcome }
}

/// Gives `take` the objects of `value`: itself, or those of the list that it is.
fn take_apart(mut value: Value, deeper: usize, take: &mut impl FnMut(Value)) {
    let kind = value.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    let version = value.get("apiVersion").cloned();
    match (kind, value.get_mut("items")) {
        (Some(kind), Some(Value::Array(items))) if deeper > 0 => {
            for mut item in std::mem::take(items) {
                if let (Value::Object(fields), false) = (&mut item, kind.is_empty()) {
                    fields.entry("kind").or_insert_with(|| kind.clone().into());
                    fields.entry("apiVersion").or_insert_with(|| version.clone().unwrap_or_default());
                }
                take_apart(item, deeper - 1, take);
            }
        }
        _ => take(value),
    }
}

/// What stands in for a policy of which nothing but its name can be read; `None` for what is no policy.
pub fn closed(id: &ObjectId) -> Option<Object> {
    let ObjectId::Policy { kind, namespace, name } = id else { return None };
    let group = match kind {
        PolicyKind::NetworkPolicy => "networking.k8s.io/v1",
        PolicyKind::ClusterNetworkPolicy => "policy.networking.k8s.io/v1alpha2",
        PolicyKind::AdminNetworkPolicy | PolicyKind::BaselineAdminNetworkPolicy => "policy.networking.k8s.io/v1alpha1",
    };
    // As a manifest with a spec that is none, which is read as what lets least through.
    let metadata = json!({ "namespace": namespace, "name": name });
    let manifest = json!({ "apiVersion": group, "kind": kind.as_str(), "metadata": metadata, "spec": "unreadable" });
    match manifest::read(&manifest).pop() {
        Some(Ok(Read::Object { object, .. })) if object.id() == *id => Some(object),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::{Action, Rule};

    const LIST: &str = "apiVersion: v1
kind: NamespaceList
items:
- metadata: {name: a}
- metadata: {name: b}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: s}}
- {apiVersion: v1, kind: Namespace, metadata: {}}
- {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p}, spec: {podSelector: {}, ingress: 7}}
";

    #[test]
    fn lists_are_taken_apart_and_each_object_is_judged_alone() {
        let items = read(LIST, Format::Yaml).unwrap();
        let said: Vec<_> = items
            .iter()
            .map(|item| match &item.outcome {
                Outcome::Object { object, remarks } => format!("{} {} {}", item.line, object.id(), remarks.len()),
                Outcome::Skipped { kind, name } => format!("{} skipped {kind} {name}", item.line),
                Outcome::Unreadable { id, .. } => format!("{} unreadable {id:?}", item.line),
            })
            .collect();
        assert_eq!(
            said,
            ["1 Namespace a 0", "1 Namespace b 0", "7 skipped Service s", "7 unreadable None", "7 NetworkPolicy default/p 1"]
        );
        assert_eq!(items[1].value, serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}}));
        let complaints: Vec<_> = items.iter().flat_map(|item| item.complaints("f.yaml")).collect();
        assert_eq!(complaints.len(), 2);
        let told = complaints[1].to_string();
        assert!(told.starts_with("f.yaml, line 7: NetworkPolicy default/p: `spec.ingress`"), "{told}");
    }

    #[test]
    fn a_body_is_of_its_key_s_object_or_of_none() {
        let id = ObjectId::Namespace("a".into());
        let body = |name: &str| format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
        assert_eq!(read_body(&id, &body("a")).unwrap().0.id(), id);
        for (text, part) in [
            (body("b"), "found Namespace b"),
            ("{".to_owned(), "line 1"),
            (r#"{"kind":"List","items":[]}"#.to_owned(), "found a list"),
            (format!(r#"{{"kind":"List","items":[{0},{0}]}}"#, body("a")), "found a list"),
            (r#"{"kind":"Service","apiVersion":"v1"}"#.to_owned(), "found a Service"),
        ] {
            let error = read_body(&id, &text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_s_name_says_how_it_is_written() {
        for (name, format) in [
            ("a.yaml", Some(Format::Yaml)),
            ("a.b.yml", Some(Format::Yaml)),
            ("a.json", Some(Format::Json)),
            ("a.yaml~", None),
            ("a.YAML", None),
            ("yaml", None),
            (".yaml", None),
        ] {
            assert_eq!(format_of(Path::new(name)), format, "{name}");
        }
    }

    #[test]
    fn a_policy_stands_closed_for_what_cannot_be_read_of_it() {
        let id = |kind, namespace: &str| ObjectId::Policy { kind, namespace: namespace.into(), name: "p".into() };
        let kinds = [
            id(PolicyKind::NetworkPolicy, "web"),
            id(PolicyKind::ClusterNetworkPolicy, ""),
            id(PolicyKind::AdminNetworkPolicy, ""),
            ObjectId::Policy { kind: PolicyKind::BaselineAdminNetworkPolicy, namespace: String::new(), name: "default".into() },
        ];
        for id in kinds {
            let Some(Object::Policy(policy)) = closed(&id) else { panic!("{id}") };
            assert_eq!(Object::Policy(policy.clone()).id(), id);
            let accepts = |rules: &Option<Vec<Rule>>| {
                rules.as_ref().is_none_or(|rules| rules.iter().any(|rule| rule.action != Action::Deny))
            };
            assert!(!accepts(&policy.ingress) && !accepts(&policy.egress), "{policy:?}");
        }
        assert_eq!(closed(&ObjectId::Namespace("web".into())), None);
    }
}
