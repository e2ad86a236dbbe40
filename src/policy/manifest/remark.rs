//! What is said about objects that were not understood, in part or at all.

use std::borrow::Cow;
use std::fmt;

use super::super::model::ObjectId;
use super::at::At;

/// One part of an object that was not understood, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The object.
    pub object: ObjectId,
    /// Where in it: `spec.ingress[0].from[1]`.
    pub path: String,
    /// What could have been understood.
    pub expected: Cow<'static, str>,
    /// What is there, in a few words.
    pub found: String,
    /// What it is taken for.
    pub effect: &'static str,
}

/// Why a value is no object, or one that nothing can be done with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum ManifestError {
    /// The text is not JSON, or too deep.
    #[error("expected a JSON object, found at line {line} column {column}: {problem}")]
    Syntax { line: usize, column: usize, problem: String },
    /// It cannot be told which object this is. The path is that within the value, lists included.
    #[error("{kind}{}: expected {expected}, found {found}", at_path(path))]
    Unnamed { kind: String, path: String, expected: &'static str, found: String },
    /// A part of this object is unreadable without which nothing safe can be made of it.
    #[error("{0}")]
    Unreadable(Box<Remark>),
}

impl ManifestError {
    /// The object that could not be read, if that much is known.
    #[must_use]
    pub fn object(&self) -> Option<&ObjectId> {
        match self {
            Self::Unreadable(remark) => Some(&remark.object),
            Self::Syntax { .. } | Self::Unnamed { .. } => None,
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, path, expected, found, effect } = self;
        write!(to, "{object}: `{path}`: expected {expected}, found {found}; {effect}")
    }
}

/// The remarks on one object while it is read.
pub(super) struct Notes {
    object: ObjectId,
    /// What becomes of the part being read if it is not understood.
    pub(super) effect: &'static str,
    remarks: Vec<Remark>,
}

impl Notes {
    /// Remarks kept of one object: enough to see what is wrong, and no more memory than that.
    const MOST: usize = 32;

    /// No remarks yet.
    pub(super) fn new(object: ObjectId) -> Self {
        Self { object, effect: "it is ignored", remarks: Vec::new() }
    }

    /// Remarks that something else was expected here.
    pub(super) fn add(&mut self, at: &At<'_>, expected: impl Into<Cow<'static, str>>) {
        if self.remarks.len() < Self::MOST {
            let (path, found) = (at.to_string(), at.found());
            let (object, expected, effect) = (self.object.clone(), expected.into(), self.effect);
            self.remarks.push(Remark { object, path, expected, found, effect });
        }
    }

    /// Whether this is an object that has fields of these names only. Remarks on the first that is none.
    pub(super) fn knows(&mut self, at: &At<'_>, names: &[&str]) -> bool {
        if !at.value.is_object() {
            self.add(at, format!("an object with {}", list(names)));
            return false;
        }
        let unknown = at.fields().find(|field| !names.contains(&field.name()));
        if let Some(unknown) = &unknown {
            self.add(unknown, format!("no fields but {}", list(names)));
        }
        unknown.is_none()
    }

    /// Everything remarked.
    pub(super) fn into_remarks(self) -> Vec<Remark> {
        self.remarks
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn at_path(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(": `{path}`") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_remark_says_where_and_what_follows() {
        let value = json!({"spec": {"foo": 1}});
        let root = At::root(&value);
        let mut notes = Notes::new(ObjectId::Node("n1".into()));
        assert!(!notes.knows(&root.place("spec"), &["bar", "baz"]) && notes.knows(&root, &["spec"]));
        let said: Vec<_> = notes.into_remarks().iter().map(ToString::to_string).collect();
        assert_eq!(said, ["Node n1: `spec.foo`: expected no fields but `bar`, `baz`, found 1; it is ignored"]);
    }

    #[test]
    fn remarks_are_bounded() {
        let value = json!(1);
        let mut notes = Notes::new(ObjectId::Node("n1".into()));
        (0..1000).for_each(|_| notes.add(&At::root(&value), "something else"));
        assert_eq!(notes.into_remarks().len(), Notes::MOST);
    }
}
