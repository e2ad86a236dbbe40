//! A node's subnet.env as a CNI plugin reads it: what a lab needs to give its pods addresses.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use serde::Serialize;

use super::LabError;
use crate::net::Prefix4;

/// What a node's subnet.env says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubnetEnv {
    /// The overlay network.
    #[serde(serialize_with = "as_text")]
    pub network: Prefix4,
    /// The node's subnet.
    #[serde(serialize_with = "as_text")]
    pub subnet: Prefix4,
    /// Largest packet of the overlay, in bytes.
    pub mtu: u32,
}

impl SubnetEnv {
    /// Reads the file; `None` while there is none.
    ///
    /// # Errors
    /// When it is there and is not what flannel writes.
    pub fn read(path: &Path) -> Result<Option<Self>, LabError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LabError::step(format!("read {}", path.display()))(error)),
        };
        Self::parse(&text).map(Some).ok_or_else(|| {
            let expected = "expected FLANNEL_NETWORK, FLANNEL_SUBNET and FLANNEL_MTU";
            let reason = std::io::Error::new(std::io::ErrorKind::InvalidData, format!("{expected}, found `{}`", text.trim_end()));
            LabError::Step { step: format!("read {}", path.display()), reason }
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let (gateway, len) = value("FLANNEL_SUBNET")?.split_once('/')?;
        let subnet = Prefix4::new(gateway.parse::<Ipv4Addr>().ok()?, len.parse().ok()?).ok()?;
        Some(Self { network: value("FLANNEL_NETWORK")?.parse().ok()?, subnet, mtu: value("FLANNEL_MTU")?.parse().ok()? })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form serde calls")]
fn as_text<S: serde::Serializer>(prefix: &Prefix4, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flannels_file_is_understood() {
        let text = "FLANNEL_NETWORK=10.99.0.0/16\nFLANNEL_SUBNET=10.99.74.1/24\nFLANNEL_MTU=1472\nFLANNEL_IPMASQ=false\n";
        let env = SubnetEnv::parse(text).unwrap();
        assert_eq!(
            (env.network.to_string(), env.subnet.to_string(), env.mtu),
            ("10.99.0.0/16".into(), "10.99.74.0/24".into(), 1472)
        );
        for bad in ["", "FLANNEL_SUBNET=10.99.74.1/24\n", &text.replace("/24", ""), &text.replace("1472", "x")] {
            assert!(SubnetEnv::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn absence_is_told_from_nonsense() {
        assert_eq!(SubnetEnv::read(Path::new("/nowhere/subnet.env")).unwrap(), None);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "FLANNEL_MTU=\n").unwrap();
        assert!(SubnetEnv::read(file.path()).unwrap_err().to_string().contains("FLANNEL_SUBNET"));
    }
}
