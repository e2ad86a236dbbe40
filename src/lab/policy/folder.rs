//! The lab's own folder of manifests.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::lab::{Lab, LabError};

/// The folder's name in the lab's directory.
const FOLDER: &str = "policy";
/// The file that describes the lab itself.
const LAB_FILE: &str = "lab.yaml";

impl Lab {
    /// The lab's own folder of manifests; `None` if its daemons enforce no policy.
    #[must_use]
    pub fn policy_dir(&self) -> Option<PathBuf> {
        self.plan().policy.as_ref().map(|_| self.directory().join(FOLDER))
    }

    /// Puts objects into the lab's own folder, as file `name`, in place of what that held before. The daemons follow.
    ///
    /// # Errors
    /// When the lab has no policy, or the file cannot be written.
    pub fn put_manifest(&self, name: &str, objects: &[Value]) -> Result<(), LabError> {
        let file = self.manifest(name)?;
        // Beside the folder, where nobody looks for manifests.
        let next = self.directory().join(format!("{name}.next"));
        let write = || fs::write(&next, documents(objects)).and_then(|()| fs::rename(&next, &file));
        write().map_err(LabError::step(format!("write {}", file.display())))
    }

    /// Takes file `name` out of the lab's own folder. Its absence is no error.
    ///
    /// # Errors
    /// When the lab has no policy, or the file cannot be removed.
    pub fn remove_manifest(&self, name: &str) -> Result<(), LabError> {
        let file = self.manifest(name)?;
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LabError::step(format!("remove {}", file.display()))(error))
            }
            _ => Ok(()),
        }
    }

    /// The arguments of a node's daemon; none in a lab without policy.
    pub(in crate::lab) fn policy_args(&self, node: &str) -> Vec<String> {
        let (Some(policy), Some(own)) = (&self.plan().policy, self.policy_dir()) else { return Vec::new() };
        let dirs = std::iter::once(own.as_path()).chain(policy.dirs.iter().map(PathBuf::as_path));
        let dirs = dirs.flat_map(|dir| ["--policy-dir".to_owned(), text(dir)]);
        let rest = ["--policy-scope", policy.scope.as_str(), "--node-name", node];
        dirs.chain(rest.map(str::to_owned)).collect()
    }

    /// Makes the folder, if the lab has policy, with nodes and no pods in it.
    pub(in crate::lab) fn create_policy_dir(&self) -> Result<(), LabError> {
        let Some(dir) = self.policy_dir() else { return Ok(()) };
        fs::create_dir_all(&dir).map_err(LabError::step(format!("create {}", dir.display())))?;
        self.publish_pods()
    }

    /// Writes down, if the lab has policy, which pods there are now.
    pub(in crate::lab) fn publish_pods(&self) -> Result<(), LabError> {
        if self.plan().policy.is_none() {
            return Ok(());
        }
        // Held until it is written, so that of two writers the one that knows more comes last.
        let state = self.state();
        let pods = state.pods.iter().map(|pod| (pod.place, pod.address));
        self.put_manifest(LAB_FILE, &self.plan().objects(pods))
    }

    fn manifest(&self, name: &str) -> Result<PathBuf, LabError> {
        let dir = self.policy_dir();
        let dir = dir.ok_or_else(|| LabError::BadPlan(format!("lab `{}` enforces no policy", self.plan().name)))?;
        Ok(dir.join(name))
    }
}

/// Documents of one YAML stream. JSON is YAML.
fn documents(objects: &[Value]) -> String {
    objects.iter().fold(String::new(), |text, object| text + "---\n" + &object.to_string() + "\n")
}

/// Paths of a plan come from a command line or a record, both of which are text.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_document_is_json_on_a_line_of_its_own() {
        let text = documents(&[json!({ "kind": "A", "text": "two\nlines" }), json!({ "kind": "B" })]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!((lines[0], lines[2]), ("---", "---"));
        assert_eq!(serde_json::from_str::<Value>(lines[1]).unwrap()["text"], "two\nlines");
        assert_eq!(serde_json::from_str::<Value>(lines[3]).unwrap(), json!({ "kind": "B" }));
    }
}
