//! Manifests that are wrong in some way, from text to verdict: what is not understood never opens anything, says so, and leaves
//! the rest of the file as it is.

mod policy_proof;

use felt::policy::Change;
use felt::policy::manifest::{Read, read, read_text};
use felt::policy::model::{Object, ObjectId, PolicyKind};
use policy_proof::engine::{Engine, letter, understood};
use serde_json::{Value, json};

/// Pods `x/a` 10.0.0.1 and `y/b` 10.0.0.2, a node and these policies.
fn engine(policies: &[Value]) -> Engine {
    let pod = |namespace: &str, name: &str, ip: &str| {
        let metadata = json!({"namespace": namespace, "name": name, "labels": {"app": name}});
        let spec = json!({"nodeName": "n", "containers": [{"ports": [{"name": "web", "containerPort": 80}]}]});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running", "podIP": ip}})
    };
    let mut objects = vec![pod("x", "a", "10.0.0.1"), pod("y", "b", "10.0.0.2")];
    objects.extend_from_slice(policies);
    let mut engine = Engine::new();
    engine.changes(&objects).into_iter().for_each(|change| engine.apply(change));
    engine
}

/// What becomes of `b` to `a` and `a` to `b` at TCP 80, and of the world to `b`.
fn letters(engine: &mut Engine) -> String {
    let policies = engine.compile();
    let ask = |from: &str, to: &str| letter(&policies, from.parse().unwrap(), to.parse().unwrap(), "TCP", 80);
    [ask("10.0.0.2", "10.0.0.1"), ask("10.0.0.1", "10.0.0.2"), ask("192.0.2.1", "10.0.0.2")].into_iter().collect()
}

fn network_policy(spec: &Value) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"namespace": "x", "name": "p"}, "spec": spec})
}

fn cluster_policy(spec: &Value) -> Value {
    let version = "policy.networking.k8s.io/v1alpha2";
    json!({"apiVersion": version, "kind": "ClusterNetworkPolicy", "metadata": {"name": "p"}, "spec": spec})
}

#[test]
fn a_network_policy_never_opens_what_it_does_not_understand() {
    let allows = |rule: Value| json!({"podSelector": {}, "ingress": [rule]});
    let table = [
        // Understood.
        (allows(json!({})), "..."),
        (allows(json!({"from": [{"namespaceSelector": {}}], "ports": [{"port": "web"}]})), "..."),
        (json!({"podSelector": {"matchLabels": {"app": "z"}}}), "..."),
        // Not.
        (json!({"podSelector": {"matchLabels": {"app": 1}}}), "i.."),
        (json!({"podSelector": {"matchLabels": {"app": 1}}, "ingress": [{}]}), "i.."),
        (json!("everything"), "ie."),
        (json!({"podSelector": {}, "policyTypes": ["Everything"], "ingress": [{}], "egress": [{}]}), "ie."),
        (json!({"podSelector": {"matchLabels": {"app": "z"}}, "policyTypes": ["Everything"]}), "..."),
        (json!({"podSelector": {}, "ingress": [{}], "egress": [{}], "exceptFor": {}}), "ie."),
        (allows(json!({"from": [{"serviceAccounts": {}}]})), "i.."),
        (allows(json!({"from": [{"serviceAccounts": {}}, {"namespaceSelector": {}}]})), "..."),
        (allows(json!({"from": [{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Unlike"}]}}]})), "i.."),
        (allows(json!({"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["nonsense"]}}]})), "i.."),
        (allows(json!({"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}, "podSelector": {}}]})), "i.."),
        (allows(json!({"from": [{}]})), "i.."),
        (allows(json!({"when": "night"})), "i.."),
        (allows(json!({"ports": [{"port": 80, "endPort": 70}]})), "i.."),
        (allows(json!({"ports": [{"port": 80, "protocol": "QUIC"}]})), "i.."),
        (allows(json!({"ports": [{"port": 80, "tls": true}]})), "i.."),
        (allows(json!({"ports": [{"port": "80"}]})), "i.."),
        (allows(json!({"ports": {}})), "i.."),
    ];
    for (spec, expected) in table {
        assert_eq!(letters(&mut engine(&[network_policy(&spec)])), expected, "{spec}");
    }
}

#[test]
fn a_cluster_policy_denies_rather_than_opens() {
    let spec = |action: &str, fields: Value| {
        let mut rule = json!({"action": action, "from": [{"namespaces": {}}]});
        fields["rule"].as_object().into_iter().flatten().for_each(|(name, value)| rule[name] = value.clone());
        let subject = json!({"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}});
        let mut spec = json!({"tier": "Admin", "priority": 3, "subject": subject, "ingress": [rule]});
        fields["spec"].as_object().into_iter().flatten().for_each(|(name, value)| spec[name] = value.clone());
        spec
    };
    // The fields of the spec or the rule; verdicts where the rule accepts what a NetworkPolicy closes, where it passes what a later
    // policy denies, where it denies.
    let table = [
        (json!({}), ["...", "...", "i.."]),
        (json!({"spec": {"subject": {"planets": {}}}}), ["i..", "ii.", "ii."]),
        (json!({"spec": {"tier": "Middle"}}), ["i..", "i..", "i.."]),
        (json!({"spec": {"priority": 9999}}), ["i..", "i..", "i.."]),
        (json!({"spec": {"exceptFor": {}}}), ["ie.", "ie.", "ie."]),
        (json!({"spec": {"ingress": "none"}}), ["i..", "i..", "i.."]),
        (json!({"rule": {"action": "Log"}}), ["i..", "i..", "i.."]),
        (json!({"rule": {"when": "night"}}), ["i..", "i..", "i.."]),
        (json!({"rule": {"from": [{"domainNames": ["example.org"]}]}}), ["i..", "i..", "i.."]),
        (json!({"rule": {"from": [{"namespaces": {"matchLabels": []}}]}}), ["i..", "i..", "i.."]),
        (json!({"rule": {"protocols": [{"tcp": {"destinationPort": {"number": 0}}}]}}), ["i..", "i..", "i.."]),
        (json!({"rule": {"protocols": [{"quic": {}}]}}), ["i..", "i..", "i.."]),
        (json!({"rule": {"protocols": [{"udp": {}}]}}), ["i..", "i..", "..."]),
    ];
    let deny_later = spec("Deny", json!({"spec": {"priority": 4}}));
    let mut deny_later = cluster_policy(&deny_later);
    deny_later["metadata"]["name"] = json!("later");
    for (fields, [accepting, passing, denying]) in table {
        let with = |action: &str, other: &[Value]| {
            let policies = [other, &[cluster_policy(&spec(action, fields.clone()))]].concat();
            letters(&mut engine(&policies))
        };
        assert_eq!(with("Accept", &[network_policy(&json!({}))]), accepting, "Accept {fields}");
        assert_eq!(with("Pass", std::slice::from_ref(&deny_later)), passing, "Pass {fields}");
        assert_eq!(with("Deny", &[]), denying, "Deny {fields}");
    }
    assert_eq!(letters(&mut engine(&[cluster_policy(&json!(null))])), "bbi");
}

#[test]
fn what_was_never_understood_can_be_deleted() {
    let policy = network_policy(&json!([1, 2, 3]));
    let mut engine = engine(std::slice::from_ref(&policy));
    assert_eq!(letters(&mut engine), "ie.");
    let id = ObjectId::Policy { kind: PolicyKind::NetworkPolicy, namespace: "x".into(), name: "p".into() };
    assert_eq!(understood(&policy).id(), id);
    engine.apply(Change::Delete(id));
    assert_eq!(letters(&mut engine), "...");
}

#[test]
fn one_bad_object_leaves_the_others() {
    let text = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": 1}}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "x"}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p", "namespace": "x"},
         "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/99"}}]}]}},
        42
    ]}"#;
    let mut said = Vec::new();
    for item in read_text(text) {
        match item {
            Ok(Read::Object { object, remarks }) => {
                said.push(object.id().to_string());
                said.extend(remarks.iter().map(ToString::to_string));
            }
            Ok(Read::Skipped { kind, namespace, name }) => said.push(format!("{kind} {namespace}/{name} skipped")),
            Err(error) => said.push(error.to_string()),
        }
    }
    assert_eq!(
        said,
        [
            "Namespace x",
            "Pod default/a: `metadata.labels.app`: expected labels: texts by name, found 1; until that is corrected the object is not known",
            "Deployment x/d skipped",
            "NetworkPolicy x/p",
            "NetworkPolicy x/p: `spec.ingress[0].from[1].ipBlock.cidr`: expected a CIDR block, such as `10.0.0.0/8` or `fd00::/8`, \
         found `10.0.0.0/99`; the peer matches nobody",
            "an object: `items[4]`: expected an object with `apiVersion`, `kind` and `metadata`, found 42",
        ]
    );
}

#[test]
fn absurd_objects_are_read_in_bounds() {
    let nested = |inner: Value| Value::Object([("matchLabels".to_owned(), inner)].into_iter().collect());
    let deep = (0..2_000).fold(Value::Null, |inner, _| nested(inner));
    let wide = Value::Array(vec![json!({"planets": {}}); 100_000]);
    let long = Value::String("x".repeat(1_000_000));
    let specs = [
        ("podSelector", deep, 0),
        ("ingress", Value::Array(vec![Value::Object([("from".to_owned(), wide)].into_iter().collect())]), 1),
        ("ingress", json!([{"from": [{"ipBlock": {"cidr": long, "except": []}}], "ports": [{"port": {}}]}]), 1),
    ];
    for (field, content, rules) in specs {
        let mut value = network_policy(&json!({}));
        value["spec"][field] = content;
        match read(&value).pop() {
            Some(Ok(Read::Object { object: Object::Policy(policy), remarks })) => {
                assert_eq!(policy.ingress.map(|rules| rules.len()), Some(rules));
                let said: usize = remarks.iter().map(|remark| remark.to_string().len()).sum();
                assert!((1..=32).contains(&remarks.len()) && said < 20_000, "{} remarks of {said} bytes", remarks.len());
            }
            other => panic!("{other:?}"),
        }
    }
}
