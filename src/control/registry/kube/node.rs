//! The little that counts of a node object, and the lease that it makes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::Deserialize;

use super::AnnotationPrefix;
use crate::lease::{AttrsError, Lease, LeaseAttrs, RawJson, SubnetKey, check_public_ip};
use crate::net::{Prefix4, PrefixError};

/// A node object without all that is no matter of the network's: images alone would be most of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    pub(super) metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) resource_version: String,
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(rename = "podCIDR")]
    pod_cidr: String,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// Why a node object makes no lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NodeError {
    /// Nothing to lease.
    #[error("it has no podCIDR; have the controller manager give it one (--allocate-node-cidrs)")]
    NoPodCidr,
    /// Only IPv6.
    #[error("it has no IPv4 podCIDR, found {0}")]
    NoIpv4(String),
    /// One of each family is all there can be.
    #[error("expected one or two podCIDRs, found {0}")]
    TooMany(usize),
    /// Not what it should be.
    #[error("podCIDR: {0}")]
    PodCidr(PrefixError),
    /// Nobody to send to.
    #[error("annotation `{name}`: expected the IPv4 address of a node, found `{found}`")]
    Address { name: String, found: String },
    /// The same, by number.
    #[error(transparent)]
    Attrs(#[from] AttrsError),
}

impl Node {
    /// An annotation's value.
    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.get(name).map(String::as_str)
    }

    /// Whether the node says of itself that it is part of the network.
    pub(super) fn takes_part(&self, prefix: &AnnotationPrefix) -> bool {
        self.annotation(&prefix.name("kube-subnet-manager")) == Some("true")
    }

    /// Whether the node's condition of this type is `status`.
    pub(super) fn has_condition(&self, kind: &str, status: &str) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == kind && condition.status == status)
    }

    /// The subnet that the cluster gave to the node.
    ///
    /// # Errors
    /// When it gave none, or none that is one.
    pub(super) fn subnet(&self) -> Result<SubnetKey, NodeError> {
        let Spec { pod_cidr, pod_cidrs } = &self.spec;
        if pod_cidrs.len() > 2 {
            return Err(NodeError::TooMany(pod_cidrs.len()));
        }
        // Clusters without dual stack fill in the one field only, some the other too.
        let all: Vec<&String> = if pod_cidrs.is_empty() { vec![pod_cidr] } else { pod_cidrs.iter().collect() };
        let Some(text) = all.iter().find(|text| !text.is_empty() && !text.contains(':')) else {
            let found = all.into_iter().find(|text| !text.is_empty());
            return Err(found.map_or(NodeError::NoPodCidr, |text| NodeError::NoIpv4(text.clone())));
        };
        text.parse::<Prefix4>().map(SubnetKey::from).map_err(NodeError::PodCidr)
    }

    /// The node's lease; `None` for one that takes no part.
    ///
    /// # Errors
    /// When it takes part and cannot.
    pub(super) fn lease(&self, prefix: &AnnotationPrefix) -> Result<Option<Lease>, NodeError> {
        if !self.takes_part(prefix) {
            return Ok(None);
        }
        let data = |word: &str| self.annotation(&prefix.name(word)).filter(|text| *text != "null").and_then(RawJson::parse);
        let attrs = LeaseAttrs {
            public_ip: self.address(prefix, "public-ip")?.ok_or(AttrsError::NoPublicIp)?,
            public_ipv6: self.annotation(&prefix.name("public-ipv6")).and_then(|text| text.parse().ok()),
            backend_type: self.annotation(&prefix.name("backend-type")).unwrap_or_default().to_owned(),
            backend_data: data("backend-data"),
            backend_v6_data: data("backend-v6-data"),
            port: None,
        };
        Ok(Some(lease(self.subnet()?, attrs)))
    }

    /// The address that somebody wants this node to publish instead of its own choice.
    ///
    /// # Errors
    /// When it is no node's.
    pub(super) fn wanted_address(&self, prefix: &AnnotationPrefix) -> Result<Option<Ipv4Addr>, NodeError> {
        Ok(self.address(prefix, "public-ip-overwrite")?.or(self.address(prefix, "node-public-ip")?))
    }

    fn address(&self, prefix: &AnnotationPrefix, word: &str) -> Result<Option<Ipv4Addr>, NodeError> {
        let name = prefix.name(word);
        let Some(text) = self.annotation(&name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let address = text.parse().map_err(|_| NodeError::Address { name, found: text.to_owned() })?;
        check_public_ip(address)?;
        Ok(Some(address))
    }
}

/// A lease of this registry. It has no end; nor a revision, for versions of objects are nothing that could be compared. Source:
/// the Kubernetes API's conventions.
pub(super) fn lease(subnet: SubnetKey, attrs: LeaseAttrs) -> Lease {
    Lease { subnet, attrs, ttl: None, revision: 0 }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A node object as the API gives it, with these annotations under the usual prefix.
    #[expect(clippy::needless_pass_by_value, reason = "who calls makes it on the spot")]
    pub(in super::super) fn node(name: &str, spec: Value, annotations: &[(&str, &str)]) -> Node {
        let annotations: BTreeMap<_, _> =
            annotations.iter().map(|(word, value)| (AnnotationPrefix::default().name(word), *value)).collect();
        let metadata = json!({"name": name, "resourceVersion": "7", "annotations": annotations, "labels": {"a": "b"}});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"images": [{"names": []}]}})).unwrap()
    }

    fn lease_of(spec: Value, annotations: &[(&str, &str)]) -> Result<Option<String>, String> {
        let lease = node("a", spec, annotations).lease(&AnnotationPrefix::default());
        let text = |lease: Lease| format!("{} {}", lease.subnet, lease.attrs.to_json());
        lease.map(|lease| lease.map(text)).map_err(|error| error.to_string())
    }

    #[test]
    fn nodes_of_every_flannel_are_read() {
        let cidr = || json!({"podCIDR": "10.244.1.0/24"});
        let on = ("kube-subnet-manager", "true");
        let plain = r#"10.244.1.0-24 {"PublicIP":"192.0.2.1","PublicIPv6":null}"#;
        for data in ["null", "", "{"] {
            let annotations = [on, ("public-ip", "192.0.2.1"), ("backend-type", ""), ("backend-data", data)];
            assert_eq!(lease_of(cidr(), &annotations), Ok(Some(plain.into())), "{data}");
        }
        assert_eq!(
            lease_of(json!({"podCIDRs": ["fd00::/64", "10.244.1.0/24"]}), &[on, ("public-ip", "192.0.2.1")]),
            Ok(Some(plain.into()))
        );
        let vxlan =
            [on, ("public-ip", "192.0.2.1"), ("backend-type", "vxlan"), ("backend-data", r#"{"VtepMAC":"9a:56:04:93:aa:f9"}"#)];
        let expected = r#"10.244.1.0-24 {"PublicIP":"192.0.2.1","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VtepMAC":"9a:56:04:93:aa:f9"}}"#;
        assert_eq!(lease_of(cidr(), &vxlan), Ok(Some(expected.into())));
        for switch in [&[][..], &[("kube-subnet-manager", "True")], &[("kube-subnet-manager", "")]] {
            assert_eq!(lease_of(json!({}), switch), Ok(None), "{switch:?}");
        }
    }

    #[test]
    fn what_makes_no_lease_says_why() {
        let (on, ip) = (("kube-subnet-manager", "true"), ("public-ip", "192.0.2.1"));
        for (spec, annotations, part) in [
            (json!({}), &[on, ip][..], "no podCIDR"),
            (json!({"podCIDR": "fd00::/64"}), &[on, ip], "no IPv4 podCIDR, found fd00::/64"),
            (json!({"podCIDRs": ["10.1.0.0/24", "10.2.0.0/24", "fd00::/64"]}), &[on, ip], "found 3"),
            (json!({"podCIDR": "10.244.1.0/33"}), &[on, ip], "podCIDR: "),
            (json!({"podCIDR": "10.244.1.0/24"}), &[on], "PublicIP"),
            (json!({"podCIDR": "10.244.1.0/24"}), &[on, ("public-ip", "a")], "found `a`"),
            (json!({"podCIDR": "10.244.1.0/24"}), &[on, ("public-ip", "0.0.0.0")], "found 0.0.0.0"),
        ] {
            let error = lease_of(spec, annotations).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_address_that_somebody_wants_published() {
        let wanted = |annotations| {
            node("a", json!({}), annotations).wanted_address(&AnnotationPrefix::default()).map_err(|error| error.to_string())
        };
        assert_eq!(wanted(&[]), Ok(None));
        let both = [("node-public-ip", "192.0.2.8"), ("public-ip-overwrite", "192.0.2.7")];
        for (annotations, address) in [(&both[..1], [192, 0, 2, 8]), (&both, [192, 0, 2, 7])] {
            assert_eq!(wanted(annotations), Ok(Some(address.into())));
        }
        assert!(wanted(&[("public-ip-overwrite", "x")]).unwrap_err().contains("found `x`"));
    }
}
