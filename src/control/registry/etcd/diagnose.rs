//! Why a TLS server will not have us.
//!
//! In TLS 1.3 a server judges the client's certificate after the client believes the handshake done. By then the HTTP/2 client has
//! written, the server closes with unread bytes, and the reset that follows can overtake the alert that names the reason. Asked
//! once more by a client that keeps silent, the server's alert always arrives.

use std::io::ErrorKind;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::client::TRY_TIMEOUT;

/// A TLS server, and how we present ourselves to it.
#[derive(Clone)]
pub(super) struct TlsPeer {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) config: Arc<ClientConfig>,
}

impl TlsPeer {
    /// What the server, or we about the server, has to complain of; `None` if nothing.
    pub(super) async fn complaint(&self) -> Option<String> {
        timeout(TRY_TIMEOUT, self.handshake()).await.ok()?.err().map(|error| error.to_string())
    }

    async fn handshake(&self) -> std::io::Result<()> {
        let name =
            ServerName::try_from(self.host.clone()).map_err(|error| std::io::Error::new(ErrorKind::InvalidInput, error))?;
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let mut stream = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await?;
        // The server speaks first in HTTP/2, or ends with its alert.
        stream.read_u8().await.map(drop)
    }
}

/// Whether a failure already says what is wrong with TLS.
pub(super) fn is_about_tls(reason: &str) -> bool {
    reason.contains("certificate") || is_refusal(reason)
}

/// Whether the other side broke off TLS because of who we are.
pub(super) fn is_refusal(reason: &str) -> bool {
    reason.contains("received fatal alert")
}

/// What may help against a TLS failure.
pub(super) fn advice(reason: &str) -> &'static str {
    if is_refusal(reason) {
        "; the server wants a client certificate it knows: check --etcd-certfile and --etcd-keyfile"
    } else if reason.contains("invalid peer certificate") {
        "; check that --etcd-cafile holds the authority of this server and that its certificate names this host"
    } else {
        ""
    }
}
