//! What a lab is to do with policy.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::lab::{LabError, LabPlan, RegistryKind};

/// That a lab's daemons enforce policy, and which.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabPolicy {
    /// Folders of manifests besides the lab's own, or single files.
    pub dirs: Vec<PathBuf>,
    /// Which traffic is judged.
    pub scope: PolicyScope,
}

/// Which traffic of a node's pods is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyScope {
    /// What crosses the tunnel.
    #[default]
    Overlay,
    /// All of it, also between pods of one node.
    Node,
}

impl PolicyScope {
    /// Its name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overlay => "overlay",
            Self::Node => "node",
        }
    }
}

impl FromStr for PolicyScope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "overlay" => Ok(Self::Overlay),
            "node" => Ok(Self::Node),
            _ => Err("expected overlay or node".to_owned()),
        }
    }
}

impl fmt::Display for PolicyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// # Errors
/// [`LabError::BadPlan`] when there is no daemon to enforce the policy, or a folder is not there.
pub(in crate::lab) fn check(plan: &LabPlan) -> Result<(), LabError> {
    let Some(policy) = &plan.policy else { return Ok(()) };
    if plan.registry == RegistryKind::Absent {
        return Err(LabError::BadPlan("policy needs daemons, and a lab without a registry has none".to_owned()));
    }
    match policy.dirs.iter().find(|dir| !dir.exists()) {
        Some(dir) => Err(LabError::BadPlan(format!("expected a folder of manifests at {}, found nothing", dir.display()))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_and_written_alike() {
        for scope in [PolicyScope::Overlay, PolicyScope::Node] {
            assert_eq!(scope.to_string().parse(), Ok(scope));
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
        }
        assert!("pod".parse::<PolicyScope>().is_err());
    }

    #[test]
    fn policy_needs_folders_and_daemons() {
        let plan = |policy| LabPlan { policy: Some(policy), ..LabPlan::new("felt".into()) };
        let directory = tempfile::tempdir().unwrap();
        let dirs = |dir: &std::path::Path| plan(LabPolicy { dirs: vec![dir.to_owned()], ..LabPolicy::default() });
        let good = dirs(directory.path());
        assert!(good.check().is_ok());
        let absent = LabPlan { registry: RegistryKind::Absent, ..good };
        assert!(matches!(absent.check(), Err(LabError::BadPlan(why)) if why.contains("daemons")));
        let told = dirs("/nowhere/at/all".as_ref()).check().unwrap_err().to_string();
        assert!(told.contains("manifests at /nowhere/at/all, found nothing"), "{told}");
    }
}
