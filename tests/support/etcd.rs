//! Real etcd servers for tests: on loopback, in a directory of their own, gone when dropped.
//!
//! Not a registry: tests that look at what is really stored use [`Etcd::client`], which knows nothing of Felt.

#![allow(dead_code, reason = "each test file uses its part")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etcd_client::{Certificate, Client, ConnectOptions, GetOptions, Identity, TlsOptions};
use tempfile::TempDir;

/// How long a server may take to answer its first request; these machines are slow when all tests run.
const START: Duration = Duration::from_secs(20);

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct EtcdOptions {
    /// Served over TLS with the files of this directory.
    pub tls: Option<TlsDir>,
    /// Whether clients must show a certificate.
    pub client_certificates: bool,
    /// Life of an authentication token.
    pub token_ttl: Option<Duration>,
}

/// One etcd server and its data.
pub struct Etcd {
    options: EtcdOptions,
    directory: TempDir,
    port: u16,
    peer_port: u16,
    child: Option<Child>,
}

impl Etcd {
    /// A server without TLS and users, ready to answer.
    pub async fn start() -> Self {
        Self::start_with(EtcdOptions::default()).await
    }

    /// A server, ready to answer.
    pub async fn start_with(options: EtcdOptions) -> Self {
        // A free port may be taken by somebody else before etcd listens on it: then the server ends and others are tried.
        for _ in 0..5 {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let (port, peer_port) = (free_port(), free_port());
            let mut etcd = Self { options: options.clone(), directory, port, peer_port, child: None };
            if etcd.run().await {
                return etcd;
            }
        }
        panic!("etcd did not start; is it installed?");
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        let scheme = if self.options.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The port clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a running server").id()
    }

    /// Ends the server as a power cut would. Its data stays.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Ends the server in good order. Its data stays.
    pub fn terminate(&mut self) {
        self.signal("TERM");
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    /// Starts the server again, on the same port with the same data.
    pub async fn restart(&mut self) {
        self.kill();
        assert!(self.run().await, "etcd did not start again");
    }

    /// Starts the server again, on the same port without any data.
    pub async fn restart_empty(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.data()).expect("remove the data");
        assert!(self.run().await, "etcd did not start again");
    }

    /// Stops the server in its tracks, connections open.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// A client that knows nothing of Felt.
    pub async fn client(&self) -> Client {
        Client::connect([self.url()], Some(self.connect_options())).await.expect("a client")
    }

    /// The value of a key, and the etcd lease it hangs on.
    pub async fn value(&self, key: &str) -> Option<(String, i64)> {
        let found = self.client().await.get(key, None).await.expect("get");
        found.kvs().first().map(|kv| (kv.value_str().expect("text").to_owned(), kv.lease()))
    }

    /// Puts a value as an operator would.
    pub async fn put(&self, key: &str, value: &str) {
        self.client().await.put(key, value, None).await.expect("put");
    }

    /// Every key with its value.
    pub async fn everything(&self) -> Vec<(String, String)> {
        let found = self.client().await.get("", Some(GetOptions::new().with_all_keys())).await.expect("get");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        found.kvs().iter().map(|kv| (text(kv.key()), text(kv.value()))).collect()
    }

    /// Forgets all history up to now.
    pub async fn compact(&self) {
        let mut client = self.client().await;
        let revision = client.get("x", None).await.expect("get").header().expect("a header").revision();
        client.compact(revision, None).await.expect("compact");
    }

    fn connect_options(&self) -> ConnectOptions {
        let options = ConnectOptions::new().with_timeout(Duration::from_secs(5)).with_connect_timeout(Duration::from_secs(2));
        match &self.options.tls {
            Some(tls) => {
                let read = |path: PathBuf| std::fs::read(path).expect("a PEM file");
                let identity = Identity::from_pem(read(tls.client_cert()), read(tls.client_key()));
                let ca = Certificate::from_pem(read(tls.ca()));
                options.with_tls(TlsOptions::new().ca_certificate(ca).identity(identity))
            }
            None => options,
        }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    async fn run(&mut self) -> bool {
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let log = std::fs::File::create(self.directory.path().join("log")).expect("a log file");
        let mut command = Command::new("etcd");
        command.args(["--name", "felt-test", "--heartbeat-interval", "50", "--election-timeout", "500"]);
        command.arg("--data-dir").arg(self.data());
        command.args(["--listen-client-urls", &self.url(), "--advertise-client-urls", &self.url()]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("felt-test={peer}")]);
        if let Some(tls) = &self.options.tls {
            command.arg("--cert-file").arg(tls.server_cert()).arg("--key-file").arg(tls.server_key());
            if self.options.client_certificates {
                command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(tls.ca());
            }
        }
        if let Some(ttl) = self.options.token_ttl {
            command.args(["--auth-token", "simple", "--auth-token-ttl", &ttl.as_secs().to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().expect("etcd is installed"));
        let begin = Instant::now();
        while begin.elapsed() < START {
            let ended = self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_some()));
            if ended {
                return false;
            }
            // With users, a refusal is an answer too.
            let answer = self.client().await.get("ready", None).await;
            match answer {
                Ok(_) => return true,
                Err(error) if error.to_string().contains("user name is empty") => return true,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        false
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([format!("-{signal}"), self.pid().to_string()]).status().expect("kill");
        assert!(status.success());
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Certificates of one authority: for a server on 127.0.0.1, and for a client.
#[derive(Clone, Debug)]
pub struct TlsDir(PathBuf);

impl TlsDir {
    /// Makes an authority and certificates by it in `directory`.
    pub fn make(directory: &Path) -> Self {
        std::fs::create_dir_all(directory).expect("a directory");
        let write = |name: &str, text: String| std::fs::write(directory.join(name), text).expect("a PEM file");
        let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "Felt test authority");
        let key = rcgen::KeyPair::generate().expect("a key");
        write("ca.pem", params.self_signed(&key).expect("a certificate").pem());
        let ca = rcgen::Issuer::new(params, key);
        for name in ["server", "client"] {
            let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".into(), "localhost".into()]).expect("parameters");
            params.extended_key_usages =
                vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            let key = rcgen::KeyPair::generate().expect("a key");
            write(&format!("{name}.pem"), params.signed_by(&key, &ca).expect("a certificate").pem());
            write(&format!("{name}.key"), key.serialize_pem());
        }
        Self(directory.to_owned())
    }

    /// The authority's certificate.
    pub fn ca(&self) -> PathBuf {
        self.0.join("ca.pem")
    }

    /// A server's certificate.
    pub fn server_cert(&self) -> PathBuf {
        self.0.join("server.pem")
    }

    /// Its key.
    pub fn server_key(&self) -> PathBuf {
        self.0.join("server.key")
    }

    /// A client's certificate.
    pub fn client_cert(&self) -> PathBuf {
        self.0.join("client.pem")
    }

    /// Its key.
    pub fn client_key(&self) -> PathBuf {
        self.0.join("client.key")
    }
}

/// A TCP port of 127.0.0.1 that is free at this moment.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}
