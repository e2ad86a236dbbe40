//! The subnet file: what container runtimes read to learn this node's subnet and MTU, and what we read to ask for the same
//! subnet again. It carries no decision: the daemon says what is in it and when it is written.
//!
//! Source: flannel's `subnet.env`, byte for byte.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::whole_file::{self, WholeFileError};
use crate::lease::{NetworkConfig, SubnetKey};
use crate::net::{Address, Prefix, Prefix4, Prefix6};

/// The file's content. [`Display`](fmt::Display) gives its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubnetEnv {
    /// Overlay network and our subnet of it; `None` in an IPv6-only network.
    pub ipv4: Option<(Prefix4, Prefix4)>,
    /// The same for IPv6.
    pub ipv6: Option<(Prefix6, Prefix6)>,
    /// MTU inside the overlay, bytes.
    pub mtu: u32,
    /// Whether masquerading is done for traffic that leaves the overlay.
    pub ip_masq: bool,
}

/// What a subnet file that was left behind says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreviousEnv {
    /// Every valid member of `FLANNEL_SUBNET`, host bits cleared.
    pub subnets: Vec<Prefix4>,
    /// Every valid member of `FLANNEL_IPV6_SUBNET`.
    pub ipv6_subnets: Vec<Prefix6>,
    /// Members that are no subnets, as written.
    pub invalid: Vec<String>,
}

/// Why the subnet file could not be written or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum SubnetEnvError {
    /// Not written.
    #[error("subnet file {path}: {source}")]
    Write { path: PathBuf, source: WholeFileError },
    /// Not read.
    #[error("subnet file {path}: reading it failed: {source}")]
    Read { path: PathBuf, source: io::Error },
}

impl SubnetEnv {
    /// The content for a node that holds `lease` in the network of `config`.
    #[must_use]
    pub fn new(config: &NetworkConfig, lease: &SubnetKey, mtu: u32, ip_masq: bool) -> Self {
        let ipv4 = config.ipv4.map(|range| (range.network, lease.v4));
        let ipv6 = config.ipv6.and_then(|range| Some((range.network, lease.v6?)));
        Self { ipv4, ipv6, mtu, ip_masq }
    }

    /// Puts the file at `path`, making parent directories as needed.
    pub fn write(&self, path: &Path) -> Result<(), SubnetEnvError> {
        whole_file::put(path, self.to_string().as_bytes())
            .map_err(|source| SubnetEnvError::Write { path: path.to_owned(), source })
    }
}

impl PreviousEnv {
    /// Reads the file at `path`; one that is not there says nothing.
    pub fn read(path: &Path) -> Result<Self, SubnetEnvError> {
        match fs::read(path) {
            Ok(bytes) => Ok(Self::parse(&String::from_utf8_lossy(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(SubnetEnvError::Read { path: path.to_owned(), source }),
        }
    }

    /// Reads the content of a file: lines of `NAME=VALUE`, with comments, quotes and `export` as shells have them.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut previous = Self::default();
        let (mut ipv4, mut ipv6) = ("", "");
        for (name, value) in assignments(text) {
            match name {
                "FLANNEL_SUBNET" => ipv4 = value,
                "FLANNEL_IPV6_SUBNET" => ipv6 = value,
                _ => {}
            }
        }
        previous.subnets = members(ipv4, &mut previous.invalid);
        previous.ipv6_subnets = members(ipv6, &mut previous.invalid);
        previous
    }

    /// The IPv4 subnet to ask for again: the one named, if it is exactly one.
    #[must_use]
    pub fn subnet(&self) -> Option<Prefix4> {
        match *self.subnets.as_slice() {
            [subnet] => Some(subnet),
            _ => None,
        }
    }
}

impl fmt::Display for SubnetEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((network, subnet)) = self.ipv4 {
            writeln!(f, "FLANNEL_NETWORK={network}\nFLANNEL_SUBNET={}", gateway(subnet))?;
        }
        if let Some((network, subnet)) = self.ipv6 {
            writeln!(f, "FLANNEL_IPV6_NETWORK={network}\nFLANNEL_IPV6_SUBNET={}", gateway(subnet))?;
        }
        writeln!(f, "FLANNEL_MTU={}\nFLANNEL_IPMASQ={}", self.mtu, self.ip_masq)
    }
}

/// The subnet's first address after its base, with the length: what a bridge of the subnet is given.
fn gateway<A: Address>(subnet: Prefix<A>) -> String {
    let mut text = String::new();
    _ = write!(text, "{}/{}", subnet.nth(1).unwrap_or(subnet.base()), subnet.len());
    text
}

/// The assignments of a file, in their order, with quotes and comments taken off as shells do.
pub(super) fn assignments(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(assignment)
}

/// Name and value of a line that is an assignment.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some(inside) = value.strip_prefix(quote).and_then(|rest| rest.split_once(quote)) {
            return Some((name.trim(), inside.0));
        }
    }
    // An unquoted value ends where a comment begins.
    let end = value.find(" #").unwrap_or(value.len());
    Some((name.trim(), value[..end].trim()))
}

fn members<A: Address>(list: &str, invalid: &mut Vec<String>) -> Vec<Prefix<A>> {
    let mut valid = Vec::new();
    for member in list.split(',').map(str::trim).filter(|member| !member.is_empty()) {
        match member.parse() {
            Ok(subnet) => valid.push(subnet),
            Err(_) => invalid.push(member.to_owned()),
        }
    }
    valid
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    const GOLDEN: &str = "FLANNEL_NETWORK=10.1.0.0/16\nFLANNEL_SUBNET=10.1.74.1/24\nFLANNEL_MTU=1472\nFLANNEL_IPMASQ=false\n";

    fn env(config: &str, lease: &str) -> SubnetEnv {
        SubnetEnv::new(&NetworkConfig::parse(config).unwrap(), &lease.parse().unwrap(), 1472, false)
    }

    fn golden() -> SubnetEnv {
        env(r#"{"Network":"10.1.0.0/16"}"#, "10.1.74.0-24")
    }

    #[test]
    fn the_bytes_are_those_of_flannel() {
        assert_eq!(golden().to_string(), GOLDEN);
        let dual = r#"{"Network":"10.1.0.0/16","EnableIPv6":true,"IPv6Network":"fc00::/48"}"#;
        assert_eq!(
            SubnetEnv { ip_masq: true, ..env(dual, "10.1.74.0-24&fc00:0:0:1::-64") }.to_string(),
            "FLANNEL_NETWORK=10.1.0.0/16\nFLANNEL_SUBNET=10.1.74.1/24\nFLANNEL_IPV6_NETWORK=fc00::/48\n\
             FLANNEL_IPV6_SUBNET=fc00:0:0:1::1/64\nFLANNEL_MTU=1472\nFLANNEL_IPMASQ=true\n"
        );
        let only6 = r#"{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fc00::/48"}"#;
        assert_eq!(
            env(only6, "0.0.0.0-0&fc00:0:0:1::-64").to_string(),
            "FLANNEL_IPV6_NETWORK=fc00::/48\nFLANNEL_IPV6_SUBNET=fc00:0:0:1::1/64\nFLANNEL_MTU=1472\nFLANNEL_IPMASQ=false\n"
        );
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_else_is_left() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run/flannel/subnet.env");
        assert_eq!(PreviousEnv::read(&path).unwrap(), PreviousEnv::default());
        golden().write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), GOLDEN);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
        assert_eq!(PreviousEnv::read(&path).unwrap().subnet(), Some("10.1.74.0/24".parse().unwrap()));

        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        SubnetEnv { mtu: 1400, ..golden() }.write(&path).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("FLANNEL_MTU=1400\n"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600, "an existing mode is kept");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_says_where_and_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("subnet.env");
        fs::create_dir(&path).unwrap();
        let error = golden().write(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("subnet file {}: renaming", path.display())), "{error}");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn files_of_every_kind_are_read() {
        let subnet = |text: &str| PreviousEnv::parse(text).subnet().map(|subnet| subnet.to_string());
        for (text, expected) in [
            (GOLDEN, Some("10.1.74.0/24")),
            ("# FLANNEL_SUBNET=10.9.9.1/24\r\nexport FLANNEL_SUBNET=\"10.1.74.1/24\" # ours\r\n", Some("10.1.74.0/24")),
            (" FLANNEL_SUBNET = '10.1.74.1/24'", Some("10.1.74.0/24")),
            ("FLANNEL_SUBNET=10.1.74.1/24 # ours", Some("10.1.74.0/24")),
            ("FLANNEL_SUBNET=10.1.74.1/24\nFLANNEL_SUBNET=10.1.75.1/24", Some("10.1.75.0/24")),
            ("FLANNEL_SUBNET=not-a-cidr,10.1.74.1/24,", Some("10.1.74.0/24")),
            ("FLANNEL_SUBNET=10.244.1.0/24,not-a-cidr,10.244.2.0/24", None),
            ("FLANNEL_SUBNET=not-a-cidr", None),
            ("FLANNEL_SUBNET=", None),
            ("FLANNEL_SUBNET", None),
            ("", None),
        ] {
            assert_eq!(subnet(text).as_deref(), expected, "{text}");
        }
        let previous = PreviousEnv::parse(
            "FLANNEL_SUBNET=10.244.1.0/24,not-a-cidr,10.244.2.0/24\nFLANNEL_IPV6_SUBNET=fc00::1/64,x,fc00:1::1/64\n",
        );
        assert_eq!(previous.subnets, ["10.244.1.0/24", "10.244.2.0/24"].map(|text| text.parse().unwrap()));
        assert_eq!(previous.ipv6_subnets, ["fc00::/64", "fc00:1::/64"].map(|text| text.parse().unwrap()));
        assert_eq!(previous.invalid, ["not-a-cidr", "x"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in r#"((export )?FLANNEL_SUBNET=["' #,0-9./]{0,30}\n?|.{0,20}\n){0,4}"#) {
            let previous = PreviousEnv::parse(&text);
            prop_assert!(previous.subnet().is_none() || previous.subnets.len() == 1);
        }
    }
}
