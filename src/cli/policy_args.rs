//! What can be typed about policy: flags of `felt run`, and what comes after `felt policy`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::args::OWN;
use super::go_values::{boolean, within};
use super::policy::tool_args::{CheckArgs, ExplainArgs, MatrixArgs};
use super::registry_args::RegistryArgs;

/// What `felt run` takes about policy.
#[derive(Debug, Args)]
#[command(next_help_heading = OWN)]
pub struct PolicyRunArgs {
    /// Folder or file of manifests to take policy from; may be repeated, where two hold the same object the later one counts
    #[arg(long, value_name = "PATH")]
    pub policy_dir: Vec<PathBuf>,
    /// Take policy from the registry, where `felt policy apply` puts it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "false", hide_default_value = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub policy_from_registry: bool,
    /// Which traffic of this node's pods is judged
    #[arg(long, value_name = "SCOPE", default_value = "overlay")]
    pub policy_scope: ScopeArg,
    /// What pods may do until every policy source has said what it has
    #[arg(long, value_name = "WHAT", default_value = "deny")]
    pub policy_until_synced: UntilSyncedArg,
    /// What addresses of this node's subnet may do that no pod is known to have
    #[arg(long, value_name = "WHAT", default_value = "deny")]
    pub policy_unknown_pods: UnknownPodsArg,
    /// What becomes of established flows that policy comes to forbid
    #[arg(long, value_name = "HOW", default_value = "strict")]
    pub policy_established: EstablishedArg,
    /// Flows remembered at a time, 128 bytes each, 1024 to 16777216
    #[arg(long, value_name = "COUNT", default_value = "262144", value_parser = |text: &str| within(text, 1024, 1 << 24))]
    pub policy_flows: i64,
    /// Let multicast pass unasked; if false it does not pass, where there is policy
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    pub allow_mcast: bool,
    /// This node's name, as pods say which node they run on [default: $HOSTNAME, then the host's name]
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// Address to serve metrics on, such as :6781, besides the one for health
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listening)]
    pub metrics_addr: Option<SocketAddr>,
}

/// Spelling of [`PolicyScope`](crate::daemon::policy::PolicyScope).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScopeArg {
    /// What crosses the tunnel
    Overlay,
    /// All of it: from pod to pod on this host and to the world, too; needs routed pods, not bridged ones
    Node,
}

/// Spelling of [`UntilSynced`](crate::daemon::policy::UntilSynced).
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum UntilSyncedArg {
    /// Nothing
    Deny,
    /// What the policies known so far allow; anything, at first
    Allow,
}

/// Spelling of [`UnknownPods`](crate::policy::UnknownPods).
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum UnknownPodsArg {
    /// Nothing: a pod may be about to be known there, with any policy
    Deny,
    /// Anything
    Allow,
}

/// Spelling of [`Established`](crate::daemon::policy::Established).
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum EstablishedArg {
    /// They end at their next packet
    Strict,
    /// They go on
    Keep,
}

/// How expectations are written.
const EXPECTATIONS: &str = "\
Expectations:
  allow:
  - from: shop/web                             # a pod, a namespace's pods (shop/*), node:NAME,
    to: {namespace: shop, labels: {app: db}}   # ext:NAME, an address, or a selector: namespace,
    port: TCP/5432                             # namespaceLabels, labels
  deny:
  - note: nobody but web asks the database     # said with the differences
    from: [ads/*, {namespaceLabels: {team: guests}}, 203.0.113.9]
    to: shop/db-0
    port: [TCP/5432, TCP/22]                   # one or a list, as with from and to

Every one of `from` must, or must not, reach every one of `to` on every port, in each family that both have. A pod that \
a selector puts on both sides is not asked about itself.";

/// What can be done with policy.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Show who may talk to whom: as a table, as JSON, or as a page for a browser
    ///
    /// A row is a source, a column a destination. Ends are all pods that have not finished and are not on their host's network,
    /// then node:NAME and ext:NAME. What is not understood of an object is told, and counts as whatever lets least through. If an
    /// object or a file cannot be used at all, the exit code is 2, after the matrix of the rest.
    Matrix(Box<MatrixArgs>),
    /// Say whether a flow is allowed, and every policy and rule that takes part; exit code 5 if it is refused
    ///
    /// Each address family that both ends have is judged. What is not understood of an object is told, and counts as whatever lets
    /// least through. If an object or a file cannot be used at all, the exit code is 2, after the verdict by the rest.
    Explain(Box<ExplainArgs>),
    /// Check who must and who must not reach whom; exit code 5, with the differences and their reasons, if that does not hold
    ///
    /// If anything in the manifests is not understood, or a name or selector in the expectations means nothing, the exit code is 2.
    #[command(after_long_help = EXPECTATIONS)]
    Check(Box<CheckArgs>),
    /// Check manifests and put their objects into the registry, where nodes with --policy-from-registry follow them
    ///
    /// One object that cannot be read, and nothing is written. What is read but not understood in part fails closed, and is
    /// warned of.
    #[command(args_override_self = true)]
    Apply {
        /// Manifests: YAML or JSON files, folders of such, or `-` for standard input
        #[arg(short, long, value_name = "PATH", required = true, num_args = 1..)]
        file: Vec<PathBuf>,
        /// Where they go.
        #[command(flatten)]
        registry: Box<RegistryArgs>,
    },
    /// Take objects out of the registry; exit code 5 if one was not there
    #[command(args_override_self = true)]
    Delete {
        /// Which.
        #[command(flatten)]
        which: DeleteArgs,
        /// Where they are.
        #[command(flatten)]
        registry: Box<RegistryArgs>,
    },
    /// List the objects in the registry
    #[command(args_override_self = true)]
    List {
        /// As a list of manifests, in JSON
        #[arg(long)]
        json: bool,
        /// Where they are.
        #[command(flatten)]
        registry: Box<RegistryArgs>,
    },
}

/// Which objects to take out.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Those in these manifests: YAML or JSON files, folders of such, or `-` for standard input
    #[arg(short, long, value_name = "PATH", num_args = 1.., required_unless_present = "kind", conflicts_with_all = ["kind", "name"])]
    pub file: Vec<PathBuf>,
    /// Kind of the object, such as networkpolicy
    #[arg(requires = "name")]
    pub kind: Option<String>,
    /// Its name
    pub name: Option<String>,
    /// Its namespace, where its kind has one
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub namespace: String,
}

/// An address to listen on; without a host, every IPv4 address, as weave-npc's flag is spelled.
fn listening(text: &str) -> Result<SocketAddr, String> {
    let whole = if text.starts_with(':') { format!("{}{text}", Ipv4Addr::UNSPECIFIED) } else { text.to_owned() };
    let address: Option<SocketAddr> = whole.parse().ok();
    address
        .filter(|address| address.port() != 0)
        .ok_or_else(|| "expected an address and a port, such as 127.0.0.1:6781 or :6781".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_served_where_weave_npc_s_flag_says() {
        assert_eq!(listening(":6781"), Ok(([0, 0, 0, 0], 6781).into()));
        assert_eq!(listening("[::1]:80"), Ok("[::1]:80".parse().unwrap()));
        for text in ["", ":", ":0", "6781", "localhost:80", "10.0.0.1", ":99999"] {
            assert!(listening(text).unwrap_err().contains("expected an address and a port"), "{text}");
        }
    }
}
