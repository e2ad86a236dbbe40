//! Where policy objects come from: folders of manifests, or the registry. Another source is another [`PolicySource`].
//!
//! A source first sends a snapshot, when it knows everything there is, and then what changes, or after a gap another snapshot.
//! What it could not make sense of comes along as [`Complaint`]s, to be logged by whoever hears them. Several sources are
//! put together by [`Merge`].

pub mod documents;
pub mod files;
mod merge;
pub mod reading;
mod registry;

pub use merge::{Merge, Taken};
pub use registry::RegistrySource;

use std::fmt;

use tokio::sync::mpsc;

use crate::policy::Change;
use crate::policy::model::Object;

/// Reports a source may be ahead of its receiver.
const AHEAD: usize = 16;

/// A place where policy objects are kept.
pub trait PolicySource: Send + 'static {
    /// Which one, for messages.
    fn describe(&self) -> String;

    /// Begins to follow it. Never ends while the receiver lives. Must be called within a runtime.
    fn follow(self: Box<Self>) -> mpsc::Receiver<SourceReport>;
}

/// One report of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceReport {
    /// What is new.
    pub news: SourceNews,
    /// What could not be understood, or only in part.
    pub complaints: Vec<Complaint>,
}

/// What is new at a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceNews {
    /// Everything there is; whatever is not in it is gone. After the first one the source is synced.
    Snapshot(Vec<Object>),
    /// What has changed. Before the first snapshot: what is known already, in part.
    Changes(Vec<Change>),
}

/// Something that was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Complaint {
    /// How bad that is.
    pub weight: Weight,
    /// Where it was: a file and a line, or a key; and which object, if that is known.
    pub place: String,
    /// What was found, what was expected, what follows.
    pub text: String,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weight {
    /// An object is in force, but perhaps not as its author meant.
    Remark,
    /// Something is not in force: a whole object, or a whole file.
    Error,
}

impl Complaint {
    /// An object, or file, is not in force as it stands.
    pub fn error(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { weight: Weight::Error, place: place.into(), text: text.into() }
    }

    /// An object is in force; something about it is worth knowing.
    pub fn remark(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { weight: Weight::Remark, place: place.into(), text: text.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.place, self.text)
    }
}

impl SourceNews {
    /// Nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self::Changes(Vec::new())
    }
}
