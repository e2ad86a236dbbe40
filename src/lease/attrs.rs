//! What a node publishes about itself in its lease, and the exact bytes of it.
//!
//! Source: flannel's lease value (field order, `PublicIPv6` always present since 0.15, no `BackendType` for udp). Values of
//! every flannel version are read; what no node could be reached by is refused.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::json::{Fields, compact, excerpt};

/// What a `PublicIP` has to be.
const NODE_ADDRESS: &str = "the unicast IPv4 address of a node";

/// JSON carried unread: a backend's own data.
///
/// Held the way Go writes it again (no spaces, `<`, `>` and `&` escaped), so that rewriting a peer's value changes no byte.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// `json` carried along; `None` if it is not one JSON value.
    #[must_use]
    pub fn parse(json: &str) -> Option<Self> {
        let valid: &RawValue = serde_json::from_str(json).ok()?;
        RawValue::from_string(compact(valid.get())).ok().map(Self)
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        RawValue::from_string(compact(raw.get())).map(Self).map_err(D::Error::custom)
    }
}

/// A lease's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeaseAttrs {
    /// Underlay address of the node.
    #[serde(rename = "PublicIP")]
    pub public_ip: Ipv4Addr,
    /// Underlay IPv6 address of the node, if it has one.
    #[serde(rename = "PublicIPv6")]
    pub public_ipv6: Option<Ipv6Addr>,
    /// Encapsulation, if the node says so; udp nodes publish none.
    #[serde(rename = "BackendType", skip_serializing_if = "String::is_empty")]
    pub backend_type: String,
    /// The encapsulation's own data.
    #[serde(rename = "BackendData", skip_serializing_if = "Option::is_none")]
    pub backend_data: Option<RawJson>,
    /// The same for the IPv6 underlay.
    #[serde(rename = "BackendV6Data", skip_serializing_if = "Option::is_none")]
    pub backend_v6_data: Option<RawJson>,
    /// Port the node receives datagrams on, if not that of the network. Known of static peers only: no registry stores it.
    #[serde(skip)]
    pub port: Option<u16>,
}

/// Why bytes are no lease value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum AttrsError {
    /// Not JSON, or not an object.
    #[error("expected a lease value such as {{\"PublicIP\":\"192.168.64.3\"}}, found `{found}`: {problem}")]
    Syntax { found: String, problem: String },
    /// Nobody to send to.
    #[error("the lease value has no `PublicIP`; its node must publish the address it is reached at")]
    NoPublicIp,
    /// A field that cannot be what it says.
    #[error("`{field}` of a lease value: expected {expected}, found {found}")]
    Field { field: &'static str, expected: &'static str, found: String },
}

impl LeaseAttrs {
    /// What a node of the udp encapsulation publishes.
    #[must_use]
    pub fn udp(public_ip: Ipv4Addr) -> Self {
        Self { public_ip, public_ipv6: None, backend_type: String::new(), backend_data: None, backend_v6_data: None, port: None }
    }

    /// Reads a lease's value. Unknown fields and the encapsulation's data are not looked into.
    ///
    /// # Errors
    /// When it is no JSON object, has no usable unicast `PublicIP`, or a known field has a wrong type.
    pub fn parse(bytes: &[u8]) -> Result<Self, AttrsError> {
        let syntax = |problem: String| AttrsError::Syntax { found: excerpt(&String::from_utf8_lossy(bytes)), problem };
        let text = std::str::from_utf8(bytes).map_err(|error| syntax(error.to_string()))?;
        let fields = Fields::parse(text).map_err(|error| syntax(error.to_string()))?;
        let public_ip = fields.last("PublicIP").ok_or(AttrsError::NoPublicIp)?;
        let data = |field| fields.last_given(field).and_then(RawJson::parse);
        Ok(Self {
            public_ip: reachable(public_ip)?,
            public_ipv6: fields
                .last("PublicIPv6")
                .filter(|json| *json != "null")
                .map(|json| string(json, "PublicIPv6", "an IPv6 address or null"))
                .transpose()?,
            backend_type: fields
                .last_given("BackendType")
                .map_or(Ok(String::new()), |json| string(json, "BackendType", "a string"))?,
            backend_data: data("BackendData"),
            backend_v6_data: data("BackendV6Data"),
            port: None,
        })
    }

    /// The value's bytes as every registry stores them.
    #[must_use]
    pub fn to_json(&self) -> String {
        compact(&serde_json::to_string(self).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for LeaseAttrs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get().as_bytes()).map_err(D::Error::custom)
    }
}

/// Refuses what no node can be reached at, as the `PublicIP` of a lease or reservation. Loopback is fine: networks of one
/// machine use it.
///
/// # Errors
/// When `address` is 0.0.0.0, multicast or broadcast.
pub fn check_public_ip(address: Ipv4Addr) -> Result<(), AttrsError> {
    if address.is_unspecified() || address.is_multicast() || address.is_broadcast() {
        return Err(AttrsError::Field { field: "PublicIP", expected: NODE_ADDRESS, found: address.to_string() });
    }
    Ok(())
}

fn reachable(json: &str) -> Result<Ipv4Addr, AttrsError> {
    let address = string(json, "PublicIP", NODE_ADDRESS)?;
    check_public_ip(address)?;
    Ok(address)
}

fn string<T: FromStr>(json: &str, field: &'static str, expected: &'static str) -> Result<T, AttrsError> {
    let parsed = serde_json::from_str::<String>(json).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| AttrsError::Field { field, expected, found: excerpt(json) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attrs(public_ip: &str, backend_type: &str, data: Option<&str>) -> LeaseAttrs {
        let backend_data = data.map(|data| RawJson::parse(data).unwrap());
        LeaseAttrs { backend_type: backend_type.into(), backend_data, ..LeaseAttrs::udp(public_ip.parse().unwrap()) }
    }

    #[test]
    fn written_bytes_are_those_of_flannel() {
        let mac = r#"{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}"#;
        for (attrs, bytes) in [
            (attrs("192.168.64.3", "", None), r#"{"PublicIP":"192.168.64.3","PublicIPv6":null}"#),
            (
                attrs("192.168.64.3", "vxlan", Some(mac)),
                r#"{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}}"#,
            ),
            (attrs("1.2.3.4", "host-gw", None), r#"{"PublicIP":"1.2.3.4","PublicIPv6":null,"BackendType":"host-gw"}"#),
            (
                LeaseAttrs { public_ipv6: Some("fc00::3".parse().unwrap()), ..attrs("1.2.3.4", "", None) },
                r#"{"PublicIP":"1.2.3.4","PublicIPv6":"fc00::3"}"#,
            ),
        ] {
            assert_eq!(attrs.to_json(), bytes);
            assert_eq!(LeaseAttrs::parse(bytes.as_bytes()), Ok(attrs));
        }
    }

    #[test]
    fn values_of_every_flannel_version_are_read() {
        for (bytes, expected) in [
            (r#"{"PublicIP":"192.168.64.3"}"#, attrs("192.168.64.3", "", None)),
            (
                r#"{"PublicIP":"10.37.7.195","BackendType":"vxlan","BackendData":{"VtepMAC":"82:4b:b6:2f:54:4e"}}"#,
                attrs("10.37.7.195", "vxlan", Some(r#"{"VtepMAC":"82:4b:b6:2f:54:4e"}"#)),
            ),
            (
                r#"{"PublicIP":"10.37.7.195","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"82:4b:b6:2f:54:4e"}}"#,
                attrs("10.37.7.195", "vxlan", Some(r#"{"VNI":1,"VtepMAC":"82:4b:b6:2f:54:4e"}"#)),
            ),
            (r#"{"PublicIP":"1.2.3.4","BackendType":"host-gw"}"#, attrs("1.2.3.4", "host-gw", None)),
            // letter case, spaces, unknown fields, duplicates, nulls
            (r#" { "publicip" : "1.1.1.1" , "New" : [ {} ] , "PublicIP" : "1.2.3.4" } "#, attrs("1.2.3.4", "", None)),
            (
                r#"{"PublicIP":"1.2.3.4","PublicIPv6":null,"BackendType":null,"BackendData":null,"BackendV6Data":null}"#,
                attrs("1.2.3.4", "", None),
            ),
            (r#"{"PublicIP":"1.2.3.4","BackendData":"e30="}"#, attrs("1.2.3.4", "", Some(r#""e30=""#))),
        ] {
            assert_eq!(LeaseAttrs::parse(bytes.as_bytes()), Ok(expected.clone()), "{bytes}");
            assert_eq!(serde_json::from_str::<LeaseAttrs>(bytes).unwrap(), expected);
        }
    }

    #[test]
    fn values_that_reach_nobody_say_why() {
        for (bytes, problem) in [
            ("", "expected a lease value"),
            ("null", "expected a lease value"),
            ("[]", "expected a lease value"),
            ("\"1.2.3.4\"", "expected a lease value"),
            (r#"{"PublicIP":"1.2.3.4""#, "expected a lease value"),
            ("{}", "no `PublicIP`"),
            (r#"{"BackendType":"vxlan"}"#, "no `PublicIP`"),
            (r#"{"PublicIP":null}"#, "found null"),
            (r#"{"PublicIP":""}"#, "found \"\""),
            (r#"{"PublicIP":16909060}"#, "found 16909060"),
            (r#"{"PublicIP":"fd00::1"}"#, "found \"fd00::1\""),
            (r#"{"PublicIP":"1.2.3.04"}"#, "found \"1.2.3.04\""),
            (r#"{"PublicIP":"0.0.0.0"}"#, "found 0.0.0.0"),
            (r#"{"PublicIP":"224.0.0.1"}"#, "found 224.0.0.1"),
            (r#"{"PublicIP":"255.255.255.255"}"#, "found 255.255.255.255"),
            (r#"{"PublicIP":"1.2.3.4","PublicIPv6":"1.2.3.4"}"#, "`PublicIPv6`"),
            (r#"{"PublicIP":"1.2.3.4","BackendType":7}"#, "`BackendType`"),
        ] {
            let error = LeaseAttrs::parse(bytes.as_bytes()).expect_err(bytes).to_string();
            assert!(error.contains(problem), "{bytes}: {error}");
        }
        assert!(LeaseAttrs::parse(b"{\"PublicIP\":\"\xff\"}").unwrap_err().to_string().contains("utf-8"));
    }

    #[test]
    fn foreign_data_is_kept_as_go_writes_it() {
        let read = LeaseAttrs::parse(br#"{"PublicIP":"1.2.3.4","BackendData":{ "b" : "<&>", "a":1.50 }}"#).unwrap();
        assert_eq!(
            read.to_json(),
            r#"{"PublicIP":"1.2.3.4","PublicIPv6":null,"BackendData":{"b":"\u003c\u0026\u003e","a":1.50}}"#
        );
        assert_eq!(LeaseAttrs::parse(read.to_json().as_bytes()), Ok(read));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_survive_rewriting(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            data in r#"[{}\[\]",:0-9a<>& \\]{0,20}"#, cut in 0usize..80,
        ) {
            let mut value = format!(r#"{{"PublicIP":"1.2.3.4","BackendData":{data}}}"#).into_bytes();
            let whole = value.clone();
            value.truncate(cut);
            for bytes in [&bytes, &value, &whole] {
                if let Ok(attrs) = LeaseAttrs::parse(bytes) {
                    prop_assert_eq!(LeaseAttrs::parse(attrs.to_json().as_bytes()), Ok(attrs));
                }
            }
        }
    }
}
