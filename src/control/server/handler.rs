//! From request to answer: who asks for what, and what may be asked. The lease routes themselves are in `leases`.

use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use axum::extract::Query;
use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::{Request, StatusCode, Uri};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::answer::{self, Answer, Refusal};
use super::policies::Policies;
use super::route::{Destination, Route};
use super::upstream::Upstream;
use crate::control::registry::{RegistryAdmin, RegistryError};
use crate::control::v1::{POLICY_WRITE_LIMIT, ReservationBody};
use crate::lease::{NetworkConfig, SubnetKey};

/// The largest body taken, but for policy objects. A lease has a few hundred bytes, a config perhaps a few thousand.
const BODY_LIMIT: usize = 64 << 10;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The only network there is.
const UNNAMED: &str = "_";

/// Everything an answer is made from. One per server.
pub(super) struct Handler {
    pub(super) registry: Arc<dyn RegistryAdmin>,
    pub(super) upstream: Upstream,
    /// Followed from the first time that somebody asks for policy: who never does need not be let at it.
    pub(super) policies: OnceCell<Policies>,
    /// Cancelled when the server stops: waiting clients are told so.
    pub(super) stop: CancellationToken,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) address: SocketAddr,
    /// The address it came to; `None` if that is not known.
    pub(super) local: Option<SocketAddr>,
    /// The client showed a certificate that our CA signed.
    pub(super) certified: bool,
}

/// The part after `?`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Params {
    /// Where a watch goes on.
    pub(super) next: Option<String>,
    /// How many seconds it waits for news, where that can be said; for ever without.
    pub(super) wait: Option<u64>,
    /// The subnet held before, to be had again if it is free.
    pub(super) previous: Option<String>,
    /// Which machine asks.
    pub(super) node: Option<String>,
    /// The address of the lease so far, where a renewal announces another.
    pub(super) former: Option<Ipv4Addr>,
}

impl Asker {
    /// Whether the client runs on the server's machine: it comes from loopback, or from the very address it came to, which no
    /// other machine has.
    fn is_of_this_machine(&self) -> bool {
        let ip = self.address.ip().to_canonical();
        ip.is_loopback() || self.local.is_some_and(|local| local.ip().to_canonical() == ip)
    }

    /// Refuses who may not decide over the whole network, `what` being what that takes.
    pub(super) fn decides_over(&self, what: &str) -> Result<(), Refusal> {
        if self.certified || self.is_of_this_machine() {
            return Ok(());
        }
        let why = format!("{what} can be set from the server's own machine, or with a client certificate");
        Err(Refusal::new(StatusCode::FORBIDDEN, why))
    }
}

impl Handler {
    /// The answer to `request`. Never fails: what goes wrong is an answer, too.
    pub(super) async fn answer<B>(&self, request: Request<B>, asker: Asker) -> Answer
    where
        B: Body<Data: Buf, Error: Into<BoxError>>,
    {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let answer = match Destination::of(&method, uri.path()) {
            Destination::Unknown => answer::not_found(),
            Destination::Malformed => Refusal::bad_request("malformed path").into_answer(),
            Destination::Elsewhere { path } => answer::moved(&path, uri.query()),
            Destination::Found { network: Some(network), .. } if network != UNNAMED => {
                let text =
                    format!("network {network:?} is unknown: this server has only the unnamed network, spelled `{UNNAMED}`");
                Refusal::failed(text).into_answer()
            }
            Destination::Found { route, .. } => {
                self.serve(route, &uri, request, asker).await.unwrap_or_else(Refusal::into_answer)
            }
        };
        debug!("{method} {uri} - {}", answer.status().as_u16());
        answer
    }

    async fn serve<B>(&self, route: Route, uri: &Uri, request: Request<B>, asker: Asker) -> Result<Answer, Refusal>
    where
        B: Body<Data: Buf, Error: Into<BoxError>>,
    {
        let bad_query = |error| Refusal::bad_request(format!("bad query: {error}"));
        let Query(params) = Query::<Params>::try_from_uri(uri).map_err(bad_query)?;
        match route {
            Route::Config => self.config().await,
            Route::PutConfig => self.put_config(request, asker).await,
            Route::Watch => self.watch(params.next).await,
            Route::WatchOne { subnet } => self.watch_one(key(&subnet, "bad subnet")?, params.next).await,
            Route::Networks => self.networks(params.next).await,
            Route::Policies => self.tell_policies(params).await,
            Route::WritePolicies => {
                asker.decides_over("policy objects")?;
                self.write_policies(whole_body(request, POLICY_WRITE_LIMIT).await?, asker).await
            }
            Route::Acquire => self.acquire(json_body(request).await?, params).await,
            Route::Renew => self.renew(json_body(request).await?, params.former).await,
            Route::Revoke { subnet } => self.revoke(key(&subnet, "failed to parse subnet")?).await,
            Route::Reservations => {
                let all = self.registry.reservations().await?;
                Ok(answer::json(&all.iter().map(ReservationBody::from).collect::<Vec<_>>()))
            }
            Route::Reserve => self.reserve(json_body(request).await?).await,
            Route::Unreserve { subnet } => {
                let key = key(&subnet, "bad subnet")?;
                if self.registry.unreserve(&key).await? {
                    return Ok(answer::empty());
                }
                Err(Refusal::failed(format!("subnet {key} is not reserved")))
            }
        }
    }

    /// The config as clients of any age read it: parsed, with the defaults filled in.
    async fn config(&self) -> Result<Answer, Refusal> {
        let text = self.registry.config().await?;
        let config = NetworkConfig::parse(&text).map_err(|error| RegistryError::BadConfig(error.to_string()))?;
        Ok(answer::json_text(config.to_json()))
    }

    async fn put_config<B>(&self, request: Request<B>, asker: Asker) -> Result<Answer, Refusal>
    where
        B: Body<Data: Buf, Error: Into<BoxError>>,
    {
        asker.decides_over("the network config")?;
        let body = whole_body(request, BODY_LIMIT).await?;
        let refused = |error: &dyn Display| Refusal::bad_request(format!("network config: {error}"));
        let text = std::str::from_utf8(&body).map_err(|error| refused(&error))?;
        NetworkConfig::parse(text).map_err(|error| refused(&error))?;
        self.registry.put_config(text).await?;
        info!(by = %asker.address, "network config set");
        Ok(answer::empty())
    }
}

fn key(text: &str, complaint: &str) -> Result<SubnetKey, Refusal> {
    text.parse().map_err(|_| Refusal::bad_request(complaint))
}

async fn json_body<T, B>(request: Request<B>) -> Result<T, Refusal>
where
    T: DeserializeOwned,
    B: Body<Data: Buf, Error: Into<BoxError>>,
{
    let body = whole_body(request, BODY_LIMIT).await?;
    let undecodable = |error: &dyn Display| Refusal::bad_request(format!("JSON decoding error: {error}"));
    // Read from an array, too, if not stopped: its elements would be taken for the fields in order.
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(undecodable(&"expected an object, found an array"));
    }
    serde_json::from_slice(&body).map_err(|error| undecodable(&error))
}

async fn whole_body<B>(request: Request<B>, limit: usize) -> Result<Bytes, Refusal>
where
    B: Body<Data: Buf, Error: Into<BoxError>>,
{
    match timeout(BODY_TIMEOUT, Limited::new(request.into_body(), limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {limit} bytes")))
        }
        Ok(Err(error)) => Err(Refusal::bad_request(format!("the body could not be read: {error}"))),
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")),
    }
}
