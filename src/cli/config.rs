//! `felt config`.

use std::io::{self, Read as _};
use std::path::Path;

use anyhow::anyhow;

use super::args::ConfigCommand;
use super::meaning::Meaning;
use super::options::{self, Target};
use super::store::{there, with_registry};
use super::{Failure, output};
use crate::lease::{Backend, NetworkConfig};

/// Reads, writes or checks the network config.
pub fn config(command: ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Get { registry } => output::say(&get(options::target(*registry)?)?),
        ConfigCommand::Set { file, registry } => {
            let target = options::target(*registry)?;
            let text = read(&file)?;
            parse(&text, &file)?;
            set(target, &text)
        }
        ConfigCommand::Check { file, json } => {
            let config = parse(&read(&file)?, &file)?;
            let meaning = Meaning::of(&config);
            output::say(&if json { meaning.json() } else { meaning.text() })?;
            runs_here(&config)
        }
    }
}

/// The config's text, from a file or, for `-`, from standard input.
fn read(file: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let done = if is_stdin(file) {
        io::stdin().lock().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(file).map(|read| bytes = read)
    };
    done.map_err(|error| Failure::Usage(format!("cannot read {}: {error}", name(file))))?;
    String::from_utf8(bytes).map_err(|error| Failure::AnsweredNo(anyhow!("{}: expected UTF-8 text: {error}", name(file))))
}

fn parse(text: &str, file: &Path) -> Result<NetworkConfig, Failure> {
    NetworkConfig::parse(text).map_err(|error| Failure::AnsweredNo(anyhow::Error::new(error).context(name(file))))
}

/// Whether a node of this version can run with a config that is sound as such.
fn runs_here(config: &NetworkConfig) -> Result<(), Failure> {
    match config.backend {
        _ if config.ipv4.is_none() => Err(Failure::AnsweredNo(anyhow!("a network without IPv4 is not carried yet; enable IPv4"))),
        _ if config.ipv6.is_some() => {
            Err(Failure::AnsweredNo(anyhow!("IPv6 is not carried yet; leave `EnableIPv6` out, or set it to false")))
        }
        Backend::Udp { .. } => Ok(()),
        Backend::Other { kind } => {
            Err(Failure::AnsweredNo(anyhow!("the backend `{kind}` is flannel's but not carried yet; use `udp`")))
        }
    }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn name(file: &Path) -> String {
    if is_stdin(file) { "standard input".to_owned() } else { file.display().to_string() }
}

/// The registry's network config, as it lies there.
fn get(target: Target) -> Result<String, Failure> {
    there(&target)?;
    with_registry(target, async |registry| registry.config().await)
}

fn set(target: Target, text: &str) -> Result<(), Failure> {
    with_registry(target, async |registry| registry.put_config(text).await)
}
