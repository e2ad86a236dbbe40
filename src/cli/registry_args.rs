//! Flags that say which registry is meant, and how to reach it.

use std::path::PathBuf;

use clap::Args;

use super::args::{FLANNEL, OWN};
use super::kube_args::KubeArgs;

/// Where etcd is looked for by default. Source: flannel.
pub const ETCD_ENDPOINTS: &str = "http://127.0.0.1:4001,http://127.0.0.1:2379";

/// Root of the keys in etcd by default. Source: flannel.
pub const ETCD_PREFIX: &str = "/coreos.com/network";

/// An etcd cluster.
#[derive(Debug, Args)]
pub struct EtcdArgs {
    /// Comma-separated URLs of etcd's members [default: http://127.0.0.1:4001,http://127.0.0.1:2379]
    #[arg(id = "etcd-endpoints", long = "etcd-endpoints", value_name = "URLS")]
    pub endpoints: Option<String>,
    /// Root of the keys in etcd
    #[arg(id = "etcd-prefix", long = "etcd-prefix", value_name = "KEY", default_value = ETCD_PREFIX)]
    pub prefix: String,
    /// Private key to show to etcd
    #[arg(id = "etcd-keyfile", long = "etcd-keyfile", value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Certificate to show to etcd
    #[arg(id = "etcd-certfile", long = "etcd-certfile", value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Authorities that vouch for etcd [default: the system's]
    #[arg(id = "etcd-cafile", long = "etcd-cafile", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// User to log in to etcd as
    #[arg(id = "etcd-username", long = "etcd-username", value_name = "NAME")]
    pub username: Option<String>,
    /// Password of that user; better given as a variable, since everybody sees what is typed
    #[arg(id = "etcd-password", long = "etcd-password", value_name = "PASSWORD")]
    pub password: Option<String>,
}

/// A registry server.
#[derive(Debug, Args)]
pub struct RemoteArgs {
    /// Registry server to use instead of etcd: `felt serve`, or flanneld 0.5 to 0.7
    #[arg(id = "remote", long = "remote", value_name = "HOST:PORT")]
    pub address: Option<String>,
}

/// TLS between a registry server and its clients: the files of whichever end this is.
#[derive(Debug, Args)]
pub struct RemoteTlsArgs {
    /// Private key to show to the other end of the registry API
    #[arg(id = "remote-keyfile", long = "remote-keyfile", value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Certificate to show to the other end of the registry API
    #[arg(id = "remote-certfile", long = "remote-certfile", value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Authorities that vouch for the other end of the registry API
    #[arg(id = "remote-cafile", long = "remote-cafile", value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// Which registry a command by hand is about.
#[derive(Debug, Args)]
#[command(next_help_heading = FLANNEL)]
pub struct RegistryArgs {
    /// The etcd cluster.
    #[command(flatten)]
    pub etcd: EtcdArgs,
    /// The registry server.
    #[command(flatten)]
    pub remote: RemoteArgs,
    /// TLS files towards the registry server.
    #[command(flatten)]
    pub remote_tls: RemoteTlsArgs,
    /// The Kubernetes API.
    #[command(flatten)]
    pub kube: KubeArgs,
    /// Store of a `felt serve` that is not running
    #[arg(long, value_name = "FILE", help_heading = OWN)]
    pub store: Option<PathBuf>,
}
