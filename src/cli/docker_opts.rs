//! `felt docker-opts`.

use std::fs;

use anyhow::Context as _;

use super::Failure;
use super::host_args::DockerOptsArgs;
use crate::daemon::docker_opts::DockerOpts;
use crate::daemon::whole_file;

/// Writes what Docker is to be started with on this node.
pub fn docker_opts(args: &DockerOptsArgs) -> Result<(), Failure> {
    write(args).map_err(Failure::Internal)
}

fn write(args: &DockerOptsArgs) -> anyhow::Result<()> {
    let both = !args.individual && !args.combined;
    let wanted = DockerOpts {
        individual: args.individual || both,
        combined: (args.combined || both).then_some(args.key.as_str()),
        ip_masq: !args.no_ip_masq,
    };
    let subnet_file = args.subnet_file.display();
    let read = fs::read_to_string(&args.subnet_file);
    let text = read.with_context(|| format!("cannot read {subnet_file}, which `felt run` writes once it holds a subnet"))?;
    let text = wanted.render(&text).with_context(|| format!("{subnet_file} makes no sense"))?;
    whole_file::put(&args.docker_file, text.as_bytes()).with_context(|| format!("cannot write {}", args.docker_file.display()))
}
