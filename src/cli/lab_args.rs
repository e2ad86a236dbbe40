//! What can be typed after `felt lab`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr as _;

use clap::{Args, Subcommand};

use crate::lab::{LabName, LabPolicy, Place, PolicyScope};

/// What can be done with the test network.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Make the network
    Up {
        /// Which.
        #[command(flatten)]
        lab: LabArgs,
        /// How big.
        #[command(flatten)]
        size: LabSize,
        /// With which policy.
        #[command(flatten)]
        policy: PolicyArgs,
    },
    /// Run a command inside a node or pod
    Exec {
        /// Which.
        #[command(flatten)]
        lab: LabArgs,
        /// The node or pod: node1 or n1, node1-pod2 or n1p2
        #[arg(value_parser = Place::from_str)]
        place: Place,
        /// The command and its arguments
        #[arg(required = true, last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Show nodes, pods, addresses and namespaces
    Status {
        /// Which.
        #[command(flatten)]
        lab: LabArgs,
        /// Show them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Take the network down
    Down {
        /// Which.
        #[command(flatten)]
        lab: LabArgs,
    },
    /// Show what Felt does: a network made, used, broken and mended, and nothing left behind
    Demo {
        /// How big.
        #[command(flatten)]
        size: LabSize,
    },
}

/// Which test network.
#[derive(Debug, Args)]
pub struct LabArgs {
    /// Name of the network; several can stand side by side
    #[arg(long, value_name = "NAME", default_value = "felt", value_parser = LabName::from_str)]
    pub name: LabName,
}

/// With which policy.
#[derive(Debug, Args)]
pub struct PolicyArgs {
    /// Enforce the policies of this folder, and follow its changes; repeatable. The pods are in namespace `lab`, named
    /// node1-pod1 and so on, with the labels app=node1-pod1, node=node1, pod=pod1 and the named ports web (TCP 80) and dns
    /// (UDP 53)
    #[arg(long = "policy-dir", value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// What is judged: what crosses the tunnel (overlay), or all traffic of pods, also within a node (node) [default: overlay]
    #[arg(long = "policy-scope", value_name = "SCOPE", requires = "dirs", value_parser = PolicyScope::from_str)]
    pub scope: Option<PolicyScope>,
}

impl PolicyArgs {
    /// The policy of the network; `None` if none was asked for.
    #[must_use]
    pub fn policy(self) -> Option<LabPolicy> {
        // A daemon that is started again, perhaps from elsewhere, has to find them; what is not there is told later.
        let absolute = |dir: PathBuf| std::path::absolute(&dir).unwrap_or(dir);
        let scope = self.scope.unwrap_or_default();
        (!self.dirs.is_empty()).then(|| LabPolicy { dirs: self.dirs.into_iter().map(absolute).collect(), scope })
    }
}

/// How big a test network is.
#[derive(Clone, Copy, Debug, Args)]
pub struct LabSize {
    /// Nodes, 1 to 250
    #[arg(short, long, value_name = "COUNT", default_value = "3", value_parser = clap::value_parser!(u16).range(1..=250))]
    pub nodes: u16,
    /// Pods on each node, at most 250
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = clap::value_parser!(u16).range(0..=250))]
    pub pods: u16,
    /// Start an etcd for the leases instead of the built-in registry
    #[arg(long)]
    pub etcd: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: LabCommand,
    }

    fn policy(line: &str) -> Result<Option<LabPolicy>, String> {
        let line = Line::try_parse_from(format!("lab up {line}").split_whitespace()).map_err(|error| error.to_string())?;
        let LabCommand::Up { policy, .. } = line.command else { panic!("not up") };
        Ok(policy.policy())
    }

    #[test]
    fn policy_is_of_folders_and_a_scope() {
        assert_eq!(policy(""), Ok(None));
        let dirs = vec![PathBuf::from("/a"), std::env::current_dir().unwrap().join("b")];
        let expected = |scope| Ok(Some(LabPolicy { dirs: dirs.clone(), scope }));
        assert_eq!(policy("--policy-dir /a --policy-dir b"), expected(PolicyScope::Overlay));
        assert_eq!(policy("--policy-dir /a --policy-dir b --policy-scope node"), expected(PolicyScope::Node));
        assert!(policy("--policy-scope node").unwrap_err().contains("--policy-dir"));
        assert!(policy("--policy-dir /a --policy-scope pod").unwrap_err().contains("expected overlay or node"));
    }
}
