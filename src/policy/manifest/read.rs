//! One value read: an object, or the objects of a list.

use serde_json::Value;

use super::super::model::{Object, ObjectId, PolicyKind};
use super::at::At;
use super::head::{Head, Header, Kind, unnamed};
use super::remark::{ManifestError, Notes, Remark};
use super::{cluster_policy, network_policy, place, pod};

/// What became of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// It was understood, but for what the remarks say; that part fails closed.
    Object {
        /// The object.
        object: Object,
        /// What was not understood; at most 32 remarks on one object.
        remarks: Vec<Remark>,
    },
    /// It is of a kind that policy does not need, such as a `Service`.
    Skipped {
        /// Its kind.
        kind: String,
        /// Its namespace; empty if it names none.
        namespace: String,
        /// Its name; empty if it has none.
        name: String,
    },
}

/// How deep lists may lie in lists.
const DEEPEST_LIST: usize = 4;

/// Reads one Kubernetes object, or each object of a `List` or of a typed list such as `PodList`.
///
/// Each object is judged alone: an unreadable one is an error in its place and does not stop the others.
#[must_use]
pub fn read(value: &Value) -> Vec<Result<Read, ManifestError>> {
    let mut found = Vec::new();
    value_at(&At::root(value), ("", ""), DEEPEST_LIST, &mut found);
    found
}

/// The same from JSON text.
///
/// # Errors
/// [`ManifestError::Syntax`], as the only item, when it is not JSON or nested more than 128 deep.
#[must_use]
pub fn read_text(text: &str) -> Vec<Result<Read, ManifestError>> {
    match serde_json::from_str(text) {
        Ok(value) => read(&value),
        Err(error) => {
            let (line, column, problem) = (error.line(), error.column(), error.to_string());
            let problem = problem.split(" at line ").next().unwrap_or_default().to_owned();
            vec![Err(ManifestError::Syntax { line, column, problem })]
        }
    }
}

impl Read {
    /// What names the object, if it is one of ours.
    #[must_use]
    pub fn id(&self) -> Option<ObjectId> {
        match self {
            Self::Object { object, .. } => Some(object.id()),
            Self::Skipped { .. } => None,
        }
    }
}

fn value_at(at: &At<'_>, outer: (&str, &str), deeper: usize, found: &mut Vec<Result<Read, ManifestError>>) {
    match Header::read(at, outer) {
        Ok(Header::Known(head)) => found.push(known(&head, at)),
        Ok(Header::Other { kind, namespace, name }) => found.push(Ok(Read::Skipped { kind, namespace, name })),
        Err(error) => found.push(Err(error)),
        Ok(Header::List { kind, version }) => {
            let list = at.place("items");
            match list.items() {
                Some(_) if deeper == 0 => found.push(Err(unnamed("List", at, "no lists so deep in lists"))),
                Some(items) => items.for_each(|item| value_at(&item, (&kind, &version), deeper - 1, found)),
                None if list.value.is_null() => {}
                None => found.push(Err(unnamed("List", &list, "a list of objects"))),
            }
        }
    }
}

/// Reads the body of an object that is known by name. Paths begin at the object, wherever it lies.
fn known(head: &Head, at: &At<'_>) -> Result<Read, ManifestError> {
    let root = At::root(at.value);
    let mut notes = Notes::new(head.id());
    if !head.usual_version {
        notes.effect = "it is read as if it were that version";
        notes.add(&root.place("apiVersion"), "the version of this kind that is known here");
    }
    let object = match head.kind {
        Kind::Namespace => Object::Namespace(place::namespace(head, &root)?),
        Kind::Node => Object::Node(place::node(head, &root, &mut notes)?),
        Kind::Pod => Object::Pod(pod::read(head, &root, &mut notes)?),
        Kind::Policy(PolicyKind::NetworkPolicy) => Object::Policy(network_policy::read(head, &root, &mut notes)),
        Kind::Policy(kind) => Object::Policy(cluster_policy::read(kind, head, &root, &mut notes)),
    };
    Ok(Read::Object { object, remarks: notes.into_remarks() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each item in a few words.
    fn said(value: &Value) -> Vec<String> {
        let say = |item| match item {
            Ok(Read::Object { object, remarks }) => format!("{} {}", object.id(), remarks.len()),
            Ok(Read::Skipped { kind, namespace, name }) => format!("skipped {kind} {namespace}/{name}"),
            Err(error) => format!("error {error}"),
        };
        read(value).into_iter().map(say).collect()
    }

    #[test]
    fn an_object_is_known_by_its_kind_and_name() {
        let policy =
            |version: &str, kind: &str, metadata: Value| json!({"apiVersion": version, "kind": kind, "metadata": metadata});
        let (np, group) = ("networking.k8s.io/v1", "policy.networking.k8s.io");
        let table = [
            (policy(np, "NetworkPolicy", json!({"name": "a"})), "NetworkPolicy default/a 0"),
            (policy(np, "NetworkPolicy", json!({"name": "a", "namespace": ""})), "NetworkPolicy default/a 0"),
            (policy("extensions/v1beta1", "NetworkPolicy", json!({"name": "a", "namespace": "b"})), "NetworkPolicy b/a 1"),
            (json!({"kind": "NetworkPolicy", "metadata": {"name": "a"}}), "NetworkPolicy default/a 1"),
            (policy("crd.projectcalico.org/v1", "NetworkPolicy", json!({"name": "a"})), "skipped NetworkPolicy /a"),
            (
                policy(&format!("{group}/v9"), "AdminNetworkPolicy", json!({"name": "a", "namespace": 1})),
                "AdminNetworkPolicy a 2",
            ),
            (policy("v1", "Service", json!({"name": "a", "namespace": "b"})), "skipped Service b/a"),
            (policy("v1", "Service", json!(null)), "skipped Service /"),
            (policy("v1", "Namespace", json!({"name": "a"})), "Namespace a 0"),
            (policy("v1", "Pod", json!({})), "error Pod: `metadata.name`: expected a name, found nothing"),
            (policy("v1", "Pod", json!({"name": 1})), "error Pod: `metadata.name`: expected a name, found 1"),
            (policy("v1", "Pod", json!({"name": "a", "namespace": 1})), {
                "error Pod: `metadata.namespace`: expected the name of a namespace, found 1"
            }),
            (json!({}), "error an object: `kind`: expected a kind, such as `NetworkPolicy`, found nothing"),
            (json!(1), "error an object: expected an object with `apiVersion`, `kind` and `metadata`, found 1"),
        ];
        for (value, expected) in table {
            assert_eq!(said(&value), [expected], "{value}");
        }
    }

    #[test]
    fn a_bad_object_in_a_list_does_not_stop_the_others() {
        let value = json!({"kind": "List", "apiVersion": "v1", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}, null, {"kind": "Pod", "apiVersion": "v1"},
            {"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n"}}]},
            {"apiVersion": "v1", "kind": "PodList"}, {"apiVersion": "v1", "kind": "PodList", "items": 3}
        ]});
        assert_eq!(
            said(&value),
            [
                "Namespace a 0",
                "error an object: `items[1]`: expected an object with `apiVersion`, `kind` and `metadata`, found nothing",
                "error Pod: `items[2].metadata.name`: expected a name, found nothing",
                "Node n 0",
                "skipped PodList /",
                "error List: `items[5].items`: expected a list of objects, found 3",
            ]
        );
    }

    #[test]
    fn lists_in_lists_end() {
        let mut value = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
        for _ in 0..DEEPEST_LIST {
            value = json!({"kind": "List", "items": [value]});
        }
        assert_eq!(said(&value), ["Namespace a 0"]);
        value = json!({"kind": "List", "items": [value]});
        assert!(said(&value)[0].contains("expected no lists so deep in lists"));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let error = read_text(&deep).pop().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "expected a JSON object, found at line 1 column 128: recursion limit exceeded");
    }
}
