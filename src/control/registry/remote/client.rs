//! One HTTP exchange with the server: what goes out, what comes back, and by whose clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, DATE, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use time::PrimitiveDateTime;
use time::macros::format_description;
use tokio::time::timeout;

use super::address::{Address, AddressError};
use super::failure::{broken, refused};
use crate::control::registry::{CALL_TIMEOUT, RegistryError};
use crate::control::tls::{TlsError, TlsFiles, client_config};
use crate::control::v1::{ANSWER_LIMIT, ERROR_HEADER, ErrorDetail};

/// Idle connections are given up before the server does so.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// How long the other side may be silent on the TCP level.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// Why there can be no client.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The TLS files are no good.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A plain address with files for TLS.
    #[error("http:// was asked for together with TLS files: leave out one of them")]
    PlainWithFiles,
}

/// Connections that are used again and again; cloning gives another handle on the same ones.
type Pool = HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A client of one server.
#[derive(Debug)]
pub(super) struct Client {
    pool: Mutex<Pool>,
    connector: HttpsConnector<HttpConnector>,
    base: String,
    name: String,
}

/// An answer of status 200.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) body: Bytes,
    /// The server's clock when it answered; ours if it did not say.
    pub(super) clock: SystemTime,
}

/// No 200, and why.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: RegistryError,
    /// The server's status, if there was an answer.
    pub(super) status: Option<StatusCode>,
    /// The server says that the lease is gone.
    pub(super) lost: bool,
}

impl From<Failure> for RegistryError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl Client {
    pub(super) fn new(address: &str, files: &TlsFiles) -> Result<Self, RemoteError> {
        let address: Address = address.parse()?;
        let any_file = *files != TlsFiles::default();
        let tls = match address.tls {
            Some(false) if any_file => return Err(RemoteError::PlainWithFiles),
            Some(tls) => tls,
            None => any_file,
        };
        let config = if tls { client_config(files)? } else { trusting_nobody()? };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CALL_TIMEOUT));
        tcp.set_keepalive(Some(SILENCE_LIMIT / 3));
        tcp.set_keepalive_interval(Some(SILENCE_LIMIT / 6));
        tcp.set_keepalive_retries(Some(4));
        tcp.set_tcp_user_timeout(Some(SILENCE_LIMIT));
        let connector = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().wrap_connector(tcp);
        let base = format!("{}://{address}/v1", if tls { "https" } else { "http" });
        let pool = Mutex::new(pool(&connector));
        Ok(Self { pool, connector, name: format!("registry server {address}"), base })
    }

    /// What the server is called in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What is asked from now on is asked by new connections.
    pub(super) fn forget_connections(&self) {
        *self.pool.lock().unwrap_or_else(PoisonError::into_inner) = pool(&self.connector);
    }

    /// The URL of `path`, which starts with a slash.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// An exchange that has to end within [`CALL_TIMEOUT`].
    pub(super) async fn call(&self, method: Method, path: &str, body: Option<String>) -> Result<Reply, Failure> {
        self.call_within(CALL_TIMEOUT, method, path, body).await
    }

    /// An exchange that has to end within `limit`.
    pub(super) async fn call_within(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<Reply, Failure> {
        match timeout(limit, self.exchange(method, path, body)).await {
            Ok(done) => done,
            Err(_) => Err(self.unreachable(format!("no answer within {limit:?}"))),
        }
    }

    /// An exchange that may take for ever.
    pub(super) async fn exchange(&self, method: Method, path: &str, body: Option<String>) -> Result<Reply, Failure> {
        let mut request = Request::builder().method(method).uri(self.url(path)).header(USER_AGENT, "felt");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::from(body.unwrap_or_default())).map_err(|error| self.broken(&error))?;
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let response = pool.request(request).await.map_err(|error| self.broken(&error))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_LIMIT).collect().await.map_err(|error| self.broken(&*error))?.to_bytes();
        if parts.status == StatusCode::OK {
            return Ok(Reply { body, clock: clock(&parts.headers) });
        }
        let detail = parts.headers.get(ERROR_HEADER).and_then(|value| serde_json::from_slice(value.as_bytes()).ok());
        let lost = matches!(detail, Some(ErrorDetail::Lost));
        let error = refused(&self.name, parts.status, detail, &body);
        Err(Failure { error, status: Some(parts.status), lost })
    }

    /// Reads an answer's body.
    pub(super) fn read<T: DeserializeOwned>(&self, reply: &Reply) -> Result<T, RegistryError> {
        serde_json::from_slice(&reply.body).map_err(|error| self.nonsense(error.to_string()))
    }

    /// An answer that is none.
    pub(super) fn nonsense(&self, reason: impl Into<String>) -> RegistryError {
        RegistryError::Protocol { registry: self.name.clone(), reason: reason.into() }
    }

    fn broken(&self, error: &(dyn std::error::Error + 'static)) -> Failure {
        Failure { error: broken(&self.name, error), status: None, lost: false }
    }

    fn unreachable(&self, reason: String) -> Failure {
        let error = RegistryError::Unreachable { registry: self.name.clone(), reason };
        Failure { error, status: None, lost: false }
    }
}

fn pool(connector: &HttpsConnector<HttpConnector>) -> Pool {
    let mut pool = HttpClient::builder(TokioExecutor::new());
    pool.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_LIMIT).pool_max_idle_per_host(2);
    pool.build(connector.clone())
}

/// For plain HTTP, where the connector wants a config all the same.
fn trusting_nobody() -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| TlsError::Library(error.to_string()))?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn clock(headers: &HeaderMap) -> SystemTime {
    let format = format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");
    let date = headers.get(DATE).map(HeaderValue::to_str).and_then(Result::ok);
    let date = date.and_then(|text| PrimitiveDateTime::parse(text, format).ok());
    date.map_or_else(SystemTime::now, |date| date.assume_utc().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_clock_is_read() {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, HeaderValue::from_static("Wed, 24 Aug 2016 12:00:00 GMT"));
        assert_eq!(clock(&headers), SystemTime::UNIX_EPOCH + Duration::from_hours(408_900));
    }

    #[tokio::test]
    async fn the_scheme_follows_the_files() {
        let base = |address: &str| Client::new(address, &TlsFiles::default()).unwrap().base;
        assert_eq!(base("h:1"), "http://h:1/v1");
        let ca = TlsFiles { ca: Some("/nonexistent/ca.pem".into()), ..TlsFiles::default() };
        assert!(matches!(Client::new("h:1", &ca), Err(RemoteError::Tls(_))));
        assert!(matches!(Client::new("http://h:1", &ca), Err(RemoteError::PlainWithFiles)));
    }
}
