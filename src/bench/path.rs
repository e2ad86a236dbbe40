//! What is compared: paths between two containers, and the wire beneath them.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// What the wire between the two hosts carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Underlay {
    /// Super-packets: veth hands a sender's 64 KiB over whole, as it does by default. Flatters the kernel, which then never
    /// segments.
    Super,
    /// Single segments: veth's offloads are off, so that each datagram crosses alone, as on a wire without help.
    Single,
}

/// How packets get from one end to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// Over the underlay itself, with no overlay.
    Veth,
    /// Over a vxlan device of the kernel.
    Vxlan,
    /// Over Felt.
    Felt,
    /// Over Felt that enforces policy.
    FeltPolicy,
    /// Over Felt with every offload switched off.
    FeltPlain,
}

impl Underlay {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Super, Self::Single];

    /// Its name in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Super => "super",
            Self::Single => "single",
        }
    }

    /// What it is, for people.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Super => "underlay keeps super-packets whole (veth's default)",
            Self::Single => "underlay carries single segments (veth's offloads off)",
        }
    }
}

impl Path {
    /// All, in the order they are shown in.
    pub const ALL: [Self; 5] = [Self::Veth, Self::Vxlan, Self::Felt, Self::FeltPolicy, Self::FeltPlain];
    /// Those that are measured unless others are asked for: what policy costs is a question of its own.
    pub const USUAL: [Self; 4] = [Self::Veth, Self::Vxlan, Self::Felt, Self::FeltPlain];

    /// Its name in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Veth => "veth",
            Self::Vxlan => "vxlan",
            Self::Felt => "felt",
            Self::FeltPolicy => "felt-policy",
            Self::FeltPlain => "felt-plain",
        }
    }

    /// What it is, for people.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Veth => "plain veth",
            Self::Vxlan => "kernel vxlan",
            Self::Felt => "Felt",
            Self::FeltPolicy => "Felt, with policy",
            Self::FeltPlain => "Felt, offloads off",
        }
    }
}

impl FromStr for Underlay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        find(text, &Self::ALL, |underlay| underlay.as_str())
    }
}

impl FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        find(text, &Self::ALL, |path| path.as_str())
    }
}

impl fmt::Display for Underlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Underlay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The one of `all` that is called `text`.
pub(super) fn find<T: Copy>(text: &str, all: &[T], name: impl Fn(&T) -> &'static str) -> Result<T, String> {
    all.iter().find(|value| name(value) == text).copied().ok_or_else(|| {
        let names: Vec<_> = all.iter().map(name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_they_name() {
        for path in Path::ALL {
            assert_eq!(path.as_str().parse(), Ok(path));
        }
        for underlay in Underlay::ALL {
            assert_eq!(underlay.as_str().parse(), Ok(underlay));
        }
        assert_eq!("Felt".parse::<Path>(), Err("expected one of veth, vxlan, felt, felt-policy, felt-plain".to_owned()));
    }
}
