//! What a node object lacks of what it should say, as a strategic merge patch of its status.
//!
//! Source: flannel, which patches annotations through the same door and only those that differ.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::AnnotationPrefix;
use super::node::Node;
use crate::lease::LeaseAttrs;

/// The condition by which a cluster knows that pods can be started on a node.
const CONDITION: &str = "NetworkUnavailable";

/// The annotations of a node with these attributes.
pub(super) fn annotations(prefix: &AnnotationPrefix, attrs: &LeaseAttrs) -> BTreeMap<String, String> {
    // What Go's writer makes of data that is not there.
    let data = attrs.backend_data.as_ref().map_or("null", |data| data.as_str());
    let words = [
        ("kube-subnet-manager", "true".to_owned()),
        ("backend-type", attrs.backend_type.clone()),
        ("backend-data", data.to_owned()),
        ("public-ip", attrs.public_ip.to_string()),
    ];
    words.into_iter().map(|(word, value)| (prefix.name(word), value)).collect()
}

/// The patch that makes `node` say `attrs`; `None` where it does.
pub(super) fn annotate(node: &Node, prefix: &AnnotationPrefix, attrs: &LeaseAttrs) -> Option<String> {
    let mut lacking = annotations(prefix, attrs);
    lacking.retain(|name, value| node.annotation(name) != Some(value));
    (!lacking.is_empty()).then(|| json!({"metadata": {"annotations": lacking}}).to_string())
}

/// The patch that says of `node` that its network is up; `None` where that is said.
pub(super) fn say_up(node: &Node, now: OffsetDateTime) -> Option<String> {
    if node.has_condition(CONDITION, "False") {
        return None;
    }
    let now = now.replace_nanosecond(0).unwrap_or(now).format(&Rfc3339).unwrap_or_default();
    let condition: Value = json!({
        "type": CONDITION, "status": "False", "reason": "FlannelIsUp", "message": "Flannel is running on this node",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    Some(json!({"status": {"conditions": [condition]}}).to_string())
}

#[cfg(test)]
mod tests {
    use super::super::node::tests::node;
    use super::*;
    use crate::lease::RawJson;

    #[test]
    fn only_what_differs_is_patched() {
        let prefix = AnnotationPrefix::default();
        let attrs = LeaseAttrs::udp("192.0.2.1".parse().unwrap());
        let none = node("a", json!({}), &[("other", "kept")]);
        assert_eq!(
            annotate(&none, &prefix, &attrs).unwrap(),
            r#"{"metadata":{"annotations":{"flannel.alpha.coreos.com/backend-data":"null","flannel.alpha.coreos.com/backend-type":"","flannel.alpha.coreos.com/kube-subnet-manager":"true","flannel.alpha.coreos.com/public-ip":"192.0.2.1"}}}"#
        );
        let most = [("kube-subnet-manager", "true"), ("backend-type", ""), ("backend-data", "null"), ("public-ip", "192.0.2.9")];
        assert_eq!(
            annotate(&node("a", json!({}), &most), &prefix, &attrs).unwrap(),
            r#"{"metadata":{"annotations":{"flannel.alpha.coreos.com/public-ip":"192.0.2.1"}}}"#
        );
        assert_eq!(annotate(&node("a", json!({}), &most), &prefix, &LeaseAttrs::udp("192.0.2.9".parse().unwrap())), None);
        let vxlan = LeaseAttrs { backend_type: "vxlan".into(), backend_data: RawJson::parse(r#"{"VNI": 1}"#), ..attrs };
        assert_eq!(annotations(&prefix, &vxlan)["flannel.alpha.coreos.com/backend-data"], r#"{"VNI":1}"#);
    }

    #[test]
    fn the_condition_is_said_once() {
        let now = OffsetDateTime::from_unix_timestamp_nanos(1_700_000_000_123_456_789).unwrap();
        let patch: Value = serde_json::from_str(&say_up(&node("a", json!({}), &[]), now).unwrap()).unwrap();
        let condition = json!({
            "type": "NetworkUnavailable", "status": "False", "reason": "FlannelIsUp",
            "message": "Flannel is running on this node",
            "lastHeartbeatTime": "2023-11-14T22:13:20Z", "lastTransitionTime": "2023-11-14T22:13:20Z",
        });
        assert_eq!(patch, json!({"status": {"conditions": [condition]}}));
        for (status, said) in [("False", true), ("True", false), ("Unknown", false)] {
            let object =
                json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": CONDITION, "status": status}]}});
            let node: Node = serde_json::from_value(object).unwrap();
            assert_eq!(say_up(&node, now).is_none(), said, "{status}");
        }
    }
}
