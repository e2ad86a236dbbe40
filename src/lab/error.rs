//! Why a lab could not do what was asked.

use std::io;
use std::path::PathBuf;

/// Why a lab could not do what was asked. Says what to do about it wherever somebody can.
///
/// Each message is whole: what lies beneath is part of it, and not told again as its source.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum LabError {
    /// No name for a lab.
    #[error("lab name must be a lower-case letter, then letters, digits and dashes, at most {max} in all, found `{found}`")]
    BadName { found: String, max: usize },
    /// No name of a place, in any lab.
    #[error("expected hub, a node such as node1 or n1, or a pod such as node1-pod2 or n1p2, found `{found}`")]
    BadPlace { found: String },
    /// The plan asks for what no lab can be.
    #[error("lab plan: {0}")]
    BadPlan(String),
    /// The lab has no such node or pod.
    #[error("lab `{lab}` has no {place}; it has {known}")]
    NoSuchPlace { lab: String, place: String, known: String },
    /// This process may not build labs.
    #[error("a lab needs {missing}; {remedy}")]
    NotPermitted { missing: String, remedy: String },
    /// A program the lab needs is not there.
    #[error("a lab needs the program {program}, not found at {place}; {remedy}")]
    NoProgram { program: String, place: String, remedy: String },
    /// There is a lab of that name already, whole or half-built.
    #[error("lab `{lab}` exists already ({found}); remove it with `felt lab down{option}`")]
    Exists { lab: String, found: String, option: String },
    /// There is no lab of that name.
    #[error("there is no lab `{lab}` on this machine; make one with `felt lab up{option}`")]
    Absent { lab: String, option: String },
    /// The record of the lab cannot be used.
    #[error("{}: {reason}; remove the lab with `felt lab down{option}`", path.display())]
    BadState { path: PathBuf, reason: String, option: String },
    /// A process of the lab failed. `log` holds the last lines it wrote.
    #[error("{process} {reason}\n{log}")]
    Process { process: String, reason: String, log: String },
    /// A command given to `exec` could not be started.
    #[error("cannot run `{program}` in {place}: {reason}")]
    Exec { program: String, place: String, reason: io::Error },
    /// The kernel or the file system refused a step.
    #[error("failed to {step}: {reason}")]
    Step { step: String, reason: io::Error },
    /// A probe between places did not get through.
    #[error("{0}")]
    Probe(String),
    /// The lab is down, but not everything could be removed.
    #[error("lab `{lab}` could not be removed entirely: {left}")]
    LeftBehind { lab: String, left: String },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// A refused step; use as `.map_err(LabError::step("create namespace x"))`.
    pub(super) fn step<E: Into<io::Error>>(step: impl Into<String>) -> impl FnOnce(E) -> Self {
        let step = step.into();
        move |reason| Self::Step { step, reason: reason.into() }
    }

    /// Whether this machine or this user lacks what a lab needs (exit code 4).
    #[must_use]
    pub fn is_not_permitted(&self) -> bool {
        match self {
            Self::NotPermitted { .. } | Self::NoProgram { .. } => true,
            // Capabilities may be held and still be in vain, as in a container with a filter on system calls.
            Self::Step { reason, .. } => reason.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }

    /// Whether what was asked for makes no sense (exit code 2).
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::BadName { .. } | Self::BadPlace { .. } | Self::BadPlan(_) | Self::NoSuchPlace { .. })
    }
}

/// ` --name NAME` where the lab is not the default one, for use in advice.
pub(super) fn name_option(lab: &super::LabName) -> String {
    if *lab == super::LabName::default() { String::new() } else { format!(" --name {lab}") }
}
