//! What can be typed after `felt lab`.

use std::ffi::OsString;
use std::str::FromStr as _;

use clap::{Args, Subcommand};

use crate::lab::{LabName, Place};

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
