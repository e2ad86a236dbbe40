//! `scripts/kubernetes/felt.yaml`: its objects, and what its ClusterRole grants and does not.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::kube_support::{FELT, KubeServer};

/// The objects, in their order.
pub fn objects() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/kubernetes/felt.yaml");
    serde_saphyr::from_multiple(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The object of this kind.
pub fn object(kind: &str) -> Value {
    objects().into_iter().find(|object| object["kind"] == kind).unwrap()
}

/// Makes all of them.
pub fn apply(server: &KubeServer) {
    for object in objects() {
        let path = match object["kind"].as_str().unwrap() {
            "Namespace" => "/api/v1/namespaces",
            "ServiceAccount" => "/api/v1/namespaces/felt/serviceaccounts",
            "ConfigMap" => "/api/v1/namespaces/felt/configmaps",
            "DaemonSet" => "/apis/apps/v1/namespaces/felt/daemonsets",
            "ClusterRole" => "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "ClusterRoleBinding" => "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            other => panic!("{other}"),
        };
        server.create(path, &object);
    }
}

/// The arguments that the DaemonSet gives to `felt`.
pub fn arguments() -> Vec<String> {
    let container = object("DaemonSet")["spec"]["template"]["spec"]["containers"][0].clone();
    serde_json::from_value(container["args"].clone()).unwrap()
}

/// A text of the ConfigMap.
pub fn text(key: &str) -> String {
    object("ConfigMap")["data"][key].as_str().unwrap().to_owned()
}

#[test]
fn the_texts_in_it_are_json_and_the_daemon_is_no_more_than_it_has_to_be() {
    let cni: Value = serde_json::from_str(&text("cni-conf.json")).unwrap();
    assert_eq!(cni["plugins"][0]["delegate"]["type"], "ptp");
    felt::lease::NetworkConfig::parse(&text("net-conf.json")).unwrap();
    let pod = object("DaemonSet")["spec"]["template"]["spec"].clone();
    let security = &pod["containers"][0]["securityContext"];
    assert_eq!(security["capabilities"], json!({"drop": ["ALL"], "add": ["NET_ADMIN"]}));
    assert_eq!((&security["privileged"], &pod["hostNetwork"]), (&Value::Null, &json!(true)));
}

#[test]
fn its_role_grants_what_is_needed_and_no_more() {
    let cluster = Cluster::without_nodes("role");
    let server = &cluster.server;
    let may = |group: &str, resource: &str, verb: &str| {
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = json!({"group": group, "resource": resource, "subresource": part, "verb": verb});
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let (status, answer) =
            server.call_as(FELT, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", Some(&review));
        assert_eq!(status, 201, "{answer}");
        answer["status"]["allowed"] == true
    };
    for verb in ["get", "list", "watch"] {
        assert!(may("", "nodes", verb), "{verb} nodes");
    }
    assert!(may("", "pods", "get") && !may("", "pods", "list"));
    for (group, resource) in [("", "nodes"), ("", "pods"), ("", "namespaces"), ("networking.k8s.io", "networkpolicies")] {
        for verb in ["create", "update", "patch", "delete"] {
            assert!(!may(group, resource, verb), "{verb} {resource}");
        }
    }
    assert!(may("", "nodes/status", "patch") && !may("", "nodes/status", "update"));
    for resource in ["secrets", "configmaps", "services", "pods/exec"] {
        assert!(!may("", resource, "get"), "{resource}");
    }
}
