//! The listening side: accepts, speaks TLS and HTTP/1.1, and stops in time. What is answered is the handler's business.
//!
//! Bounds: connections, header size and time, handshake time, body size and time (in the handler). Waiting clients may wait for
//! hours; one that dies without a word is found by TCP keep-alive.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::handler::{Asker, Handler};
use super::listen::{ListenAddress, ListenError};
use super::upstream::Upstream;
use crate::control::registry::RegistryAdmin;
use crate::sys::limits::raise_open_files;

/// More are turned away at once. A node holds two to four.
const CONNECTION_LIMIT: usize = 4096;
/// For a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// For a request's headers, counted from the end of the last answer: so it also ends idle connections.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);
/// For a request's headers, in bytes.
const HEADER_LIMIT: usize = 32 << 10;
/// How long answers under way have at shutdown.
const DRAIN: Duration = Duration::from_secs(1);
/// How long a client may be silent on the TCP level.
const SILENCE_LIMIT: Duration = Duration::from_mins(1);
/// Lines about failing connections are this far apart at least.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(10);

/// The registry server: bound, not yet serving.
pub struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    handler: Arc<Handler>,
}

impl Server {
    /// Listens on `address` and starts to follow `registry`. With `tls` (see [`server_config`](crate::control::tls::server_config))
    /// only TLS is spoken.
    pub async fn bind(
        address: &ListenAddress,
        tls: Option<Arc<ServerConfig>>,
        registry: Arc<dyn RegistryAdmin>,
    ) -> Result<Self, ListenError> {
        // The usual soft limit is far below ours on connections.
        if let Err(error) = raise_open_files() {
            warn!(%error, "the limit on open files stays as it is");
        }
        let listener = address.bind().await?;
        let upstream = Upstream::follow(registry.describe(), registry.watch_leases().await);
        let handler = Arc::new(Handler { registry, upstream, policies: OnceCell::new(), stop: CancellationToken::new() });
        Ok(Self { listener, tls: tls.map(TlsAcceptor::from), handler })
    }

    /// Where it listens, with the port the kernel chose.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// How many clients wait for news, now and later.
    pub fn waiting(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let count: Arc<AtomicUsize> = self.handler.upstream.waiting();
        move || count.load(Ordering::Relaxed)
    }

    /// Serves until `shutdown` completes, then tells waiting clients, lets answers under way finish, and returns within two seconds.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let stop = self.handler.stop.clone();
        let mut connections: JoinSet<Result<(), String>> = JoinSet::new();
        let mut complaints = Complaints::default();
        tokio::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(ended) = connections.join_next() => {
                    if let Ok(Err(reason)) = ended {
                        complaints.about(&reason);
                    }
                    continue;
                }
                () = &mut shutdown => break,
            };
            match accepted {
                Ok((_, peer)) if connections.len() >= CONNECTION_LIMIT => {
                    complaints.about(&format!("{peer} turned away: {CONNECTION_LIMIT} connections are open"));
                }
                Ok((stream, peer)) => {
                    let (tls, handler) = (self.tls.clone(), Arc::clone(&self.handler));
                    connections.spawn(serve(stream, peer, tls, handler));
                }
                Err(error) => {
                    complaints.about(&format!("no connection could be accepted: {error}"));
                    // Out of descriptors, most likely: the same would fail at once again.
                    sleep(Duration::from_millis(200)).await;
                }
            }
        }
        drop(self.listener);
        stop.cancel();
        let drained = timeout(DRAIN + DRAIN / 2, async { while connections.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            debug!(open = connections.len(), "connections cut off");
            // Waited for, so that nothing holds the registry any longer.
            connections.shutdown().await;
        }
    }
}

/// One connection, to its end. An error is one worth telling: a client that was refused.
async fn serve(stream: TcpStream, peer: SocketAddr, tls: Option<TlsAcceptor>, handler: Arc<Handler>) -> Result<(), String> {
    if let Err(error) = tune(&stream) {
        debug!(%peer, %error, "keep-alive could not be set");
    }
    let local = stream.local_addr().ok();
    let Some(tls) = tls else {
        converse(stream, Asker { address: peer, local, certified: false }, handler).await;
        return Ok(());
    };
    match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let certified = stream.get_ref().1.peer_certificates().is_some();
            converse(stream, Asker { address: peer, local, certified }, handler).await;
            Ok(())
        }
        Ok(Err(error)) => Err(format!("TLS handshake with {peer} failed: {error}")),
        Err(_) => Err(format!("TLS handshake with {peer} took longer than {HANDSHAKE_TIMEOUT:?}")),
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(stream: S, asker: Asker, handler: Arc<Handler>) {
    let stop = handler.stop.clone();
    let service = service_fn(move |request| {
        let handler = Arc::clone(&handler);
        async move { Ok::<_, Infallible>(handler.answer(request, asker).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEADER_LIMIT);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            // Past the time the connection is dropped, and with it whatever was under way.
            timeout(DRAIN, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        debug!(peer = %asker.address, %error, "connection ended early");
    }
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(SILENCE_LIMIT / 2).with_interval(SILENCE_LIMIT / 6).with_retries(3);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(SILENCE_LIMIT))
}

/// Warnings about strangers, folded: anybody can cause one, so nobody may fill the log.
#[derive(Default)]
struct Complaints {
    last: Option<Instant>,
    folded: u64,
}

impl Complaints {
    fn about(&mut self, reason: &str) {
        if self.last.is_some_and(|last| last.elapsed() < COMPLAINT_INTERVAL) {
            self.folded += 1;
            debug!("{reason}");
            return;
        }
        match std::mem::take(&mut self.folded) {
            0 => warn!("{reason}"),
            folded => warn!(folded, "{reason}"),
        }
        self.last = Some(Instant::now());
    }
}
