//! What a network config means, in words and as JSON, for `felt config check`.

use serde::Serialize;

use crate::lease::{Backend, NetworkConfig, SubnetRange};
use crate::net::Address;

/// Bytes the udp encapsulation puts around an inner packet: IPv4 and UDP headers.
const OVERHEAD: u16 = 28;

/// The underlay MTU assumed where the config names none; a node takes that of its interface.
const USUAL_UNDERLAY_MTU: u16 = 1500;

/// A config's meaning.
#[derive(Debug, Serialize)]
pub struct Meaning {
    ipv4: Option<Range>,
    ipv6: Option<Range>,
    backend: Encapsulation,
}

#[derive(Debug, Serialize)]
struct Range {
    network: String,
    subnet_len: u8,
    subnet_min: String,
    subnet_max: String,
    /// How many subnets can be leased.
    subnets: u128,
}

#[derive(Debug, Serialize)]
struct Encapsulation {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp: Option<Udp>,
}

#[derive(Debug, Serialize)]
struct Udp {
    port: u16,
    underlay_mtu: u16,
    underlay_mtu_from_config: bool,
    device_mtu: u16,
}

impl Meaning {
    /// The meaning of `config`.
    #[must_use]
    pub fn of(config: &NetworkConfig) -> Self {
        let udp = match config.backend {
            Backend::Udp { port, mtu } => {
                let underlay_mtu = mtu.unwrap_or(USUAL_UNDERLAY_MTU);
                let device_mtu = underlay_mtu.saturating_sub(OVERHEAD);
                Some(Udp { port, underlay_mtu, underlay_mtu_from_config: mtu.is_some(), device_mtu })
            }
            Backend::Other { .. } => None,
        };
        Self {
            ipv4: config.ipv4.as_ref().map(Range::of),
            ipv6: config.ipv6.as_ref().map(Range::of),
            backend: Encapsulation { kind: config.backend.kind(), udp },
        }
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for range in [&self.ipv4, &self.ipv6].into_iter().flatten() {
            let Range { network, subnet_len, subnet_min, subnet_max, subnets } = range;
            lines.push(format!("network     {network}"));
            lines.push(format!("subnets     {subnets} of /{subnet_len}, from {subnet_min} to {subnet_max}"));
        }
        match &self.backend.udp {
            Some(Udp { port, underlay_mtu, underlay_mtu_from_config, device_mtu }) => {
                let origin = if *underlay_mtu_from_config { "from the config" } else { "if the interface has the usual one" };
                lines.push(format!("backend     {}, port {port}", self.backend.kind));
                lines.push(format!("device MTU  {device_mtu}, over an underlay MTU of {underlay_mtu}, {origin}"));
            }
            None => lines.push(format!("backend     {}", self.backend.kind)),
        }
        lines.join("\n")
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl Range {
    fn of<A: Address>(range: &SubnetRange<A>) -> Self {
        // Both ends lie on subnet borders, the first not above the last.
        let span = range.max.to_number().saturating_sub(range.min.to_number());
        let subnets = (span >> A::BITS.saturating_sub(range.subnet_len)).saturating_add(1);
        Self {
            network: range.network.to_string(),
            subnet_len: range.subnet_len,
            subnet_min: range.min.to_string(),
            subnet_max: range.max.to_string(),
            subnets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(text: &str) -> Meaning {
        Meaning::of(&NetworkConfig::parse(text).unwrap())
    }

    #[test]
    fn defaults_are_spelled_out() {
        assert_eq!(
            meaning(r#"{"Network":"10.3.0.0/16"}"#).text(),
            "network     10.3.0.0/16\n\
             subnets     255 of /24, from 10.3.1.0 to 10.3.255.0\n\
             backend     udp, port 8285\n\
             device MTU  1472, over an underlay MTU of 1500, if the interface has the usual one"
        );
    }

    #[test]
    fn programs_get_the_same() {
        let config = r#"{"Network":"10.3.0.0/16","SubnetMin":"10.3.4.0","SubnetMax":"10.3.4.0","EnableIPv6":true,
            "IPv6Network":"fd00:5::/48","Backend":{"Type":"udp","Port":9555,"MTU":1400}}"#;
        let json: serde_json::Value = serde_json::from_str(&meaning(config).json()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "ipv4": {"network": "10.3.0.0/16", "subnet_len": 24, "subnet_min": "10.3.4.0", "subnet_max": "10.3.4.0",
                         "subnets": 1},
                "ipv6": {"network": "fd00:5::/48", "subnet_len": 64, "subnet_min": "fd00:5:0:1::",
                         "subnet_max": "fd00:5:0:ffff::", "subnets": 65535},
                "backend": {"type": "udp", "udp": {"port": 9555, "underlay_mtu": 1400, "underlay_mtu_from_config": true,
                                                   "device_mtu": 1372}},
            })
        );
    }

    #[test]
    fn other_backends_have_a_name_only() {
        let text = meaning(r#"{"Network":"10.3.0.0/16","Backend":{"Type":"VXLAN"}}"#).text();
        assert!(text.ends_with("backend     vxlan"), "{text}");
    }
}
