//! Policy objects: routes and bodies of our own, which no flannel has.
//!
//! Objects are named by their keys (`<kind>/<namespace or _>/<name>`) and their manifests travel as text, untouched.

use serde::{Deserialize, Serialize};

use crate::control::registry::{PolicyEntry, PolicyEvent, policy_id, policy_key};

/// The largest list of changes a server takes, in bytes: any object that etcd would take, however its text is escaped.
pub const POLICY_WRITE_LIMIT: usize = 4 << 20;

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyBody {
    /// What it is called.
    pub key: String,
    /// Its manifest, JSON as text.
    pub body: String,
}

/// A change of one object. Nothing is deleted by leaving something out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum PolicyChangeBody {
    /// It is like this now, or is to be.
    Put {
        /// What it is called.
        key: String,
        /// Its manifest, JSON as text.
        body: String,
    },
    /// It is gone, or is to go.
    Deleted {
        /// What it was called.
        key: String,
    },
}

/// The answer to a question for policy objects. Exactly one of `events` and `snapshot` is not null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyWatchBody {
    /// What happened, in order. Empty if nothing did for as long as was asked to wait.
    pub events: Option<Vec<PolicyChangeBody>>,
    /// Everything there is.
    pub snapshot: Option<Vec<PolicyBody>>,
    /// Where to go on: `next` of the following question. Clients must not look inside.
    pub cursor: String,
}

impl PolicyBody {
    /// The entry; `None` if the key names no object this version knows.
    pub fn into_entry(self) -> Option<PolicyEntry> {
        Some(PolicyEntry { id: policy_id(&self.key)?, body: self.body })
    }
}

impl PolicyChangeBody {
    /// The body of `event`.
    ///
    /// # Errors
    /// When its object could have no key.
    pub fn of(event: &PolicyEvent) -> Result<Self, String> {
        let key = policy_key(event.id()).map_err(|error| error.to_string())?;
        Ok(match event {
            PolicyEvent::Put(entry) => Self::Put { key, body: entry.body.clone() },
            PolicyEvent::Deleted(_) => Self::Deleted { key },
        })
    }

    /// What the object is called.
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Deleted { key } => key,
        }
    }

    /// The event; `None` if the key names no object this version knows.
    pub fn into_event(self) -> Option<PolicyEvent> {
        let id = policy_id(self.key())?;
        Some(match self {
            Self::Put { body, .. } => PolicyEvent::Put(PolicyEntry { id, body }),
            Self::Deleted { .. } => PolicyEvent::Deleted(id),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::ObjectId;

    #[test]
    fn changes_survive_the_journey_to_the_byte() {
        let id = ObjectId::Pod { namespace: "a".into(), name: "b".into() };
        let put = PolicyEvent::Put(PolicyEntry { id: id.clone(), body: "{ \"no\": \"matter\"\n".into() });
        for (event, text) in [
            (put, r#"{"type":"put","key":"pod/a/b","body":"{ \"no\": \"matter\"\n"}"#),
            (PolicyEvent::Deleted(id), r#"{"type":"deleted","key":"pod/a/b"}"#),
        ] {
            let body = PolicyChangeBody::of(&event).unwrap();
            assert_eq!(serde_json::to_string(&body).unwrap(), text);
            assert_eq!(serde_json::from_str::<PolicyChangeBody>(text).unwrap().into_event(), Some(event));
        }
    }

    #[test]
    fn nothing_is_deleted_by_a_typing_error() {
        for text in [
            r#"{"key":"pod/a/b"}"#,
            r#"{"type":"put","key":"pod/a/b"}"#,
            r#"{"type":"delete","key":"pod/a/b"}"#,
            r#"{"type":"deleted","key":"pod/a/b","bdy":"{}"}"#,
            r#"{"type":"deleted"}"#,
        ] {
            assert!(serde_json::from_str::<PolicyChangeBody>(text).is_err(), "{text}");
        }
        let unknown = PolicyChangeBody::Deleted { key: "secret/a/b".into() };
        assert_eq!(unknown.into_event(), None);
    }
}
