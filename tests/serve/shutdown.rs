//! The server's end.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::support::{LONG, Running, ask};

/// The bound is part of what is promised (two seconds), so the clock is asked; a second is left for a slow machine.
#[tokio::test]
async fn waiting_clients_are_told_and_stuck_ones_cut_off() {
    let server = Running::in_memory().await;
    let cursor = server.json("/v1/_/leases").await["cursor"].as_str().unwrap().to_owned();
    let (address, path) = (server.address, format!("/v1/_/leases?next={cursor}"));
    let waiting = tokio::spawn(async move { ask(address, "GET", &path, "").await });
    server.until_waiting(1).await;
    let mut stuck = TcpStream::connect(address).await.unwrap();
    stuck.write_all(b"POST /v1/_/leases HTTP/1.1\r\nHost: r\r\nContent-Length: 100\r\n\r\n{").await.unwrap();
    let _idle = TcpStream::connect(address).await.unwrap();
    let started = Instant::now();
    server.stop().await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    let told = timeout(LONG, waiting).await.unwrap().unwrap();
    assert_eq!((told.status, told.body.as_str()), (503, "the server is shutting down"));
    assert!(TcpStream::connect(address).await.is_err(), "still listening");
}
