//! The health server: `/healthz`, `/readyz`, `/metrics`.
//!
//! Paths, statuses and texts of the first two are flannel's, so probes written for it keep working; unlike there,
//! `/healthz` fails when a worker or the registry task is stuck, and `/readyz` says what stands in the way if that is known.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Health, Metrics};
use crate::net::Moment;

/// How often the pulses are looked at. A part is stuck after five such looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Bound, not yet serving.
#[derive(Debug)]
pub struct HealthServer {
    listener: TcpListener,
}

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error(
    "health server cannot listen on {address}: {source}; choose another with --healthz-ip and --healthz-port, or --metrics-addr"
)]
pub struct HealthServerError {
    address: SocketAddr,
    source: std::io::Error,
}

#[derive(Clone)]
struct Shared {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    now: fn() -> Moment,
}

impl HealthServer {
    /// Listens on `address`.
    ///
    /// # Errors
    /// When the address is taken or not ours.
    pub async fn bind(address: SocketAddr) -> Result<Self, HealthServerError> {
        let listener = TcpListener::bind(address).await.map_err(|source| HealthServerError { address, source })?;
        Ok(Self { listener })
    }

    /// Serves until `stop`. `now` is the daemon's clock.
    pub async fn run(self, health: Arc<Health>, metrics: Arc<Metrics>, now: fn() -> Moment, stop: CancellationToken) {
        let app = Router::new()
            .route("/healthz", any(healthz))
            .route("/readyz", any(readyz))
            .route("/metrics", any(exposition))
            .fallback(|| async { (StatusCode::NOT_FOUND, "404 page not found\n") })
            .with_state(Shared { health: Arc::clone(&health), metrics, now });
        let serving = axum::serve(self.listener, app).with_graceful_shutdown(stop.cancelled_owned());
        let served = tokio::select! {
            served = serving.into_future() => served,
            never = keep_looking(&health, now) => never,
        };
        if let Err(error) = served {
            tracing::error!("health server ended: {error}");
        }
    }
}

/// Looks at the pulses whether anybody asks or not: how long a part has stood still would otherwise be counted from the last
/// probe, and probes may be far apart.
async fn keep_looking(health: &Health, now: fn() -> Moment) -> ! {
    let mut tick = tokio::time::interval(LOOK_EVERY);
    loop {
        tick.tick().await;
        health.stuck(now());
    }
}

async fn healthz(State(shared): State<Shared>) -> Response {
    let stuck = shared.health.stuck((shared.now)());
    if stuck.is_empty() {
        "flanneld is running".into_response()
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, stuck.join("; ")).into_response()
    }
}

async fn readyz(State(shared): State<Shared>) -> Response {
    if shared.health.is_ready() {
        "flanneld is ready".into_response()
    } else {
        let why = shared.health.hindrance().map(|why| format!(": {why}")).unwrap_or_default();
        (StatusCode::SERVICE_UNAVAILABLE, format!("flanneld is not ready yet{why}")).into_response()
    }
}

async fn exposition(State(shared): State<Shared>) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (kind, shared.metrics.exposition((shared.now)())).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_not_ready_says_why_if_that_is_known() {
        let health = Arc::<Health>::default();
        let shared = Shared { health: Arc::clone(&health), metrics: Arc::default(), now: || Moment::ZERO };
        let asked = async || {
            let answer = readyz(State(shared.clone())).await;
            let status = answer.status().as_u16();
            let body = axum::body::to_bytes(answer.into_body(), 1000).await.unwrap();
            (status, String::from_utf8(body.to_vec()).unwrap())
        };
        assert_eq!(asked().await, (503, "flanneld is not ready yet".to_owned()));
        health.set_hindrance(Some("no rules"));
        assert_eq!(asked().await, (503, "flanneld is not ready yet: no rules".to_owned()));
        health.set_hindrance(None);
        health.set_ready(true);
        assert_eq!(asked().await, (200, "flanneld is ready".to_owned()));
    }
}
