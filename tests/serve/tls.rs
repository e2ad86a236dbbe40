//! TLS and mutual TLS, and what a person reads when it fails.

use std::fs;
use std::path::{Path, PathBuf};

use felt::control::registry::remote::RemoteRegistry;
use felt::control::registry::{PolicyUpdate, Registry, RegistryAdmin, RegistryError};
use felt::control::tls::{TlsFiles, server_config};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::support::{CONFIG, Running, memory, node};

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = directory.join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, directory }
    }

    fn ca(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// A certificate for `name` and its key.
    fn issue(&self, name: &str) -> (Option<PathBuf>, Option<PathBuf>) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.into()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let write = |extension: &str, text: String| {
            let path = self.directory.join(format!("{name}.{extension}"));
            fs::write(&path, text).unwrap();
            Some(path)
        };
        (write("crt", certificate.pem()), write("key", key.serialize_pem()))
    }
}

fn files(ca: impl Into<Option<PathBuf>>, (cert, key): (Option<PathBuf>, Option<PathBuf>)) -> TlsFiles {
    TlsFiles { ca: ca.into(), cert, key }
}

async fn serve(files: &TlsFiles) -> Running {
    Running::start(memory(CONFIG).await, "127.0.0.1:0", server_config(files).unwrap()).await
}

async fn config(server: &Running, files: &TlsFiles) -> Result<String, RegistryError> {
    RemoteRegistry::new(&server.address.to_string(), files).unwrap().config().await
}

#[tokio::test]
async fn a_server_certificate_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new(directory.path(), "ours"), Authority::new(directory.path(), "others"));
    let server = serve(&files(None, ours.issue("127.0.0.1"))).await;
    assert!(config(&server, &files(ours.ca(), (None, None))).await.unwrap().contains("10.1.0.0/16"));

    let error = config(&server, &files(others.ca(), (None, None))).await.unwrap_err();
    assert!(matches!(error, RegistryError::Denied { .. }), "{error}");
    assert!(error.to_string().contains("give the right CA file"), "{error}");

    let plain = config(&server, &TlsFiles::default()).await.unwrap_err();
    assert!(plain.to_string().contains(&server.address.to_string()), "{plain}");

    let misnamed = serve(&files(None, ours.issue("elsewhere.example"))).await;
    let error = config(&misnamed, &files(ours.ca(), (None, None))).await.unwrap_err();
    assert!(matches!(error, RegistryError::Denied { .. }), "{error}");
    assert!(error.to_string().contains("elsewhere.example"), "{error}");
}

#[tokio::test]
async fn client_certificates_are_required_and_checked() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new(directory.path(), "ours"), Authority::new(directory.path(), "others"));
    let server = serve(&files(ours.ca(), ours.issue("127.0.0.1"))).await;
    let good = RemoteRegistry::new(&server.address.to_string(), &files(ours.ca(), ours.issue("node"))).unwrap();
    good.put_config(r#"{"Network":"10.9.0.0/16"}"#).await.unwrap();
    let lease = good.acquire(&node(1)).await.unwrap();
    assert!(lease.subnet.to_string().starts_with("10.9."));
    let mut watch = good.watch_leases().await;
    assert!(watch.recv().await.is_some());
    server.until_waiting(1).await;

    let store = good.policy_store().unwrap();
    let mut policies = store.watch_policies().await;
    assert_eq!(crate::policies::next(&mut policies).await, PolicyUpdate::Snapshot(Vec::new()));
    store.write_policies(&[crate::policies::put("a", "1")]).await.unwrap();
    let put = PolicyUpdate::Events(vec![crate::policies::put("a", "1")]);
    assert_eq!(crate::policies::next(&mut policies).await, put);

    let error = config(&server, &files(ours.ca(), (None, None))).await.unwrap_err();
    assert!(matches!(error, RegistryError::Denied { .. }), "{error}");
    assert!(error.to_string().contains("requires a client certificate"), "{error}");

    let error = config(&server, &files(ours.ca(), others.issue("node"))).await.unwrap_err();
    assert!(matches!(error, RegistryError::Denied { .. }), "{error}");
    assert!(error.to_string().contains("does not accept our client certificate"), "{error}");
}

#[tokio::test]
async fn tls_towards_a_plain_server_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let ours = Authority::new(directory.path(), "ours");
    let server = Running::in_memory().await;
    let error = config(&server, &files(ours.ca(), (None, None))).await.unwrap_err();
    assert!(error.to_string().contains("speak TLS"), "{error}");
}
