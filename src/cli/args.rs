//! What can be typed: subcommands, flags, defaults and help, as clap understands them. What it means is `options`' matter.
//!
//! Flags under the heading [`OWN`] are Felt's own; all others of `run` and `serve` are flannel's, with flannel's defaults.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::bench_args::BenchArgs;
use super::go_values::{boolean, port, within};
use super::host_args::{CleanupArgs, DockerOptsArgs, HostRulesArgs, SUBNET_FILE};
use super::kube_args::KubeArgs;
use super::lab_args::LabCommand;
use super::lease_args::LeaseCommand;
use super::policy_args::{PolicyCommand, PolicyRunArgs};
use super::registry_args::{EtcdArgs, RegistryArgs, RemoteArgs, RemoteTlsArgs};
use super::static_args::StaticArgs;

/// Heading of the flags that flannel does not have; their variables begin with `FELT_`.
pub const OWN: &str = "Felt's own options (environment: FELT_<OPTION>)";

/// Heading of the flags that flannel has; their variables begin with `FLANNELD_`.
pub(super) const FLANNEL: &str = "flannel's options (environment: FLANNELD_<OPTION>)";

/// Name and version of this program.
pub const VERSION: &str = concat!("felt ", env!("CARGO_PKG_VERSION"));

/// Where `felt serve` keeps leases by default.
pub const STORE: &str = "/var/lib/felt/registry.redb";

/// A container network made entirely in user space.
#[derive(Debug, Parser)]
#[command(name = "felt", version, disable_help_subcommand = true, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node: take a subnet, make the TUN device, forward packets
    ///
    /// Takes flannel's flags, spelled as flannel does: -flag or --flag, a value after `=` or a space, booleans only after
    /// `=`. Each flag can be given as a variable instead; what is typed wins, and an empty variable is none.
    Run(Box<RunArgs>),
    /// Serve the registry to other nodes, from a store in a file or from etcd
    ///
    /// Spelling of flags and variables as with `felt run`.
    Serve(Box<ServeArgs>),
    /// Read, write and check the network config
    Config {
        /// What to do with it.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// See who leases which subnet, and change it by hand
    Lease {
        /// What to do.
        #[command(subcommand)]
        command: LeaseCommand,
    },
    /// Make and use a test network of several nodes on this machine
    Lab {
        /// What to do with it.
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Ask who may talk to whom, and why; put policy objects into the registry
    Policy {
        /// What to do.
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Measure throughput, packet rate, latency and CPU beside plain veth and kernel vxlan, on this machine
    ///
    /// Builds what it needs in network namespaces, makes its own load, and leaves nothing behind. Needs root.
    Bench(Box<BenchArgs>),
    /// Remove what Felt has left on this host: rules, routes, TUN devices
    ///
    /// A daemon that ends in good order removes its device and the rules that lead into it; masquerade and forward rules and a
    /// blackhole route stay, as with flannel, and everything stays of one that was killed. Refused while a daemon runs. Needs root.
    Cleanup(CleanupArgs),
    /// Write the options that Docker needs to use this node's subnet
    ///
    /// In place of flannel's mk-docker-opts.sh: same flags, same output.
    DockerOpts(DockerOptsArgs),
    /// Print the version
    Version,
}

/// What `felt run` takes.
#[derive(Debug, Args)]
#[command(args_override_self = true, next_help_heading = FLANNEL)]
pub struct RunArgs {
    /// The etcd cluster.
    #[command(flatten)]
    pub etcd: EtcdArgs,
    /// The registry server, if not etcd.
    #[command(flatten)]
    pub remote: RemoteArgs,
    /// TLS files towards the registry server.
    #[command(flatten)]
    pub remote_tls: RemoteTlsArgs,
    /// The Kubernetes API.
    #[command(flatten)]
    pub kube: KubeArgs,
    /// Underlay address to publish, if not that of the interface
    #[arg(long, value_name = "ADDRESS")]
    pub public_ip: Option<Ipv4Addr>,
    /// Underlay interface, by name or address; may be repeated, the first that fits is taken
    #[arg(long, value_name = "NAME|ADDRESS")]
    pub iface: Vec<String>,
    /// Regular expression for the underlay interface's address or name; may be repeated, tried after --iface
    #[arg(long, value_name = "REGEX")]
    pub iface_regex: Vec<String>,
    /// Take the interface through which the kernel reaches this address; tried after --iface-regex
    #[arg(long, value_name = "ADDRESS")]
    pub iface_can_reach: Option<Ipv4Addr>,
    /// File to write the node's subnet to
    #[arg(long, value_name = "FILE", default_value = SUBNET_FILE)]
    pub subnet_file: PathBuf,
    /// Renew the lease this long before it ends, 1 to 1439 [default: 60, or half of a short --lease-ttl]
    #[arg(long, value_name = "MINUTES", value_parser = |text: &str| within(text, 1, 1439))]
    pub subnet_lease_renew_margin: Option<i64>,
    /// Address to serve health on
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub healthz_ip: IpAddr,
    /// Port to serve health on; 0 for none
    #[arg(long, value_name = "PORT", default_value = "0", value_parser = port)]
    pub healthz_port: u16,
    /// What is done beside the tunnel.
    #[command(flatten)]
    pub host_rules: HostRulesArgs,
    /// How much to log.
    #[command(flatten)]
    pub log: LogArgs,
    /// Print the version and exit
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "false", hide_default_value = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub version: bool,
    /// What flannel does not have.
    #[command(flatten)]
    pub own: OwnArgs,
}

/// What `felt run` takes and flannel does not know.
#[derive(Debug, Args)]
#[command(next_help_heading = OWN)]
pub struct OwnArgs {
    /// Name of the TUN device, or a template with one `%d` for the first free number
    #[arg(long, value_name = "NAME", default_value = "flannel%d", value_parser = device_name)]
    pub tun_name: String,
    /// Leave the TUN device in place on a clean end, so that a restart disturbs no route
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "false", hide_default_value = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub keep_device: bool,
    /// Who this node is, told apart from others that announce the same public IP [default: the machine id]
    #[arg(long, value_name = "ID", value_parser = node_id)]
    pub node_id: Option<String>,
    /// Workers, each with a queue of the device, a socket and two threads of its own, 1 to 16
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = |text: &str| within(text, 1, 16))]
    pub workers: i64,
    /// How far packets from the wire must prove their origin
    #[arg(long, value_name = "HOW", default_value = "strict")]
    pub source_check: SourceCheckArg,
    /// How long leases last.
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// Socket buffer to ask of the kernel, each way
    #[arg(long, value_name = "BYTES", default_value = "16777216", value_parser = |text: &str| within(text, 4096, 1 << 30))]
    pub udp_buffer: i64,
    /// What is left to the kernel.
    #[command(flatten)]
    pub offloads: OffloadArgs,
    /// Who may talk to whom.
    #[command(flatten)]
    pub policy: PolicyRunArgs,
    /// Peers without a registry.
    #[command(flatten)]
    pub peers: StaticArgs,
}

/// What is left to the kernel and the devices, and how much at once.
#[derive(Debug, Args)]
#[command(next_help_heading = OWN)]
pub struct OffloadArgs {
    /// Take and give single packets at the TUN device, not super-packets of up to 64 KiB
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "false", hide_default_value = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub no_tun_offload: bool,
    /// Send datagrams to the kernel one by one, not as trains of up to 128
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "false", hide_default_value = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub no_udp_gso: bool,
    /// Receive datagrams from the kernel one by one, not as trains
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "false", hide_default_value = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub no_udp_gro: bool,
    /// Packets moved per turn and direction, 1 to 256; 1 is one packet per system call, for comparison
    #[arg(long, value_name = "COUNT", default_value = "64", value_parser = |text: &str| within(text, 1, 256))]
    pub batch: i64,
    /// How long a worker may look for the next packet before it sleeps, 0 to 10000; it looks for as long as that lately paid
    #[arg(long, value_name = "MICROSECONDS", default_value = "100", value_parser = |text: &str| within(text, 0, 10_000))]
    pub spin: i64,
}

/// How long leases last.
#[derive(Debug, Args)]
pub struct LeaseArgs {
    /// How long a lease lasts unless renewed, from 5; less than a day suits small sites and tests; a node with --remote goes by
    /// its server's instead
    #[arg(long, value_name = "SECONDS", default_value = "86400", help_heading = OWN)]
    #[arg(value_parser = |text: &str| within(text, 5, 31_536_000))]
    pub lease_ttl: i64,
}

/// Spelling of [`SourceCheck`](crate::daemon::SourceCheck).
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SourceCheckArg {
    /// Outer address and port are a known node's, the inner source is in its subnet
    Strict,
    /// Outer address is a known node's, the inner source is in its subnet
    Address,
    /// Take everything; only where nobody else can send
    Off,
}

/// How much to log.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// How much to log: 0 state changes, 1 details, 2 everything
    #[arg(long, value_name = "LEVEL", default_value = "0", value_parser = |text: &str| within(text, 0, 255))]
    pub v: i64,
    /// The same in a word; wins over --v
    #[arg(long, value_name = "LEVEL", help_heading = OWN)]
    pub log_level: Option<LogLevel>,
}

/// How much to log, as weave-npc spells it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogLevel {
    /// Details
    Debug,
    /// State changes
    Info,
    /// What needs looking at
    Warning,
    /// What went wrong
    Error,
}

/// What `felt serve` takes.
#[derive(Debug, Args)]
#[command(args_override_self = true, next_help_heading = FLANNEL)]
pub struct ServeArgs {
    /// Where to serve: ADDRESS:PORT, or `fd://N` for a socket the service manager passes on as descriptor N
    #[arg(long, value_name = "ADDRESS")]
    pub listen: String,
    /// The etcd cluster, if leases are kept there.
    #[command(flatten)]
    pub etcd: EtcdArgs,
    /// TLS files towards the nodes.
    #[command(flatten)]
    pub tls: RemoteTlsArgs,
    /// How much to log.
    #[command(flatten)]
    pub log: LogArgs,
    /// File to keep leases in [default: /var/lib/felt/registry.redb, unless --etcd-endpoints is given]
    #[arg(long, value_name = "FILE", help_heading = OWN)]
    pub store: Option<PathBuf>,
    /// How long leases last.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// What can be done with the network config.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the registry's network config
    #[command(args_override_self = true)]
    Get {
        /// Where it lies.
        #[command(flatten)]
        registry: Box<RegistryArgs>,
    },
    /// Check a network config and put it into the registry
    #[command(args_override_self = true)]
    Set {
        /// The config, as JSON; `-` for standard input
        file: PathBuf,
        /// Where it goes.
        #[command(flatten)]
        registry: Box<RegistryArgs>,
    },
    /// Check a network config and say what it means; exit code 5 if it makes no network
    Check {
        /// The config, as JSON; `-` for standard input
        file: PathBuf,
        /// Say it as JSON
        #[arg(long)]
        json: bool,
    },
}

/// What tells this node from others; it becomes part of a URL and of a key's value.
fn node_id(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if fits { Ok(text.to_owned()) } else { Err("expected 1 to 64 letters, digits and `-_.`".to_owned()) }
}

/// A name the kernel gives a device, with at most one `%d`.
fn device_name(text: &str) -> Result<String, String> {
    // IFNAMSIZ is 16 with the final zero; the kernel refuses these characters and the names of directories.
    let plain = text.replacen("%d", "", 1);
    let fits = !text.is_empty() && text.len() <= 15 && text != "." && text != "..";
    if fits && !plain.contains(|c: char| c == '/' || c == ':' || c == '%' || c.is_whitespace() || c.is_control()) {
        Ok(text.to_owned())
    } else {
        Err("expected a device name of at most 15 characters, with at most one `%d`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_finds_no_fault_with_the_definition() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn device_names_are_the_kernel_s() {
        for name in ["flannel%d", "flannel0", "a", "felt-node-1.2345"] {
            assert_eq!(device_name(name).is_ok(), name.len() <= 15, "{name}");
        }
        for name in ["", "a b", "a/b", "..", "%d%d", "%s", "a:1", "sixteen_letters_"] {
            assert!(device_name(name).is_err(), "{name:?}");
        }
    }
}
