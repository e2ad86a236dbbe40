//! From what flags say to a client: a kubeconfig file, an address, or the service account of a pod.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{InClusterError, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::{KubeAccess, KubeApi};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why that cannot be tried.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum KubeAccessError {
    /// The URL is none.
    #[error("Kubernetes API: expected a URL such as https://10.0.0.1:6443, found `{url}`")]
    Url { url: String },
    /// The file cannot be used.
    #[error("kubeconfig file {path}: {reason}", path = .path.display())]
    Kubeconfig { path: PathBuf, reason: String },
    /// Not a pod, or one without a service account.
    #[error("Kubernetes API: this is no pod with a service account ({reason}); give --kubeconfig-file or --kube-api-url")]
    NotInCluster { reason: String },
    /// Certificates or keys make no sense.
    #[error("Kubernetes API at {place}: {reason}")]
    Client { place: String, reason: String },
}

impl KubeAccess {
    /// The API server, not contacted yet. Must be called within a runtime.
    ///
    /// # Errors
    /// [`KubeAccessError`] says which file or flag is at fault.
    pub fn api(&self) -> Result<KubeApi, KubeAccessError> {
        let mut config = self.config()?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // Whoever calls knows better what is worth trying again.
        config.default_retry = false;
        let place = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        match Client::try_from(config) {
            Ok(client) => Ok(KubeApi::new(client, place)),
            Err(error) => Err(KubeAccessError::Client { place, reason: super::api::describe(&error) }),
        }
    }

    fn config(&self) -> Result<Config, KubeAccessError> {
        let url = match &self.api_url {
            Some(url) => match url.parse::<hyper::Uri>() {
                Ok(parsed) if matches!(parsed.scheme_str(), Some("http" | "https")) => Some(parsed),
                _ => return Err(KubeAccessError::Url { url: url.clone() }),
            },
            None => None,
        };
        let Some(path) = &self.kubeconfig else {
            let in_cluster = |error: InClusterError| KubeAccessError::NotInCluster { reason: super::api::describe(&error) };
            return url.map_or_else(|| Config::incluster().map_err(in_cluster), |url| Ok(Config::new(url)));
        };
        let unusable =
            |error: KubeconfigError| KubeAccessError::Kubeconfig { path: path.clone(), reason: super::api::describe(&error) };
        let mut config = Config::try_from(Kubeconfig::read_from(path).map_err(unusable)?).map_err(unusable)?;
        if let Some(url) = url {
            config.cluster_url = url;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'http://192.0.2.1:8080'}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
";

    #[tokio::test]
    async fn a_file_an_address_or_both() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, KUBECONFIG).unwrap();
        let place = |api_url: Option<&str>, kubeconfig: Option<&PathBuf>| {
            let access = KubeAccess { api_url: api_url.map(str::to_owned), kubeconfig: kubeconfig.cloned() };
            access.api().map(|api| api.place().to_owned()).map_err(|error| error.to_string())
        };
        assert_eq!(place(None, Some(&path)).unwrap(), "http://192.0.2.1:8080");
        assert_eq!(place(Some("http://h:1"), Some(&path)).unwrap(), "http://h:1");
        assert_eq!(place(Some("https://h/"), None).unwrap(), "https://h");
        for (url, file, part) in [
            (Some("h:1/x y"), None, "expected a URL such as"),
            (Some("ftp://h"), None, "found `ftp://h`"),
            (None, Some(folder.path().join("none")), "none: "),
            (None, None, "--kubeconfig-file"),
        ] {
            let error = place(url, file.as_ref()).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        std::fs::write(&path, "current-context: y\n").unwrap();
        assert!(place(None, Some(&path)).unwrap_err().starts_with("kubeconfig file "));
    }
}
