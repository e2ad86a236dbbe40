//! The `Backend` part of the network config: which encapsulation the nodes speak, and its settings.
//!
//! Source: flannel's backend keys. An absent `Backend` means udp; one without a `Type` is an error, as it is in flannel.

use super::config::ConfigError;
use super::json::{Fields, excerpt};

/// UDP port of the udp encapsulation unless the config says otherwise. Source: flannel.
pub const DEFAULT_UDP_PORT: u16 = 8285;

/// Smallest underlay MTU taken from a config: IPv4's minimum of 68 bytes inside, 28 bytes of outer headers around.
pub const MIN_UNDERLAY_MTU: u16 = 96;

/// Encapsulations of flannel that are known by name and not carried.
const NOT_CARRIED: [&str; 10] =
    ["vxlan", "host-gw", "wireguard", "ipip", "ipsec", "extension", "alloc", "aws-vpc", "gce", "tencent-vpc"];

/// How packets travel between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The payload of a datagram is the inner packet.
    Udp {
        /// Port of every node, bound here and sent to there.
        port: u16,
        /// MTU of the **underlay**, if the config overrides what the route says; the device gets 28 less.
        mtu: Option<u16>,
    },
    /// One that flannel has and a node of this version refuses to start with. A registry server passes it on.
    Other {
        /// Its type, in lower case.
        kind: &'static str,
    },
}

impl Backend {
    /// The type as flannel names it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Udp { .. } => "udp",
            Self::Other { kind } => kind,
        }
    }

    /// Reads the value of the config's `Backend`.
    pub(super) fn parse(json: Option<&str>) -> Result<Self, ConfigError> {
        let Some(json) = json else {
            return Ok(Self::Udp { port: DEFAULT_UDP_PORT, mtu: None });
        };
        let fields = Fields::parse(json).map_err(|_| ConfigError::Value {
            key: "Backend",
            expected: "an object such as {\"Type\":\"udp\"}".into(),
            found: excerpt(json),
            remedy: "leave `Backend` out for udp".into(),
        })?;
        let kind = match fields.last_given("Type") {
            None => return Err(no_type(json)),
            Some(kind) => serde_json::from_str::<String>(kind).map_err(|_| unknown_type(kind))?,
        };
        match kind.to_ascii_lowercase().as_str() {
            "" => Err(no_type(json)),
            "udp" => Self::parse_udp(&fields),
            other => match NOT_CARRIED.into_iter().find(|known| *known == other) {
                Some(kind) => Ok(Self::Other { kind }),
                None => Err(unknown_type(&kind)),
            },
        }
    }

    fn parse_udp(fields: &Fields<'_>) -> Result<Self, ConfigError> {
        let port = number(fields, "Port", "Backend.Port", 1, "leave `Port` out for 8285")?.unwrap_or(DEFAULT_UDP_PORT);
        // Zero means "not set" in flannel's own MTU key of vxlan.
        let mtu = match fields.last_given("MTU") {
            Some("0") => None,
            _ => number(fields, "MTU", "Backend.MTU", MIN_UNDERLAY_MTU, "leave `MTU` out to take the underlay's")?,
        };
        Ok(Self::Udp { port, mtu })
    }
}

fn number(fields: &Fields<'_>, key: &str, path: &'static str, min: u16, otherwise: &str) -> Result<Option<u16>, ConfigError> {
    let Some(json) = fields.last_given(key) else { return Ok(None) };
    match json.parse::<u16>() {
        Ok(number) if number >= min => Ok(Some(number)),
        _ => Err(ConfigError::Value {
            key: path,
            expected: format!("a whole number from {min} to 65535, without quotes"),
            found: excerpt(json),
            remedy: otherwise.into(),
        }),
    }
}

fn no_type(json: &str) -> ConfigError {
    ConfigError::Value {
        key: "Backend.Type",
        expected: "a backend type such as \"udp\"".into(),
        found: format!("none in {}", excerpt(json)),
        remedy: "add \"Type\":\"udp\", or leave `Backend` out".into(),
    }
}

fn unknown_type(found: &str) -> ConfigError {
    ConfigError::Value {
        key: "Backend.Type",
        expected: format!("\"udp\" (or, for other nodes, one of {})", NOT_CARRIED.join(", ")),
        found: excerpt(found),
        remedy: "unknown backend type: use \"udp\"".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Backend, String> {
        Backend::parse(Some(json)).map_err(|error| error.to_string())
    }

    #[test]
    fn udp_settings() {
        let udp = |port, mtu| Ok(Backend::Udp { port, mtu });
        assert_eq!(Backend::parse(None).map_err(|error| error.to_string()), udp(8285, None));
        for (json, expected) in [
            (r#"{"Type":"udp"}"#, udp(8285, None)),
            (r#"{"type":"UDP","PORT":9555}"#, udp(9555, None)),
            (r#"{"Type":"udp","Port":null,"MTU":null}"#, udp(8285, None)),
            (r#"{"Type":"udp","MTU":1400,"Unknown":{"Port":1}}"#, udp(8285, Some(1400))),
            (r#"{"Type":"udp","MTU":0}"#, udp(8285, None)),
            (r#"{"Type":"udp","Port":1,"Port":65535}"#, udp(65535, None)),
        ] {
            assert_eq!(parse(json), expected, "{json}");
        }
    }

    #[test]
    fn known_types_are_named_and_unknown_ones_refused() {
        for (json, kind) in [(r#"{"Type":"vxlan","VNI":1}"#, "vxlan"), (r#"{"Type":"Host-GW"}"#, "host-gw")] {
            assert_eq!(parse(json), Ok(Backend::Other { kind }));
        }
        for json in [r#"{"Type":"magic"}"#, r#"{"Type":7}"#, r#"{"Type":["udp"]}"#] {
            assert!(parse(json).unwrap_err().contains("unknown backend type"), "{json}");
        }
        for json in ["{}", r#"{"Type":""}"#, r#"{"Type":null}"#, r#"{"Port":8285}"#] {
            assert!(parse(json).unwrap_err().starts_with("`Backend.Type`: expected a backend type"), "{json}");
        }
        for json in ["null", "[]", r#""udp""#] {
            assert!(parse(json).unwrap_err().starts_with("`Backend`: expected an object"), "{json}");
        }
    }

    #[test]
    fn numbers_out_of_range_or_in_quotes_are_refused() {
        for port in ["0", "65536", "-1", "8285.0", "1e3", "\"9555\"", "true", "99999999999999999999"] {
            let error = parse(&format!(r#"{{"Type":"udp","Port":{port}}}"#)).unwrap_err();
            assert!(error.starts_with("`Backend.Port`: expected a whole number from 1 to 65535"), "{error}");
            assert!(error.contains(port), "{error}");
        }
        for mtu in ["95", "65536", "-1", "\"1400\""] {
            assert!(parse(&format!(r#"{{"Type":"udp","MTU":{mtu}}}"#)).unwrap_err().starts_with("`Backend.MTU`"), "{mtu}");
        }
    }
}
