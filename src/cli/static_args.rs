//! What can be typed about peers that are named one by one, and what it means.

use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::args::OWN;
use super::go_values::within;
use super::kube_args::KubeArgs;
use super::registry_args::{ETCD_PREFIX, EtcdArgs, RemoteArgs, RemoteTlsArgs};
use crate::control::registry::static_peers::{Peer, StaticPlan};
use crate::lease::DEFAULT_UDP_PORT;
use crate::net::Prefix4;

/// Peers without a registry.
#[derive(Debug, Args)]
#[command(next_help_heading = OWN)]
pub struct StaticArgs {
    /// This node's subnet, where its peers are named with --peer or --peers-file and there is no registry
    #[arg(long, value_name = "SUBNET", value_parser = subnet)]
    pub subnet: Option<Prefix4>,
    /// A peer: its subnet, its underlay address, and its port if that is not ours; may be repeated
    #[arg(long, value_name = "SUBNET=ADDRESS[:PORT]")]
    pub peer: Vec<Peer>,
    /// File with more peers, a line each: SUBNET ADDRESS, or SUBNET ADDRESS:PORT; changes are followed
    #[arg(long, value_name = "FILE")]
    pub peers_file: Option<PathBuf>,
    /// Overlay network of these peers [default: the smallest that holds all subnets; with --peers-file there is none]
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<Prefix4>,
    /// UDP port of this node and of peers that are named without one [default: 8285]
    #[arg(long, value_name = "PORT", value_parser = |text: &str| within(text, 1, 65_535))]
    pub port: Option<i64>,
}

impl StaticArgs {
    /// The peers that were named; `None` if there is a registry.
    pub fn plan(
        self,
        etcd: &EtcdArgs,
        remote: &RemoteArgs,
        tls: &RemoteTlsArgs,
        kube: &KubeArgs,
    ) -> Result<Option<StaticPlan>, Failure> {
        let usage = |message: String| Err(Failure::Usage(message));
        let peers = if self.peers_file.is_some() { "--peers-file" } else { "--peer" };
        let is_named = !self.peer.is_empty() || self.peers_file.is_some();
        let Some(subnet) = self.subnet else {
            let needless = [("--network", self.network.is_some()), ("--port", self.port.is_some())];
            return match needless.iter().find(|(_, given)| *given) {
                _ if is_named => {
                    usage(format!("{peers} names peers of a node without a registry; give this node's own --subnet too"))
                }
                Some((flag, _)) => usage(format!(
                    "{flag} is of use only with --subnet; with a registry it is the network config that says so, see `felt config set`"
                )),
                None => Ok(None),
            };
        };
        if !is_named {
            return usage("--subnet is for a node without a registry; name its peers with --peer or --peers-file too".to_owned());
        }
        if let Some(other) = registry_flag(etcd, remote, tls, kube) {
            return usage(format!("{peers} and {other} say two places where peers come from; give one of them"));
        }
        let port = self.port.and_then(|port| u16::try_from(port).ok()).unwrap_or(DEFAULT_UDP_PORT);
        Ok(Some(StaticPlan { subnet, network: self.network, port, peers: self.peer, file: self.peers_file }))
    }
}

/// A flag that was given about a registry, or a variable.
fn registry_flag(etcd: &EtcdArgs, remote: &RemoteArgs, tls: &RemoteTlsArgs, kube: &KubeArgs) -> Option<&'static str> {
    let flags = [
        ("--kube-subnet-mgr", kube.kube_subnet_mgr),
        ("--remote", remote.address.is_some()),
        ("--remote-keyfile", tls.key.is_some()),
        ("--remote-certfile", tls.cert.is_some()),
        ("--remote-cafile", tls.ca.is_some()),
        ("--etcd-endpoints", etcd.endpoints.is_some()),
        ("--etcd-prefix", etcd.prefix != ETCD_PREFIX),
        ("--etcd-keyfile", etcd.key.is_some()),
        ("--etcd-certfile", etcd.cert.is_some()),
        ("--etcd-cafile", etcd.ca.is_some()),
        ("--etcd-username", etcd.username.is_some()),
        ("--etcd-password", etcd.password.is_some()),
    ];
    flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
}

fn subnet(text: &str) -> Result<Prefix4, String> {
    Prefix4::exact(text).map_err(|error| error.to_string())
}
