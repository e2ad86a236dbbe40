//! Policy objects kept beside the leases: what a store offers for them, and under which keys they lie.
//!
//! The registry keeps bodies and judges none: whether one makes a policy is up to whoever reads it. What names an object is its
//! key, `<kind>/<namespace or _>/<name>`, never its body.

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::RegistryError;
use crate::policy::model::{ObjectId, PolicyKind};

/// Stands for the namespace of what has none. No namespace can be called that.
const NO_NAMESPACE: &str = "_";

/// Longest name. Source: Kubernetes (DNS subdomains).
const NAME_BYTES: usize = 253;

/// An object as a registry keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyEntry {
    /// What it is called.
    pub id: ObjectId,
    /// Its manifest, as JSON.
    pub body: String,
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyEvent {
    /// It is like this now.
    Put(PolicyEntry),
    /// It is gone.
    Deleted(ObjectId),
}

/// What changed: single events, or, after a start or a gap, everything there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyUpdate {
    /// All objects; whatever is not among them is gone.
    Snapshot(Vec<PolicyEntry>),
    /// In the registry's order.
    Events(Vec<PolicyEvent>),
}

/// A store that keeps policy objects.
#[async_trait]
pub trait PolicyStore: Send + Sync + 'static {
    /// Where they lie, for messages.
    fn policy_place(&self) -> String;

    /// Every object. Keys that name none are skipped.
    async fn policies(&self) -> Result<Vec<PolicyEntry>, RegistryError>;

    /// Puts and deletes objects, in order. Each is written whole or not at all; of very many, some may be written and others not
    /// when it fails. Doing it twice is no error, deleting what is not there neither.
    async fn write_policies(&self, events: &[PolicyEvent]) -> Result<(), RegistryError>;

    /// Every object, then what changes. Never ends while the receiver lives.
    async fn watch_policies(&self) -> mpsc::Receiver<PolicyUpdate>;
}

/// Why an object has no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a name of 1 to {NAME_BYTES} letters, digits, `-`, `.`, `_` or `:`, found {found:?}")]
pub struct PolicyKeyError {
    found: String,
}

impl PolicyEvent {
    /// The object it is about.
    #[must_use]
    pub fn id(&self) -> &ObjectId {
        match self {
            Self::Put(entry) => &entry.id,
            Self::Deleted(id) => id,
        }
    }
}

/// The key of an object, below the place where all policy objects are.
pub fn policy_key(id: &ObjectId) -> Result<String, PolicyKeyError> {
    let (namespace, name) = match id {
        ObjectId::Namespace(name) | ObjectId::Node(name) => ("", name),
        ObjectId::Pod { namespace, name } | ObjectId::Policy { namespace, name, .. } => (namespace.as_str(), name),
    };
    let namespace = if namespace.is_empty() { NO_NAMESPACE } else { named(namespace)? };
    Ok(format!("{}/{namespace}/{}", kind_of(id), named(name)?))
}

/// The object that such a key names, if it names one.
#[must_use]
pub fn policy_id(key: &str) -> Option<ObjectId> {
    let mut parts = key.split('/');
    let (kind, namespace, name) = (parts.next()?, parts.next()?, named(parts.next()?).ok()?.to_owned());
    if parts.next().is_some() {
        return None;
    }
    let namespace = if namespace == NO_NAMESPACE { String::new() } else { named(namespace).ok()?.to_owned() };
    let id = match kind {
        "namespace" => ObjectId::Namespace(name),
        "node" => ObjectId::Node(name),
        "pod" => ObjectId::Pod { namespace, name },
        _ => ObjectId::Policy { kind: policy_kind(kind)?, namespace, name },
    };
    // One spelling only: what has no namespace lies under none.
    (policy_key(&id).as_deref() == Ok(key)).then_some(id)
}

/// The kind as it is spelled in keys and on the command line: that of manifests, in small letters.
#[must_use]
pub fn kind_of(id: &ObjectId) -> String {
    match id {
        ObjectId::Namespace(_) => "namespace".to_owned(),
        ObjectId::Node(_) => "node".to_owned(),
        ObjectId::Pod { .. } => "pod".to_owned(),
        ObjectId::Policy { kind, .. } => kind.as_str().to_ascii_lowercase(),
    }
}

fn policy_kind(text: &str) -> Option<PolicyKind> {
    use PolicyKind::{AdminNetworkPolicy, BaselineAdminNetworkPolicy, ClusterNetworkPolicy, NetworkPolicy};
    let kinds = [NetworkPolicy, ClusterNetworkPolicy, AdminNetworkPolicy, BaselineAdminNetworkPolicy];
    kinds.into_iter().find(|kind| kind.as_str().to_ascii_lowercase() == text)
}

/// A name that can be part of a key: nothing that would make another key of it.
fn named(text: &str) -> Result<&str, PolicyKeyError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    let possible = (1..=NAME_BYTES).contains(&text.len()) && text != NO_NAMESPACE && text.bytes().all(fits);
    if possible { Ok(text) } else { Err(PolicyKeyError { found: text.chars().take(NAME_BYTES).collect() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(kind: PolicyKind, namespace: &str, name: &str) -> ObjectId {
        ObjectId::Policy { kind, namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn every_object_has_a_key_and_every_key_one_object() {
        for (id, key) in [
            (ObjectId::Namespace("default".into()), "namespace/_/default"),
            (ObjectId::Node("n1.example".into()), "node/_/n1.example"),
            (ObjectId::Pod { namespace: "a".into(), name: "b-0".into() }, "pod/a/b-0"),
            (policy(PolicyKind::NetworkPolicy, "a", "deny"), "networkpolicy/a/deny"),
            (policy(PolicyKind::ClusterNetworkPolicy, "", "x"), "clusternetworkpolicy/_/x"),
            (policy(PolicyKind::AdminNetworkPolicy, "", "x"), "adminnetworkpolicy/_/x"),
            (policy(PolicyKind::BaselineAdminNetworkPolicy, "", "default"), "baselineadminnetworkpolicy/_/default"),
        ] {
            assert_eq!(policy_key(&id).as_deref(), Ok(key));
            assert_eq!(policy_id(key), Some(id));
        }
    }

    #[test]
    fn what_is_no_name_makes_no_key() {
        for name in ["", "_", "a/b", "a b", "..\u{0}", &"x".repeat(254)] {
            let error = policy_key(&policy(PolicyKind::NetworkPolicy, "a", name)).unwrap_err().to_string();
            assert!(error.starts_with("expected a name"), "{error}");
        }
        for key in ["", "pod", "pod/a", "pod/a/", "pod//b", "pod/a/b/c", "Pod/a/b", "secret/a/b", "namespace/a/b", "/pod/a/b"] {
            assert_eq!(policy_id(key), None, "{key}");
        }
    }
}
