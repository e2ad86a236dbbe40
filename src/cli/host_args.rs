//! Flags about the host beside the tunnel, and the commands that are about nothing else.

use std::path::PathBuf;

use clap::Args;

use super::go_values::{boolean, within};

/// Where the node's subnet is told by default. Source: flannel.
pub const SUBNET_FILE: &str = "/run/flannel/subnet.env";

/// What `felt run` does on its host beside the tunnel.
#[derive(Debug, Args)]
pub struct HostRulesArgs {
    /// Masquerade what leaves the overlay, by nft or else iptables
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "false", hide_default_value = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub ip_masq: bool,
    /// Do not have masquerading choose ports at random
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "false", hide_default_value = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub ip_masq_fully_random_disable: bool,
    /// Accept overlay traffic in iptables' FORWARD chain [default: true, where there is such a chain]; given as true, the node
    /// does not start where that cannot be done
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = boolean, action = clap::ArgAction::Set)]
    pub iptables_forward_rules: Option<bool>,
    /// How often to look whether such rules and routes are still there, 1 to 86400
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = |text: &str| within(text, 1, 86_400))]
    pub iptables_resync: i64,
    /// Keep a blackhole route for the node's subnet, so that packets for addresses that no pod has end here
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "false", hide_default_value = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub ip_blackhole_route: bool,
}

/// What `felt cleanup` takes.
#[derive(Debug, Args)]
pub struct CleanupArgs {
    /// Only say what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Remove the subnet file, too
    #[arg(long)]
    pub env_file: bool,
    /// The subnet file that --env-file is about
    #[arg(long, value_name = "FILE", default_value = SUBNET_FILE)]
    pub subnet_file: PathBuf,
}

/// What `felt docker-opts` takes. Source: the letters are those of flannel's `mk-docker-opts.sh`.
#[derive(Debug, Args)]
pub struct DockerOptsArgs {
    /// Subnet file to read
    #[arg(short = 'f', value_name = "FILE", default_value = SUBNET_FILE)]
    pub subnet_file: PathBuf,
    /// File to write
    #[arg(short = 'd', value_name = "FILE", default_value = "/run/docker_opts.env")]
    pub docker_file: PathBuf,
    /// Write each option as a variable of its own; without -i and -c both are written
    #[arg(short = 'i')]
    pub individual: bool,
    /// Write all options together as one variable
    #[arg(short = 'c')]
    pub combined: bool,
    /// Name of the variable with all options
    #[arg(short = 'k', value_name = "KEY", default_value = "DOCKER_OPTS", value_parser = variable)]
    pub key: String,
    /// Leave out --ip-masq
    #[arg(short = 'm')]
    pub no_ip_masq: bool,
}

/// A name that shells and service managers take for a variable.
fn variable(text: &str) -> Result<String, String> {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = text.bytes().next().is_some_and(|first| !first.is_ascii_digit()) && text.bytes().all(letters);
    if fits { Ok(text.to_owned()) } else { Err("expected letters, digits and `_`, no digit first".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_of_variables() {
        for key in ["DOCKER_OPTS", "_x1", "a"] {
            assert!(variable(key).is_ok(), "{key}");
        }
        for key in ["", "1A", "A B", "A=B", "A\"", "Ä"] {
            assert!(variable(key).is_err(), "{key}");
        }
    }
}
