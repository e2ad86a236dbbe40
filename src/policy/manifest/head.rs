//! Which object a value is: its kind and what names it.

use std::borrow::Cow;

use super::super::model::{ObjectId, PolicyKind};
use super::at::At;
use super::remark::{ManifestError, Remark};

/// The namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// What a value says it is.
#[derive(Debug)]
pub(super) struct Head {
    /// Its kind.
    pub(super) kind: Kind,
    /// Its namespace; empty for kinds that have none.
    pub(super) namespace: String,
    /// Its name.
    pub(super) name: String,
    /// Whether its API version is the one that is understood here; a policy of another one is read all the same.
    pub(super) usual_version: bool,
}

/// Kinds that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `Namespace`.
    Namespace,
    /// `Node`.
    Node,
    /// `Pod`.
    Pod,
    /// A policy.
    Policy(PolicyKind),
}

/// What comes before an object's body.
pub(super) enum Header {
    /// An object that is read.
    Known(Head),
    /// A list, of objects of this kind and version unless they say otherwise; empty for any.
    List { kind: String, version: String },
    /// Of a kind that nobody here has use for.
    Other { kind: String, namespace: String, name: String },
}

impl Header {
    /// Reads it. Items of a list may leave out kind and version: `outer` has what the list says.
    pub(super) fn read(root: &At<'_>, outer: (&str, &str)) -> Result<Self, ManifestError> {
        if !root.value.is_object() {
            return Err(unnamed("", root, "an object with `apiVersion`, `kind` and `metadata`"));
        }
        let kind = root.place("kind");
        let Some(kind_text) = kind.text().or(kind.value.is_null().then_some(outer.0)).filter(|text| !text.is_empty()) else {
            return Err(unnamed("", &kind, "a kind, such as `NetworkPolicy`"));
        };
        let version = root.place("apiVersion");
        let version_text = version.text().or(version.value.is_null().then_some(outer.1)).unwrap_or_default();
        let metadata = root.place("metadata");
        let (name, namespace) = (metadata.place("name"), metadata.place("namespace"));
        let Some((known, usual_version)) = Kind::of(kind_text, version_text) else {
            let (kind, text) = (kind_text.to_owned(), |at: &At<'_>| at.text().unwrap_or_default().to_owned());
            return Ok(match kind.strip_suffix("List") {
                Some(item) if root.field("items").is_some() || kind == "List" => Self::List {
                    kind: item.to_owned(),
                    version: if item.is_empty() { String::new() } else { version_text.into() },
                },
                _ => Self::Other { kind, namespace: text(&namespace), name: text(&name) },
            });
        };
        let Some(name_text) = name.text().filter(|text| !text.is_empty()) else {
            return Err(unnamed(kind_text, &name, "a name"));
        };
        let namespace_text = match namespace.text() {
            _ if !known.has_namespace() => "",
            Some("") => DEFAULT_NAMESPACE,
            Some(text) => text,
            None if namespace.value.is_null() => DEFAULT_NAMESPACE,
            None => return Err(unnamed(kind_text, &namespace, "the name of a namespace")),
        };
        let (namespace, name) = (namespace_text.to_owned(), name_text.to_owned());
        Ok(Self::Known(Head { kind: known, namespace, name, usual_version }))
    }
}

impl Head {
    /// What names the object.
    pub(super) fn id(&self) -> ObjectId {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        match self.kind {
            Kind::Namespace => ObjectId::Namespace(name),
            Kind::Node => ObjectId::Node(name),
            Kind::Pod => ObjectId::Pod { namespace, name },
            Kind::Policy(kind) => ObjectId::Policy { kind, namespace, name },
        }
    }

    /// That nothing can be made of the object, as something else was expected here.
    pub(super) fn unreadable(&self, at: &At<'_>, expected: impl Into<Cow<'static, str>>) -> ManifestError {
        let (path, found, effect) = (at.to_string(), at.found(), "until that is corrected the object is not known");
        ManifestError::Unreadable(Box::new(Remark { object: self.id(), path, expected: expected.into(), found, effect }))
    }
}

impl Kind {
    /// The kind of that name and API version, and whether the version is the usual one.
    ///
    /// Other groups have kinds of the same names, which are other things. A version that is missing or newer is no reason to let
    /// a policy go unheard.
    fn of(kind: &str, version: &str) -> Option<(Self, bool)> {
        let (known, group, usual) = match kind {
            "Namespace" => (Self::Namespace, "", "v1"),
            "Node" => (Self::Node, "", "v1"),
            "Pod" => (Self::Pod, "", "v1"),
            "NetworkPolicy" => (Self::Policy(PolicyKind::NetworkPolicy), "networking.k8s.io", "v1"),
            "ClusterNetworkPolicy" => (Self::Policy(PolicyKind::ClusterNetworkPolicy), "policy.networking.k8s.io", "v1alpha2"),
            "AdminNetworkPolicy" => (Self::Policy(PolicyKind::AdminNetworkPolicy), "policy.networking.k8s.io", "v1alpha1"),
            "BaselineAdminNetworkPolicy" => {
                (Self::Policy(PolicyKind::BaselineAdminNetworkPolicy), "policy.networking.k8s.io", "v1alpha1")
            }
            _ => return None,
        };
        let (found_group, found) = version.rsplit_once('/').unwrap_or(("", version));
        let ours = found_group == group || version.is_empty() || (kind == "NetworkPolicy" && found_group == "extensions");
        ours.then_some((known, found_group == group && found == usual))
    }

    fn has_namespace(self) -> bool {
        matches!(self, Self::Pod | Self::Policy(PolicyKind::NetworkPolicy))
    }
}

/// That it cannot be told which object this is.
pub(super) fn unnamed(kind: &str, at: &At<'_>, expected: &'static str) -> ManifestError {
    let kind = if kind.is_empty() { "an object" } else { kind };
    ManifestError::Unnamed { kind: kind.to_owned(), path: at.to_string(), expected, found: at.found() }
}
