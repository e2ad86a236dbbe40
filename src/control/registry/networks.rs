//! Several networks in one registry: which there are, and each as a registry of its own.
//!
//! A network has a name, and its config and leases lie below that name beside those of the one without a name. It is there from
//! the moment a config is put for it until that is deleted or expires; whether the config makes sense does not matter, and
//! neither do leases without a config. Source: flannel's multi-network mode.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{RegistryAdmin, RegistryError};

/// What lies beside the networks, and so is the name of none; `_` stands for the network without a name.
const RESERVED: [&str; 5] = ["config", "subnets", "policy", "nodes", "_"];

/// Longest name. It becomes part of a key, of a URL and of a file's name.
const NAME_BYTES: usize = 128;

/// The name of a network: one segment of a key, of a URL's path and of a file's path, without any spelling tricks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkName(Arc<str>);

/// Why a text is no network's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a network's name of 1 to {NAME_BYTES} letters, digits, `-`, `_` or `.`, found {found:?}: {problem}")]
pub struct NetworkNameError {
    found: String,
    problem: &'static str,
}

/// A change in which networks there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkEvent {
    /// It has a config now. May be told of one that is there already.
    Added(NetworkName),
    /// Its config is gone. What nodes do then is to stop; their leases are left.
    Removed(NetworkName),
}

/// What changed: single events, or, after a start or a gap, all there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworksUpdate {
    /// Every network with a name; whatever is not among them is gone.
    Snapshot(Vec<NetworkName>),
    /// In the registry's order.
    Events(Vec<NetworkEvent>),
}

/// A registry that may hold several networks.
#[async_trait]
pub trait Networks: Send + Sync + 'static {
    /// Which registry this is, for messages: kind, address, prefix.
    fn describe(&self) -> String;

    /// Every network with a name, in order. Keys that could be a network but for their name are skipped, each warned of once.
    async fn networks(&self) -> Result<Vec<NetworkName>, RegistryError>;

    /// Every network with a name, an empty list too, then what changes. Never ends while the receiver lives: it reconnects, and after
    /// a gap sends a snapshot.
    async fn watch_networks(&self) -> mpsc::Receiver<NetworksUpdate>;

    /// The network called so, or the one without a name, as a registry of its own. Makes no contact; it need not be there yet.
    /// All that come from one value share its connections.
    fn open(&self, network: Option<&NetworkName>) -> Arc<dyn RegistryAdmin>;
}

impl NetworkName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl NetworkEvent {
    /// The network it is about.
    #[must_use]
    pub fn name(&self) -> &NetworkName {
        match self {
            Self::Added(name) | Self::Removed(name) => name,
        }
    }
}

impl FromStr for NetworkName {
    type Err = NetworkNameError;

    fn from_str(text: &str) -> Result<Self, NetworkNameError> {
        let fail = |problem| NetworkNameError { found: text.chars().take(NAME_BYTES).collect(), problem };
        if !(1..=NAME_BYTES).contains(&text.len()) {
            return Err(fail("it is empty or too long"));
        }
        if RESERVED.contains(&text) {
            return Err(fail("the word has a meaning of its own there"));
        }
        if text.starts_with('.') {
            return Err(fail("it begins with a dot"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
            return Err(fail("another character is in it"));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for NetworkName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_and_no_word_of_the_layout() {
        for text in ["blue", "0", "a.b_c-D", "configs", "__", &"x".repeat(NAME_BYTES)] {
            assert_eq!(text.parse::<NetworkName>().unwrap().to_string(), text);
        }
        for (text, problem) in [
            ("", "empty"),
            (&*"x".repeat(NAME_BYTES + 1), "too long"),
            ("config", "a meaning of its own"),
            ("subnets", "a meaning of its own"),
            ("policy", "a meaning of its own"),
            ("nodes", "a meaning of its own"),
            ("_", "a meaning of its own"),
            ("..", "begins with a dot"),
            (".hidden", "begins with a dot"),
            ("a/b", "another character"),
            ("a b", "another character"),
            ("a%2fb", "another character"),
            ("größe", "another character"),
        ] {
            let error = text.parse::<NetworkName>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
