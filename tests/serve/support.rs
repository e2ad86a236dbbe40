//! A server in this process, and a client that speaks bytes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use felt::control::registry::embedded::EmbeddedStore;
use felt::control::registry::{AcquireRequest, LEASE_TTL, RegistryAdmin, StoreRegistry};
use felt::control::server::Server;
use felt::lease::LeaseAttrs;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Ends a test that hangs; far above what anything here takes.
pub const LONG: Duration = Duration::from_secs(20);

/// flannel's own test network: 10.1.1.0 to 10.1.255.0.
pub const CONFIG: &str = r#"{"Network":"10.1.0.0/16"}"#;

/// A running server.
pub struct Running {
    pub address: SocketAddr,
    pub waiting: Box<dyn Fn() -> usize + Send + Sync>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    /// Serves `registry` on `at` (port 0: any).
    pub async fn start(registry: Arc<dyn RegistryAdmin>, at: &str, tls: Option<Arc<ServerConfig>>) -> Self {
        let server = Server::bind(&at.parse().unwrap(), tls, registry).await.unwrap();
        let (address, waiting) = (server.local_addr().unwrap(), Box::new(server.waiting()));
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self { address, waiting, stop: Some(stop), task }
    }

    /// Serves an in-memory store that has [`CONFIG`].
    pub async fn in_memory() -> Self {
        Self::start(memory(CONFIG).await, "127.0.0.1:0", None).await
    }

    /// Stops it and waits for its end.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        timeout(LONG, self.task).await.unwrap().unwrap();
    }

    /// Waits until exactly `count` clients wait.
    pub async fn until_waiting(&self, count: usize) {
        let reached = async {
            while (self.waiting)() != count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(LONG, reached).await.unwrap_or_else(|_| panic!("{} clients wait, not {count}", (self.waiting)()));
    }

    /// One request, one answer.
    pub async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        ask(self.address, method, path, body).await
    }

    /// An answer of 200 to a GET, as JSON.
    pub async fn json(&self, path: &str) -> serde_json::Value {
        let answer = self.ask("GET", path, "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }
}

/// A registry over an in-memory store with this config.
pub async fn memory(config: &str) -> Arc<StoreRegistry<EmbeddedStore>> {
    let registry = StoreRegistry::new(EmbeddedStore::in_memory().unwrap(), LEASE_TTL);
    registry.put_config(config).await.unwrap();
    Arc::new(registry)
}

/// What a udp node at 192.0.2.`last` asks for.
pub fn node(last: u8) -> AcquireRequest {
    AcquireRequest { attrs: LeaseAttrs::udp(Ipv4Addr::new(192, 0, 2, last)), previous: None, node: None }
}

/// An answer taken apart.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case, in order, without `date`.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

pub async fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> Answer {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: registry\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = send(address, request.as_bytes()).await;
    parse(&String::from_utf8(answer).unwrap())
}

/// Sends bytes, and reads until the server closes.
pub async fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses early may close while we still write.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = timeout(LONG, stream.read_to_end(&mut answer)).await.unwrap();
    answer
}

pub fn parse(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_owned())
    };
    let headers = lines.map(header).filter(|(name, _)| name != "date").collect();
    Answer { status, headers, body: body.to_owned() }
}
