//! TLS for the lease API, both sides, and towards etcd: PEM files in, rustls configs out. One TLS stack: rustls on ring.
//!
//! Flannel accepted TLS 1.0; here it is 1.2 and up, which Go has spoken since 1.2 (2013), so every flannel release does.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// The PEM files of one side, as flags name them; see [`server_config`] and [`client_config`] for what each combination means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities that the other side's certificate must come from.
    pub ca: Option<PathBuf>,
    /// This side's certificate, followed by its intermediates.
    pub cert: Option<PathBuf>,
    /// The certificate's private key.
    pub key: Option<PathBuf>,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum TlsError {
    /// Certificate and key go together.
    #[error("a {given} file was given without a {missing} file: give both or neither")]
    HalfIdentity { given: &'static str, missing: &'static str },
    /// A CA file alone makes no server.
    #[error("a CA file was given without certificate and key: a server needs those to check client certificates")]
    ServerWithoutIdentity,
    /// Unreadable.
    #[error("{what} file {path}: {source}", path = .path.display())]
    Read { what: &'static str, path: PathBuf, source: io::Error },
    /// Readable, but not what was expected.
    #[error("{what} file {path}: expected {expected} in PEM form, found {found}", path = .path.display())]
    Content { what: &'static str, path: PathBuf, expected: &'static str, found: String },
    /// The parts do not fit.
    #[error("certificate file {path} cannot be used: {reason}", path = .path.display())]
    Identity { path: PathBuf, reason: String },
    /// No CA file, and the system has none either.
    #[error("no CA file was given and this system has no certificate authorities ({reason}): give one")]
    NoRoots { reason: String },
    /// The TLS library refuses.
    #[error("TLS: {0}")]
    Library(String),
}

/// A server's config: none without files; TLS with certificate and key; client certificates required with a CA as well.
pub fn server_config(files: &TlsFiles) -> Result<Option<Arc<ServerConfig>>, TlsError> {
    let Some((cert, key)) = identity(files)? else {
        return if files.ca.is_some() { Err(TlsError::ServerWithoutIdentity) } else { Ok(None) };
    };
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().map_err(library)?;
    let builder = match &files.ca {
        Some(ca) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(ca)?), provider());
            builder.with_client_cert_verifier(verifier.build().map_err(|error| TlsError::Library(error.to_string()))?)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(certificates("certificate", cert)?, private_key(key)?).map_err(misfit(cert))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(Arc::new(config)))
}

/// A client's config: the CA file's authorities or else the system's, and a certificate of its own if given.
pub fn client_config(files: &TlsFiles) -> Result<ClientConfig, TlsError> {
    let roots = match &files.ca {
        Some(ca) => authorities(ca)?,
        None => system_authorities()?,
    };
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().map_err(library)?;
    let builder = builder.with_root_certificates(roots);
    match identity(files)? {
        None => Ok(builder.with_no_client_auth()),
        Some((cert, key)) => {
            builder.with_client_auth_cert(certificates("certificate", cert)?, private_key(key)?).map_err(misfit(cert))
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn identity(files: &TlsFiles) -> Result<Option<(&Path, &Path)>, TlsError> {
    match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => Ok(Some((cert, key))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(TlsError::HalfIdentity { given: "certificate", missing: "key" }),
        (None, Some(_)) => Err(TlsError::HalfIdentity { given: "key", missing: "certificate" }),
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("CA", path)? {
        let refused = |found: rustls::Error| TlsError::Content {
            what: "CA",
            path: path.to_owned(),
            expected: "certificates of authorities",
            found: found.to_string(),
        };
        roots.add(certificate).map_err(refused)?;
    }
    Ok(roots)
}

fn system_authorities() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems carry certificates that no library accepts; the rest serves.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        return Err(TlsError::NoRoots { reason });
    }
    Ok(roots)
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fail = |error| unreadable(what, path, "certificates", error);
    let all = CertificateDer::pem_file_iter(path).map_err(fail)?.collect::<Result<Vec<_>, _>>().map_err(fail)?;
    if all.is_empty() { Err(unreadable(what, path, "certificates", pem::Error::NoItemsFound)) } else { Ok(all) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable("key", path, "a private key", error))
}

fn unreadable(what: &'static str, path: &Path, expected: &'static str, error: pem::Error) -> TlsError {
    let path = path.to_owned();
    match error {
        pem::Error::Io(source) => TlsError::Read { what, path, source },
        pem::Error::NoItemsFound => TlsError::Content { what, path, expected, found: "none".into() },
        other => TlsError::Content { what, path, expected, found: other.to_string() },
    }
}

fn misfit(cert: &Path) -> impl FnOnce(rustls::Error) -> TlsError {
    let path = cert.to_owned();
    |error| {
        let reason = match error {
            rustls::Error::InconsistentKeys(_) => "the key file holds the key of another certificate".to_owned(),
            other => other.to_string(),
        };
        TlsError::Identity { path, reason }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape map_err wants")]
fn library(error: rustls::Error) -> TlsError {
    TlsError::Library(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn pem_files(directory: &Path) -> TlsFiles {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let path = |name, text: String| {
            let path = directory.join(name);
            fs::write(&path, text).unwrap();
            Some(path)
        };
        TlsFiles {
            ca: path("ca.pem", made.cert.pem()),
            cert: path("cert.pem", made.cert.pem()),
            key: path("key.pem", made.signing_key.serialize_pem()),
        }
    }

    #[test]
    fn whole_sets_of_files_make_configs() {
        let directory = tempfile::tempdir().unwrap();
        let files = pem_files(directory.path());
        assert!(server_config(&files).unwrap().is_some());
        assert!(server_config(&TlsFiles { ca: None, ..files.clone() }).unwrap().is_some());
        assert!(server_config(&TlsFiles::default()).unwrap().is_none());
        assert!(client_config(&files).unwrap().client_auth_cert_resolver.has_certs());
        let ca_only = TlsFiles { ca: files.ca, ..TlsFiles::default() };
        assert!(!client_config(&ca_only).unwrap().client_auth_cert_resolver.has_certs());
        assert!(matches!(server_config(&ca_only), Err(TlsError::ServerWithoutIdentity)));
    }

    #[test]
    fn each_mistake_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let files = pem_files(directory.path());
        let other = tempfile::tempdir().unwrap();
        let others = pem_files(other.path());
        let message = |files: TlsFiles| client_config(&files).unwrap_err().to_string();

        assert!(message(TlsFiles { key: None, ..files.clone() }).contains("certificate file was given without a key file"));
        assert!(message(TlsFiles { cert: None, ..files.clone() }).contains("key file was given without a certificate file"));
        let absent = directory.path().join("absent.pem");
        let text = message(TlsFiles { ca: Some(absent.clone()), ..files.clone() });
        assert!(text.contains("CA file") && text.contains("absent.pem") && text.contains("No such file"), "{text}");
        let swapped = message(TlsFiles { cert: files.key.clone(), ..files.clone() });
        assert!(swapped.contains("expected certificates in PEM form, found none"), "{swapped}");
        let text = message(TlsFiles { key: files.cert.clone(), ..files.clone() });
        assert!(text.contains("expected a private key"), "{text}");
        let text = message(TlsFiles { key: others.key, ..files });
        assert!(text.contains("the key of another certificate"), "{text}");
    }
}
