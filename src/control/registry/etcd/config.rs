//! Which etcd cluster, and how it is entered.

use std::path::PathBuf;
use std::sync::Arc;

use etcd_client::{Certificate, Identity, TlsOptions};
use hyper::Uri;
use rustls::ClientConfig;

use super::client::{Member, connect_options};
use super::diagnose::TlsPeer;
use crate::control::tls::{TlsError, TlsFiles, client_config};

/// An etcd cluster and our access to it, as flags name them.
///
/// An `https` endpoint is checked against `cafile`, or the system's authorities without one; certificate and key are shown to it
/// if given. The password is in no message.
#[derive(Clone, Default)]
pub struct EtcdConfig {
    /// URLs of the members, in the order they are tried; without a scheme they are taken as `http`.
    pub endpoints: Vec<String>,
    /// Root of the keys. Slashes at its ends and doubled ones do not matter.
    pub prefix: String,
    /// Our private key, PEM.
    pub keyfile: Option<PathBuf>,
    /// Our certificate chain, PEM.
    pub certfile: Option<PathBuf>,
    /// The authorities the members are checked against, PEM.
    pub cafile: Option<PathBuf>,
    /// User name, if etcd asks for one.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<String>,
}

/// Why there is no way into the cluster.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum EtcdConfigError {
    /// No endpoint.
    #[error("no etcd endpoint was given; expected at least one such as http://127.0.0.1:2379")]
    NoEndpoint,
    /// Not a URL of a member.
    #[error("expected an etcd endpoint such as https://10.0.0.1:2379, found `{found}`: {problem}")]
    Endpoint { found: String, problem: String },
    /// A password without its user.
    #[error("an etcd password was given without a user name: give both or neither")]
    PasswordAlone,
    /// The PEM files.
    #[error("etcd TLS: {0}")]
    Tls(#[from] TlsError),
}

impl std::fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdConfig")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .field("keyfile", &self.keyfile)
            .field("certfile", &self.certfile)
            .field("cafile", &self.cafile)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

impl EtcdConfig {
    /// A cluster entered without TLS and password.
    pub fn plain<E: Into<String>>(endpoints: impl IntoIterator<Item = E>, prefix: &str) -> Self {
        Self { endpoints: endpoints.into_iter().map(Into::into).collect(), prefix: prefix.into(), ..Self::default() }
    }

    /// Checks everything that can be checked without contact. Reads the PEM files.
    pub(super) fn members(&self) -> Result<Vec<Member>, EtcdConfigError> {
        if self.password.is_some() && self.username.is_none() {
            return Err(EtcdConfigError::PasswordAlone);
        }
        let uris = self.endpoints.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
        let uris = uris.map(endpoint).collect::<Result<Vec<_>, _>>()?;
        if uris.is_empty() {
            return Err(EtcdConfigError::NoEndpoint);
        }
        let files = TlsFiles { ca: self.cafile.clone(), cert: self.certfile.clone(), key: self.keyfile.clone() };
        let encrypted = uris.iter().any(is_https);
        let tls = if encrypted || files != TlsFiles::default() { Some(Tls::read(&files)?) } else { None };
        if tls.is_some() && !encrypted {
            tracing::warn!("etcd TLS files were given, but no endpoint is https: nothing is encrypted");
        }
        let login = self.username.as_ref().map(|user| (user.clone(), self.password.clone().unwrap_or_default()));
        let member = |uri: Uri| {
            let url = uri.to_string().trim_end_matches('/').to_owned();
            match &tls {
                Some(tls) if is_https(&uri) => {
                    let peer = tls.peer(&uri);
                    let options = tls.options.clone().domain_name(&peer.host);
                    Member::new(url, connect_options().with_tls(options), login.clone(), Some(peer))
                }
                _ => Member::new(url, connect_options(), login.clone(), None),
            }
        };
        Ok(uris.into_iter().map(member).collect())
    }
}

/// TLS as the etcd library wants it, and as we use it ourselves.
struct Tls {
    options: TlsOptions,
    config: Arc<ClientConfig>,
}

impl Tls {
    fn read(files: &TlsFiles) -> Result<Self, EtcdConfigError> {
        // First, because it says clearly what is wrong with a file.
        let config = Arc::new(client_config(files)?);
        let read =
            |what, path: &PathBuf| std::fs::read(path).map_err(|source| TlsError::Read { what, path: path.clone(), source });
        let mut options = TlsOptions::new();
        if let Some(ca) = &files.ca {
            options = options.ca_certificate(Certificate::from_pem(read("CA", ca)?));
        } else {
            let mut roots = rustls::RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            options = options.trust_anchors(roots.roots);
        }
        if let (Some(cert), Some(key)) = (&files.cert, &files.key) {
            options = options.identity(Identity::from_pem(read("certificate", cert)?, read("key", key)?));
        }
        Ok(Self { options, config })
    }

    fn peer(&self, uri: &Uri) -> TlsPeer {
        // No certificate names an IPv6 host with its brackets.
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        TlsPeer { host, port: uri.port_u16().unwrap_or(443), config: Arc::clone(&self.config) }
    }
}

fn endpoint(text: &str) -> Result<Uri, EtcdConfigError> {
    let fail = |problem: String| EtcdConfigError::Endpoint { found: text.chars().take(80).collect(), problem };
    let whole = match text.split_once("://") {
        None => format!("http://{text}"),
        Some(("http" | "https", _)) => text.to_owned(),
        Some(_) => return Err(fail("the scheme is neither http nor https".into())),
    };
    let uri: Uri = whole.parse().map_err(|error: hyper::http::uri::InvalidUri| fail(error.to_string()))?;
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        // Kept out of the message: it may hold a password.
        let found = "a URL with a user name in it".into();
        return Err(EtcdConfigError::Endpoint { found, problem: "give the user name and password by their flags".into() });
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(fail("no host".into()));
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(fail("nothing may follow the port".into()));
    }
    Ok(uri)
}

fn is_https(uri: &Uri) -> bool {
    uri.scheme_str() == Some("https")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: &EtcdConfig) -> String {
        config.members().map(drop).unwrap_err().to_string()
    }

    #[test]
    fn endpoints_are_urls_of_members() {
        let config = EtcdConfig::plain([" http://10.0.0.1:2379/ ", "", "10.0.0.2:2379", "[::1]:2379"], "/x");
        let members = config.members().unwrap();
        let urls: Vec<_> = members.iter().map(Member::url).collect();
        assert_eq!(urls, ["http://10.0.0.1:2379", "http://10.0.0.2:2379", "http://[::1]:2379"]);
        assert!(refused(&EtcdConfig::plain([""], "/x")).contains("no etcd endpoint"));
        for (text, problem) in [
            ("ftp://10.0.0.1", "neither http nor https"),
            ("http://10.0.0.1:2379/v3", "nothing may follow"),
            ("http://a b", "invalid"),
            ("unix:///run/etcd.sock", "neither http nor https"),
        ] {
            let message = refused(&EtcdConfig::plain([text], "/x"));
            assert!(message.contains(problem) && message.contains(text), "{message}");
        }
    }

    #[test]
    fn no_password_shows() {
        let message = refused(&EtcdConfig::plain(["http://root:s3cret@10.0.0.1:2379"], "/x"));
        assert!(!message.contains("s3cret"), "{message}");
        let config = EtcdConfig { password: Some("s3cret".into()), ..EtcdConfig::plain(["10.0.0.1:2379"], "/x") };
        assert!(!format!("{config:?}").contains("s3cret"));
        assert!(refused(&config).contains("without a user name"));
    }

    #[test]
    fn half_an_identity_is_refused_whatever_the_scheme() {
        for endpoint in ["http://10.0.0.1:2379", "https://10.0.0.1:2379"] {
            let mut config = EtcdConfig::plain([endpoint], "/x");
            config.certfile = Some("/nonexistent/cert.pem".into());
            assert!(refused(&config).contains("without a key"), "{}", refused(&config));
        }
    }
}
