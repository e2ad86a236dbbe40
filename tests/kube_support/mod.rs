//! A real Kubernetes API server for tests: etcd and kube-apiserver, in a namespace or on the host's loopback, gone when dropped.
//!
//! The program is what `scripts/kube-apiserver` makes; `FELT_KUBE_APISERVER` may name it, or that script is asked. Nothing else of
//! a cluster runs: no controller, no scheduler, no kubelet.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use felt::sys::netns::Netns;
use http_body_util::BodyExt as _;
use hyper::Request;
use kube::client::Body;
use kube::config::Kubeconfig;
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a server may take to be ready; these machines are slow when all tests run.
const START: Duration = Duration::from_mins(1);

/// The token of somebody who may do everything.
pub const ADMIN: &str = "admin-token";
/// The token of the service account `felt` in the namespace `felt`, which may do what is granted to it.
pub const FELT: &str = "felt-token";

/// An API server and its store.
pub struct KubeServer {
    netns: Netns,
    address: Ipv4Addr,
    port: u16,
    etcd_port: u16,
    directory: TempDir,
    etcd: Child,
    api: Option<Child>,
}

impl KubeServer {
    /// A server at `address` of `netns`, ready to answer.
    pub fn start(netns: &Netns, address: Ipv4Addr) -> Self {
        // A free port may be taken by somebody else before the server listens on it: then others are tried.
        for _ in 0..5 {
            if let Some(server) = Self::try_start(Netns::open(netns.name()).unwrap(), address) {
                return server;
            }
        }
        panic!("the API server did not start");
    }

    /// The server's URL.
    pub fn url(&self) -> String {
        format!("https://{}:{}", self.address, self.port)
    }

    /// The API server's process.
    pub fn pid(&self) -> u32 {
        self.api.as_ref().expect("a running server").id()
    }

    /// Ends the API server as a power cut would; the store stays.
    pub fn kill(&mut self) {
        if let Some(mut api) = self.api.take() {
            end(&mut api);
        }
    }

    /// Starts the API server again, on the same port, and waits until it is ready.
    pub fn restart(&mut self) {
        self.kill();
        self.api = Some(self.spawn_api());
        assert!(self.becomes_ready(), "{}", self.log());
    }

    /// A kubeconfig file for the bearer of `token`.
    pub fn kubeconfig(&self, token: &str) -> PathBuf {
        let path = self.directory.path().join(format!("kubeconfig-{token}"));
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "t",
            "clusters": [{"name": "t", "cluster": {"server": self.url(), "certificate-authority": self.file("ca.pem")}}],
            "users": [{"name": "t", "user": {"token": token}}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
        });
        fs::write(&path, text.to_string()).unwrap();
        path
    }

    /// What the API answers to somebody who may do everything: status and object.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.call_as(ADMIN, method, path, body)
    }

    /// The same, to the bearer of `token`.
    pub fn call_as(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.try_call(token, method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}\n{}", self.log()))
    }

    /// Makes an object, which the API must take; the object.
    pub fn create(&self, path: &str, object: &Value) -> Value {
        let (status, answer) = self.call("POST", path, Some(object));
        assert_eq!(status, 201, "{path}: {answer}");
        answer
    }

    /// Merges `changes` into an object (RFC 7386), which the API must take; the object.
    pub fn merge(&self, path: &str, changes: &Value) -> Value {
        let (status, answer) = self.call("PATCH", path, Some(changes));
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// An object that is there.
    pub fn read(&self, path: &str) -> Value {
        let (status, answer) = self.call("GET", path, None);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// Removes an object that is there.
    pub fn delete(&self, path: &str) {
        let (status, answer) = self.call("DELETE", path, None);
        assert_eq!(status, 200, "{path}: {answer}");
    }

    /// What the API server has logged lately.
    pub fn log(&self) -> String {
        let log = fs::read_to_string(self.file("apiserver.log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn try_start(netns: Netns, address: Ipv4Addr) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        make_files(directory.path(), address);
        let [port, etcd_port, peer_port] = [free_port(), free_port(), free_port()];
        let (client, peer) = (format!("http://{address}:{etcd_port}"), format!("http://{address}:{peer_port}"));
        let mut etcd = Command::new("etcd");
        etcd.args(["--name", "kube", "--unsafe-no-fsync", "--data-dir"]).arg(directory.path().join("etcd"));
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        etcd.args(["--initial-cluster", &format!("kube={peer}")]);
        let etcd = spawn(&netns, etcd, &directory.path().join("etcd.log"));
        let mut server = Self { netns, address, port, etcd_port, directory, etcd, api: None };
        server.api = Some(server.spawn_api());
        server.becomes_ready().then_some(server)
    }

    fn spawn_api(&self) -> Child {
        let address = self.address.to_string();
        let mut command = Command::new(program());
        let mut flag = |name: &str, value: &str| _ = command.arg(format!("--{name}={value}"));
        flag("etcd-servers", &format!("http://{address}:{}", self.etcd_port));
        flag("bind-address", &address);
        // Said, because there may be no default route to find it by.
        flag("advertise-address", &address);
        flag("secure-port", &self.port.to_string());
        flag("endpoint-reconciler-type", "none");
        flag("service-cluster-ip-range", "10.96.0.0/16");
        flag("allow-privileged", "true");
        flag("authorization-mode", "RBAC");
        // Without controllers, pods would wait for service accounts and new nodes keep a taint.
        flag("disable-admission-plugins", "ServiceAccount,TaintNodesByCondition");
        // Ranges of ports are known to the JSON form only.
        flag("storage-media-type", "application/json");
        flag("service-account-issuer", "https://kubernetes.default.svc");
        for (name, file) in [
            ("tls-cert-file", "server.pem"),
            ("tls-private-key-file", "server.key"),
            ("client-ca-file", "ca.pem"),
            ("token-auth-file", "tokens.csv"),
            ("service-account-signing-key-file", "accounts.key"),
            ("service-account-key-file", "accounts.pub"),
            ("cert-dir", "."),
        ] {
            flag(name, &self.file(file).display().to_string());
        }
        spawn(&self.netns, command, &self.file("apiserver.log"))
    }

    fn becomes_ready(&mut self) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < START {
            let ended = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some());
            if self.api.as_mut().is_some_and(ended) || ended(&mut self.etcd) {
                return false;
            }
            if self.try_call(ADMIN, "GET", "/readyz", None).is_ok_and(|(status, _)| status == 200) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    fn try_call(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value), String> {
        let kubeconfig = self.kubeconfig(token);
        let exchange = async {
            let config = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
            let config = Config::try_from(config).map_err(|error| error.to_string())?;
            let client = Client::try_from(config).map_err(|error| error.to_string())?;
            let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            let text = body.map(ToString::to_string).unwrap_or_default();
            let request = Request::builder().method(method).uri(path).header("Content-Type", kind);
            let request = request.body(Body::from(text.into_bytes())).map_err(|error| error.to_string())?;
            let answer = client.send(request).await.map_err(|error| error.to_string())?;
            let status = answer.status().as_u16();
            let text = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
            Ok((status, serde_json::from_slice(&text).unwrap_or(Value::Null)))
        };
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(exchange)
        };
        self.netns.run_in(run).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for KubeServer {
    fn drop(&mut self) {
        self.kill();
        end(&mut self.etcd);
    }
}

/// The API server's program.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/kube-apiserver");
        let output = Command::new(script).stderr(Stdio::inherit()).output().expect("scripts/kube-apiserver can be run");
        assert!(output.status.success(), "scripts/kube-apiserver failed");
        String::from_utf8(output.stdout).unwrap().trim().into()
    })
}

fn spawn(netns: &Netns, mut command: Command, log: &Path) -> Child {
    let log = File::options().create(true).append(true).open(log).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    netns.place(&mut command).unwrap();
    command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Certificates, keys of service accounts, tokens.
fn make_files(directory: &Path, address: Ipv4Addr) {
    let write = |name: &str, text: String| fs::write(directory.join(name), text).unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "Felt test authority");
    let key = rcgen::KeyPair::generate().unwrap();
    write("ca.pem", params.self_signed(&key).unwrap().pem());
    let ca = rcgen::Issuer::new(params, key);
    let mut params = rcgen::CertificateParams::new(vec![address.to_string(), "localhost".into()]).unwrap();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    write("server.pem", params.signed_by(&key, &ca).unwrap().pem());
    write("server.key", key.serialize_pem());
    let accounts = rcgen::KeyPair::generate().unwrap();
    write("accounts.key", accounts.serialize_pem());
    write("accounts.pub", accounts.public_key_pem());
    write("tokens.csv", format!("{ADMIN},admin,1,system:masters\n{FELT},system:serviceaccount:felt:felt,2\n"));
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}
