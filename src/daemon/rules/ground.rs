//! Which subnet and network rules are about, and what ours are called.

use std::path::Path;

use crate::net::Prefix4;

/// The subnet file of a host that runs one daemon only. Source: flannel.
const USUAL_FILE: &str = "/run/flannel/subnet.env";
/// The nft table of such a host; others have a mark behind it.
const TABLE: &str = "felt";
/// The chains in iptables' tables, likewise.
const MASQUERADE_CHAIN: &str = "FELT-POSTRTG";
const ZONE_CHAIN: &str = "FELT-PRERTG";
const FORWARD_CHAIN: &str = "FELT-FWD";

/// What rules are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// The overlay network.
    pub network: Prefix4,
    /// Our subnet of it.
    pub subnet: Prefix4,
    /// The TUN, if all traffic of local pods passes it twice: policy scope `node`.
    pub through: Option<String>,
}

/// What our table and chains are called. Daemons of one host have subnet files of their own, so that file tells them apart, also
/// over restarts; a device's name may be another one next time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The table in nf_tables.
    pub table: String,
    /// The chain of masquerade rules in iptables' table `nat`.
    pub masquerade: String,
    /// The chain in iptables' table `raw` that parts the connections of a TUN passed twice.
    pub zone: String,
    /// The chain of accepting rules in iptables' table `filter`.
    pub forward: String,
}

impl Names {
    /// The names of the daemon that writes this subnet file.
    #[must_use]
    pub fn of(subnet_file: &Path) -> Self {
        let file = std::path::absolute(subnet_file).unwrap_or_else(|_| subnet_file.to_owned());
        let mark = if file == Path::new(USUAL_FILE) {
            String::new()
        } else {
            format!("-{:08x}", hash(file.as_os_str().as_encoded_bytes()))
        };
        let name = |name: &str| format!("{name}{mark}");
        Self { table: name(TABLE), masquerade: name(MASQUERADE_CHAIN), zone: name(ZONE_CHAIN), forward: name(FORWARD_CHAIN) }
    }

    /// Whether a table of nf_tables is called as those of some daemon's are.
    #[must_use]
    pub fn is_table(name: &str) -> bool {
        is_marked(name, TABLE)
    }

    /// Whether a chain is called as those of some daemon's are.
    #[must_use]
    pub fn is_chain(name: &str) -> bool {
        [MASQUERADE_CHAIN, ZONE_CHAIN, FORWARD_CHAIN].iter().any(|ours| is_marked(name, ours))
    }
}

fn is_marked(name: &str, ours: &str) -> bool {
    match name.strip_prefix(ours) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(|mark| mark.len() == 8 && mark.bytes().all(|b| b.is_ascii_hexdigit())),
        None => false,
    }
}

/// FNV-1a, 32 bits: the same in every version and on every machine.
fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subnet_file_has_names_of_its_own() {
        let names = |file: &str| Names::of(Path::new(file));
        assert_eq!((names(USUAL_FILE).table.as_str(), names(USUAL_FILE).forward.as_str()), ("felt", "FELT-FWD"));
        let (blue, green) = (names("/run/flannel/blue.env"), names("/run/flannel/green.env"));
        assert!(blue != green && blue != names(USUAL_FILE), "{blue:?}");
        assert_eq!(names("/run/flannel/blue.env"), blue);
        // The published test vector.
        assert_eq!(hash(b"foobar"), 0xbf9c_f968);
        for name in [&blue.masquerade, &blue.zone, &blue.forward] {
            assert!(Names::is_chain(name) && name.len() <= 28, "iptables takes 28 bytes: {name}");
        }
        assert!(Names::is_table(&blue.table) && Names::is_table("felt"));
        for other in ["felts", "felt-", "felt-12345", "felt-1234567g", "filter", "FELT-FWD"] {
            assert!(!Names::is_table(other), "{other}");
        }
    }
}
