//! What a lab and the places in it are called: lab names, places, and the namespaces that belong to them.
//!
//! A namespace belongs to a lab exactly if [`LabName::place_of`] recognises it, so a half-built lab can be cleaned up
//! from names alone, and labs running side by side never touch each other.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::LabError;

/// Longest lab name. Namespace names and paths under `/run` stay readable with it.
const MAX_NAME_LEN: usize = 32;

/// The name of a lab: a letter, then letters, digits and single dashes, all lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabName(String);

/// A place in a lab: each is one network namespace. Nodes and pods count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Place {
    /// The underlay's switch, where the registry listens.
    Hub,
    /// A node.
    Node(u16),
    /// A pod of a node.
    Pod {
        /// Which node.
        node: u16,
        /// Which of its pods.
        pod: u16,
    },
}

impl LabName {
    /// The network namespace of `place`, as under `/run/netns`.
    #[must_use]
    pub fn namespace(&self, place: Place) -> String {
        format!("{}-{place}", self.0)
    }

    /// The place whose namespace is called `namespace`; `None` if it is none of this lab's.
    #[must_use]
    pub fn place_of(&self, namespace: &str) -> Option<Place> {
        let place = namespace.strip_prefix(&self.0)?.strip_prefix('-')?;
        // Short spellings are for people; only the canonical one names a namespace.
        place.parse().ok().filter(|parsed: &Place| parsed.to_string() == place)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LabName {
    fn default() -> Self {
        Self("felt".to_owned())
    }
}

impl FromStr for LabName {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let plain = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let framed = text.starts_with(|first: char| first.is_ascii_lowercase()) && !text.ends_with('-');
        if plain && framed && text.len() <= MAX_NAME_LEN {
            Ok(Self(text.to_owned()))
        } else {
            Err(LabError::BadName { found: text.to_owned(), max: MAX_NAME_LEN })
        }
    }
}

impl TryFrom<String> for LabName {
    type Error = LabError;

    fn try_from(text: String) -> Result<Self, LabError> {
        text.parse()
    }
}

impl From<LabName> for String {
    fn from(name: LabName) -> Self {
        name.0
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub => f.write_str("hub"),
            Self::Node(node) => write!(f, "node{node}"),
            Self::Pod { node, pod } => write!(f, "node{node}-pod{pod}"),
        }
    }
}

impl FromStr for Place {
    type Err = LabError;

    /// Reads `hub`, `node1`, `node1-pod2`, and the short forms `n1` and `n1p2`.
    fn from_str(text: &str) -> Result<Self, LabError> {
        parse_place(text).ok_or_else(|| LabError::BadPlace { found: text.to_owned() })
    }
}

impl TryFrom<String> for Place {
    type Error = LabError;

    fn try_from(text: String) -> Result<Self, LabError> {
        text.parse()
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.to_string()
    }
}

fn parse_place(text: &str) -> Option<Place> {
    if text == "hub" {
        return Some(Place::Hub);
    }
    let (node, pod) = if let Some(rest) = text.strip_prefix("node") {
        match rest.split_once("-pod") {
            Some((node, pod)) => (node, Some(pod)),
            None => (rest, None),
        }
    } else {
        let rest = text.strip_prefix('n')?;
        match rest.split_once('p') {
            Some((node, pod)) => (node, Some(pod)),
            None => (rest, None),
        }
    };
    let node = parse_ordinal(node)?;
    Some(match pod {
        Some(pod) => Place::Pod { node, pod: parse_ordinal(pod)? },
        None => Place::Node(node),
    })
}

/// A number from 1, without sign or leading zeros.
fn parse_ordinal(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    plain.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_in_long_and_short_form() {
        for (text, place) in [
            ("hub", Place::Hub),
            ("node12", Place::Node(12)),
            ("n12", Place::Node(12)),
            ("node3-pod1", Place::Pod { node: 3, pod: 1 }),
            ("n3p1", Place::Pod { node: 3, pod: 1 }),
        ] {
            assert_eq!(text.parse::<Place>().unwrap(), place, "{text}");
        }
        for text in ["", "n", "node", "node0", "n01", "n1p", "n1p0", "node1-pod", "node1p1", "pod1", "n+1", "n70000", "Hub"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_lab_recognises_its_own_namespaces_only() {
        let lab: LabName = "felt".parse().unwrap();
        for place in [Place::Hub, Place::Node(7), Place::Pod { node: 7, pod: 2 }] {
            assert_eq!(lab.place_of(&lab.namespace(place)), Some(place));
        }
        // Another lab whose name starts with ours, short forms, and strangers.
        for other in ["felt-two-hub", "felt-node1-hub", "felt-n1", "felt-node1-pod1-x", "feltnode1", "felt", "hub", "x-felt-hub"]
        {
            assert_eq!(lab.place_of(other), None, "{other}");
        }
    }

    #[test]
    fn lab_names_are_plain() {
        assert_eq!(LabName::default(), "felt".parse().unwrap());
        for bad in ["", "-a", "a-", "A", "a_b", "a/b", "..", "1a", "ä", &"a".repeat(MAX_NAME_LEN + 1)] {
            assert!(bad.parse::<LabName>().is_err(), "{bad}");
        }
    }
}
