//! A TCP proxy that can hang up, reset, fall silent or swallow everything, for tests of what networks do.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What happens to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Passed on.
    Open,
    /// Kept back, both ways; connections are accepted and stay open.
    Silent,
    /// Connections are closed as soon as they are accepted.
    Closed,
}

#[derive(Clone, Copy, Debug)]
struct State {
    way: Way,
    /// Connections of an older life are ended.
    life: u64,
    reset: bool,
}

/// The proxy.
pub struct Proxy {
    port: u16,
    state: Arc<watch::Sender<State>>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy to 127.0.0.1:`target`.
    pub async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(watch::Sender::new(State { way: Way::Open, life: 0, reset: false }));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let Ok((near, _)) = listener.accept().await else { continue };
                let states = shared.subscribe();
                if states.borrow().way != Way::Closed {
                    tokio::spawn(connection(near, target, states));
                }
            }
        });
        Self { port, state, task }
    }

    /// Where to connect instead of the target.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What happens to bytes from now on, on open connections too.
    pub fn turn(&self, way: Way) {
        self.state.send_modify(|state| state.way = way);
    }

    /// Ends every connection, in good order or by a reset.
    pub fn cut(&self, reset: bool) {
        self.state.send_modify(|state| {
            state.life += 1;
            state.reset = reset;
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut(true);
    }
}

async fn connection(near: TcpStream, target: u16, states: watch::Receiver<State>) {
    let life = states.borrow().life;
    let Ok(far) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    let mut end = states.clone();
    let (mut near, mut far) = (near, far);
    {
        let (near_in, near_out) = near.split();
        let (far_in, far_out) = far.split();
        tokio::select! {
            () = pass(near_in, far_out, states.clone()) => {}
            () = pass(far_in, near_out, states) => {}
            _ = end.wait_for(|state| state.life != life) => {}
        }
    }
    if end.borrow().reset {
        let _ = near.set_zero_linger();
    }
}

async fn pass(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin, mut states: watch::Receiver<State>) {
    let mut buffer = vec![0; 65536];
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer).await else { return };
        if states.wait_for(|state| state.way != Way::Silent).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// How long things may take that should be at once, on a busy machine.
pub const SOON: Duration = Duration::from_secs(5);
