//! Where an API server is and as whom to go there, as flags say it.

use std::path::PathBuf;

/// How to come to an API server, as flannel's flags say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeAccess {
    /// Its URL; in the place of the one that `kubeconfig` names, if both are given.
    pub api_url: Option<String>,
    /// A kubeconfig file. With neither this nor a URL: as a pod, by its service account.
    pub kubeconfig: Option<PathBuf>,
}
