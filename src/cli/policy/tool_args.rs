//! What can be typed after `felt policy matrix`, `explain` and `check`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::policy::offline::Probe;

/// What all of them read.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// Manifests: files, folders of them, or `-` for standard input; Namespaces, Nodes, Pods with their status, policies
    #[arg(short, long = "file", value_name = "PATH", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// A name for addresses outside the cluster; may be repeated
    #[arg(long, value_name = "NAME=IP[,IP]", value_parser = external)]
    pub external: Vec<(String, Vec<IpAddr>)>,
    /// Go by what was understood: the exit code is that of the answer
    #[arg(long)]
    pub keep_going: bool,
}

/// What `felt policy matrix` takes.
#[derive(Debug, Args)]
pub struct MatrixArgs {
    /// What to read.
    #[command(flatten)]
    pub read: ReadArgs,
    /// Protocols and destination ports to ask, such as TCP/80 [default: TCP/80, and the first few that policies and pods name]
    #[arg(long, value_name = "PROTOCOL/PORT", value_delimiter = ',', value_parser = Probe::parse)]
    pub probe: Vec<Probe>,
    /// How to show it
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: MatrixFormat,
}

/// How a matrix is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MatrixFormat {
    /// For a terminal
    Table,
    /// For programs
    Json,
    /// One page for a browser, with the reasons; needs nothing else
    Html,
}

/// What `felt policy explain` takes.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Who begins: NAMESPACE/POD, node:NAME, ext:NAME or an address
    #[arg(long, value_name = "END")]
    pub from: String,
    /// With whom, likewise
    #[arg(long, value_name = "END")]
    pub to: String,
    /// Protocol and destination port, such as TCP/80
    #[arg(long, value_name = "PROTOCOL/PORT", value_parser = Probe::parse)]
    pub port: Probe,
    /// What to read.
    #[command(flatten)]
    pub read: ReadArgs,
    /// Say it as JSON
    #[arg(long)]
    pub json: bool,
}

/// What `felt policy check` takes.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// What to read.
    #[command(flatten)]
    pub read: ReadArgs,
    /// What is expected, as YAML or JSON; `-` for standard input
    #[arg(short, long, value_name = "FILE")]
    pub expectations: PathBuf,
    /// Say it as JSON
    #[arg(long)]
    pub json: bool,
}

fn external(text: &str) -> Result<(String, Vec<IpAddr>), String> {
    let found = text.split_once('=').filter(|(name, _)| !name.is_empty()).and_then(|(name, list)| {
        let addresses: Result<Vec<IpAddr>, _> = list.split(',').map(str::parse).collect();
        Some((name.to_owned(), addresses.ok()?.into_iter().map(|address| address.to_canonical()).collect()))
    });
    found.ok_or_else(|| "expected a name and its addresses, such as web=192.0.2.7,2001:db8::7".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outsiders_have_a_name_and_addresses() {
        let (name, addresses) = external("web=192.0.2.7,2001:db8::7").unwrap();
        assert_eq!((name.as_str(), addresses.len()), ("web", 2));
        for text in ["", "web", "web=", "=192.0.2.7", "web=192.0.2.7,", "web=192.0.2.0/24"] {
            assert!(external(text).is_err(), "{text}");
        }
    }
}
