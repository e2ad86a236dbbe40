//! The network config: what all nodes of one overlay agree on, read once into types that cannot hold nonsense.
//!
//! Source: flannel's network config with the validation rules of 0.20 and later. Reading keeps the habits of Go's JSON reader,
//! because configs written for it are in use. Called by the daemon, the registry server and `felt config`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::Serialize;

use super::attrs::RawJson;
use super::backend::Backend;
use super::json::{Fields, excerpt};
use super::network::{IPV4_RULES, IPV6_RULES, RangeRequest, RangeRules, SubnetRange};
use crate::net::Address;

/// A network config that has passed every check.
///
/// Invariant: at least one family is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// The IPv4 network; `None` where `EnableIPv4` is false.
    pub ipv4: Option<SubnetRange<Ipv4Addr>>,
    /// The IPv6 network; `None` unless `EnableIPv6` is true.
    pub ipv6: Option<SubnetRange<Ipv6Addr>>,
    /// The encapsulation.
    pub backend: Backend,
    /// The `Backend` object as written, passed on to nodes of the remote registry; `None` if it was absent.
    pub backend_json: Option<RawJson>,
    /// `EnableNFTables`: masquerade rules by nftables instead of iptables.
    pub enable_nftables: bool,
}

/// Why a text is no network config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum ConfigError {
    /// Not JSON, or not an object.
    #[error(
        "expected a JSON object such as {{\"Network\":\"10.5.0.0/16\"}}, found at line {line} column {column}: {problem}{hint}"
    )]
    Syntax { line: usize, column: usize, problem: String, hint: &'static str },
    /// A key that must be there is not.
    #[error("`{key}` is missing; {remedy}")]
    Missing { key: &'static str, remedy: String },
    /// A value that cannot be.
    #[error("`{key}`: expected {expected}, found {found}; {remedy}")]
    Value { key: &'static str, expected: String, found: String, remedy: String },
}

impl NetworkConfig {
    /// Reads and checks a config.
    ///
    /// # Errors
    /// The first fault found, IPv4 before IPv6 before the backend.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let fields = Fields::parse(text).map_err(|error| syntax_error(text, &error))?;
        let (request4, request6) = (request(&fields, &IPV4_RULES)?, request(&fields, &IPV6_RULES)?);
        let (enable4, enable6) = (flag(&fields, "EnableIPv4", true)?, flag(&fields, "EnableIPv6", false)?);
        if !enable4 && !enable6 {
            return Err(ConfigError::Value {
                key: "EnableIPv4",
                expected: "at least one of EnableIPv4 and EnableIPv6 to be true".into(),
                found: "both false".into(),
                remedy: "leave `EnableIPv4` out for an IPv4 network".into(),
            });
        }
        Ok(Self {
            ipv4: enable4.then(|| SubnetRange::cut(request4, &IPV4_RULES)).transpose()?,
            ipv6: enable6.then(|| SubnetRange::cut(request6, &IPV6_RULES)).transpose()?,
            backend: Backend::parse(fields.last("Backend"))?,
            backend_json: fields.last("Backend").and_then(RawJson::parse),
            enable_nftables: flag(&fields, "EnableNFTables", false)?,
        })
    }

    /// The config with every default filled in, as the remote registry serves it: flannel's keys in flannel's order, those
    /// that IPv4-only nodes never knew left out where they say nothing. [`parse`](Self::parse) reads it back to the same config.
    #[must_use]
    pub fn to_json(&self) -> String {
        let ipv4 = self.ipv4.map(RangeText::from);
        let ipv6 = self.ipv6.map(RangeText::from);
        let served = Served {
            enable_ipv4: self.ipv4.is_none().then_some(false),
            enable_ipv6: self.ipv6.is_some().then_some(true),
            network: ipv4.as_ref().map(|range| &range.network),
            subnet_min: ipv4.as_ref().map(|range| &range.min),
            subnet_max: ipv4.as_ref().map(|range| &range.max),
            subnet_len: ipv4.as_ref().map(|range| range.subnet_len),
            ipv6_network: ipv6.as_ref().map(|range| &range.network),
            ipv6_subnet_min: ipv6.as_ref().map(|range| &range.min),
            ipv6_subnet_max: ipv6.as_ref().map(|range| &range.max),
            ipv6_subnet_len: ipv6.as_ref().map(|range| range.subnet_len),
            enable_nftables: self.enable_nftables.then_some(true),
            backend: self.backend_json.as_ref(),
        };
        serde_json::to_string(&served).unwrap_or_default()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Served<'a> {
    #[serde(rename = "EnableIPv4", skip_serializing_if = "Option::is_none")]
    enable_ipv4: Option<bool>,
    #[serde(rename = "EnableIPv6", skip_serializing_if = "Option::is_none")]
    enable_ipv6: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subnet_min: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subnet_max: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subnet_len: Option<u8>,
    #[serde(rename = "IPv6Network", skip_serializing_if = "Option::is_none")]
    ipv6_network: Option<&'a String>,
    #[serde(rename = "IPv6SubnetMin", skip_serializing_if = "Option::is_none")]
    ipv6_subnet_min: Option<&'a String>,
    #[serde(rename = "IPv6SubnetMax", skip_serializing_if = "Option::is_none")]
    ipv6_subnet_max: Option<&'a String>,
    #[serde(rename = "IPv6SubnetLen", skip_serializing_if = "Option::is_none")]
    ipv6_subnet_len: Option<u8>,
    #[serde(rename = "EnableNFTables", skip_serializing_if = "Option::is_none")]
    enable_nftables: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<&'a RawJson>,
}

struct RangeText {
    network: String,
    min: String,
    max: String,
    subnet_len: u8,
}

impl<A: Address> From<SubnetRange<A>> for RangeText {
    fn from(range: SubnetRange<A>) -> Self {
        Self {
            network: range.network.to_string(),
            min: range.min.to_string(),
            max: range.max.to_string(),
            subnet_len: range.subnet_len,
        }
    }
}

fn request<A: Address>(fields: &Fields<'_>, rules: &RangeRules) -> Result<RangeRequest<A>, ConfigError> {
    Ok(RangeRequest {
        network: text(fields, rules.network_key, rules.example)?,
        subnet_len: length(fields, rules)?,
        min: address(fields, rules.min_key, rules.example)?,
        max: address(fields, rules.max_key, rules.example)?,
    })
}

/// A string parsed into `T`. `null` is an error in the IPv4 keys and "not set" in the IPv6 ones, as in flannel.
fn text<T: FromStr>(fields: &Fields<'_>, key: &'static str, example: &str) -> Result<Option<T>, ConfigError> {
    let Some(json) = fields.last(key) else { return Ok(None) };
    if json == "null" && key.starts_with("IPv6") {
        return Ok(None);
    }
    let parsed = serde_json::from_str::<String>(json).ok().and_then(|text| text.parse().ok());
    parsed.map(Some).ok_or_else(|| ConfigError::Value {
        key,
        expected: format!("a string such as \"{example}\""),
        found: excerpt(json),
        remedy: "correct it; octets have no leading zeros".into(),
    })
}

/// An address; the unspecified one means "not set".
fn address<A: Address>(fields: &Fields<'_>, key: &'static str, network: &str) -> Result<Option<A>, ConfigError> {
    let example = network.split('/').next().unwrap_or(network);
    Ok(text::<A>(fields, key, example)?.filter(|address| address.to_number() != 0))
}

/// A subnet length; zero means "not set".
fn length(fields: &Fields<'_>, rules: &RangeRules) -> Result<Option<u64>, ConfigError> {
    let Some(json) = fields.last_given(rules.len_key) else { return Ok(None) };
    match json.parse::<u64>() {
        Ok(len) => Ok((len != 0).then_some(len)),
        Err(_) => Err(ConfigError::Value {
            key: rules.len_key,
            expected: format!("a whole number such as {}, without quotes", rules.usual_len),
            found: excerpt(json),
            remedy: format!("leave `{}` out for the usual length", rules.len_key),
        }),
    }
}

fn flag(fields: &Fields<'_>, key: &'static str, default: bool) -> Result<bool, ConfigError> {
    match fields.last_given(key) {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(json) => Err(ConfigError::Value {
            key,
            expected: "true or false, without quotes".into(),
            found: excerpt(json),
            remedy: format!("leave `{key}` out for {default}"),
        }),
    }
}

fn syntax_error(text: &str, error: &serde_json::Error) -> ConfigError {
    let problem = error.to_string();
    let problem = problem.split(" at line ").next().unwrap_or_default().to_owned();
    let trimmed = text.trim_start();
    let hint = if text.starts_with('\u{feff}') {
        " (the file starts with a byte order mark: save it as UTF-8 without one)"
    } else if trimmed.is_empty() {
        " (the text is empty)"
    } else if problem.contains("trailing comma") {
        " (remove the comma before the closing bracket)"
    } else if trimmed.starts_with("{\\") || trimmed.starts_with('\\') {
        " (the backslashes before the quotes are the shell's: remove them)"
    } else if trimmed.starts_with(['\'', '{']) && text.contains('\'') {
        " (JSON has double quotes only)"
    } else {
        ""
    };
    ConfigError::Syntax { line: error.line(), column: error.column(), problem, hint }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ipv4(text: &str) -> (String, u8, String, String) {
        let range = NetworkConfig::parse(text).unwrap().ipv4.unwrap();
        (range.network.to_string(), range.subnet_len, range.min.to_string(), range.max.to_string())
    }

    #[test]
    fn defaults_are_those_of_flannel() {
        let expect = |network: &str, len, min: &str, max: &str| (network.to_owned(), len, min.to_owned(), max.to_owned());
        assert_eq!(ipv4(r#"{"network":"10.3.0.0/16"}"#), expect("10.3.0.0/16", 24, "10.3.1.0", "10.3.255.0"));
        assert_eq!(ipv4(r#"{"Network":"10.3.4.5/22"}"#), expect("10.3.4.0/22", 24, "10.3.5.0", "10.3.7.0"));
        assert_eq!(ipv4(r#"{"Network":"10.3.4.0/23"}"#), expect("10.3.4.0/23", 25, "10.3.4.128", "10.3.5.128"));
        assert_eq!(ipv4(r#"{"Network":"10.3.4.16/28"}"#), expect("10.3.4.16/28", 30, "10.3.4.20", "10.3.4.28"));
    }

    #[test]
    fn the_served_form_has_the_defaults_filled_in() {
        let json = |text: &str| NetworkConfig::parse(text).unwrap().to_json();
        assert_eq!(
            json(r#"{ "network": "10.1.0.0/16", "Backend": { "Type": "udp", "Note": "<>" } }"#),
            concat!(
                r#"{"Network":"10.1.0.0/16","SubnetMin":"10.1.1.0","SubnetMax":"10.1.255.0","SubnetLen":24,"#,
                r#""Backend":{"Type":"udp","Note":"\u003c\u003e"}}"#
            )
        );
        assert_eq!(
            json(r#"{"Network":"10.1.0.0/16"}"#),
            r#"{"Network":"10.1.0.0/16","SubnetMin":"10.1.1.0","SubnetMax":"10.1.255.0","SubnetLen":24}"#
        );
        assert_eq!(
            json(r#"{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fc00::/48","EnableNFTables":true}"#),
            concat!(
                r#"{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fc00::/48","IPv6SubnetMin":"fc00:0:0:1::","#,
                r#""IPv6SubnetMax":"fc00:0:0:ffff::","IPv6SubnetLen":64,"EnableNFTables":true}"#
            )
        );
    }

    #[test]
    fn syntax_errors_say_where_and_what_to_do() {
        let message = |text: &str| NetworkConfig::parse(text).unwrap_err().to_string();
        assert_eq!(
            message("{\n  \"Network\": \"10.5.0.0/16\",\n}"),
            "expected a JSON object such as {\"Network\":\"10.5.0.0/16\"}, found at line 3 column 1: trailing comma \
             (remove the comma before the closing bracket)"
        );
        assert!(message("\u{feff}{}").contains("line 1 column 1") && message("\u{feff}{}").contains("byte order mark"));
        assert!(message(r#"{\"Network\":\"10.5.0.0/16\"}"#).contains("backslashes"));
        assert!(message(" \n").contains("the text is empty"));
        assert!(message("{'Network':'10.5.0.0/16'}").contains("double quotes"));
        assert!(message("[]").contains("sequence") && message("null").contains("null"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_what_is_read_survives_serving(
            len in 0u8..=33, subnet in prop::option::of(0u16..40), min in any::<u32>(), extra in ".{0,20}", cut in 0usize..200,
        ) {
            let base = Ipv4Addr::from_bits(min);
            let subnet = subnet.map(|len| format!(r#","SubnetLen":{len}"#)).unwrap_or_default();
            let text = format!(r#"{{"Network":"{base}/{len}","SubnetMin":"{base}"{subnet},"EnableIPv6":false}}{extra}"#);
            let cut: String = text.chars().take(cut).collect();
            for text in [&text, &cut, &extra] {
                if let Ok(config) = NetworkConfig::parse(text) {
                    prop_assert_eq!(NetworkConfig::parse(&config.to_json()), Ok(config));
                }
            }
        }
    }
}
