//! What one node is asked to be: the daemon's options as plain values, already checked, without defaults of their own.
//!
//! Made by `cli` from flags and variables, by `lab` and the tests by hand.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::policy::PolicyOptions;
use super::rules::HostRulesOptions;
use crate::control::registry::etcd::EtcdConfig;
use crate::control::registry::kube::KubeChoice;
use crate::control::registry::static_peers::StaticPlan;
use crate::control::tls::TlsFiles;
use crate::forward::SourceCheck;

/// How a node runs.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Where leases live.
    pub registry: RegistryChoice,
    /// Names or addresses of the underlay interface, the first that fits wins; empty: not asked for.
    pub iface: Vec<String>,
    /// Regular expressions (known to compile) for the address or name of the underlay interface, tried after `iface`.
    pub iface_regex: Vec<String>,
    /// The underlay interface is the one the kernel would reach this address through; tried after `iface_regex`.
    pub iface_can_reach: Option<Ipv4Addr>,
    /// Underlay address published in the lease, if not the interface's own.
    pub public_ip: Option<Ipv4Addr>,
    /// The file that tells others our subnet.
    pub subnet_file: PathBuf,
    /// How long before its end a lease is renewed; shorter than `lease_ttl`.
    pub renew_margin: Duration,
    /// How long a lease lasts unless renewed.
    pub lease_ttl: Duration,
    /// Where health is served; `None`: nowhere.
    pub healthz: Option<SocketAddr>,
    /// Where metrics are served, too; `None`: where health is, only.
    pub metrics: Option<SocketAddr>,
    /// How policy is gone by; `None`: there is none.
    pub policy: Option<PolicyOptions>,
    /// What is done on the host beside the tunnel.
    pub host_rules: HostRulesOptions,
    /// Name of the TUN device, or a template with one `%d`.
    pub tun_name: String,
    /// Workers, each with a TUN queue and a socket of its own; at least one.
    pub workers: usize,
    /// Leave the TUN device in place, with its addresses and routes, on a clean end.
    pub keep_device: bool,
    /// Who this node is, for the registry to tell it from others announcing the same address; `None`: its machine id.
    pub node_id: Option<String>,
    /// What the inner source address of a packet from the wire is held against.
    pub source_check: SourceCheck,
    /// Socket buffer asked of the kernel, each way, in bytes.
    pub udp_buffer: usize,
    /// What may be left to the kernel and the devices, where they can.
    pub offloads: Offloads,
    /// Packets, or super-packets, moved per turn and direction, and at most in one system call; at least one.
    pub batch: usize,
    /// How long a worker may look for packets before it sleeps; zero: not at all.
    pub spin: Duration,
}

/// Which offloads may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// Super-packets through the TUN device.
    pub tun: bool,
    /// Trains of datagrams sent in one message.
    pub udp_gso: bool,
    /// Trains of datagrams received in one message.
    pub udp_gro: bool,
}

impl Offloads {
    /// All that the kernel has.
    pub const ALL: Self = Self { tun: true, udp_gso: true, udp_gro: true };
    /// Packet by packet.
    pub const NONE: Self = Self { tun: false, udp_gso: false, udp_gro: false };
}

/// Which registry, and what is needed to use it.
#[derive(Clone, Debug)]
pub enum RegistryChoice {
    /// An etcd v3 cluster.
    Etcd(EtcdConfig),
    /// A registry server: `felt serve`, or flanneld 0.5 to 0.7 with `--listen`.
    Remote(RemoteChoice),
    /// A Kubernetes cluster.
    Kube(KubeChoice),
    /// None: peers that were named one by one.
    Static(StaticPlan),
}

/// A registry server and our access to it.
#[derive(Clone, Debug)]
pub struct RemoteChoice {
    /// `host:port`.
    pub address: String,
    /// Our certificate and key, and the authorities that vouch for the server.
    pub tls: TlsFiles,
}
