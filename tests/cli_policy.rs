//! `felt policy apply|delete|list` of the real binary, on the embedded store.

mod cli_support;

use std::fs;

use cli_support::{Ran, Running, felt, felt_with};
use tempfile::TempDir;

const POLICIES: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: web}
spec: {podSelector: {}, policyTypes: [Ingress]}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: web}}
- {apiVersion: policy.networking.k8s.io/v1alpha1, kind: BaselineAdminNetworkPolicy, metadata: {name: default},
   spec: {subject: {namespaces: {}}}}
";

struct Stand {
    directory: TempDir,
    store: String,
}

impl Stand {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("registry.redb").display().to_string();
        Self { directory, store }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let file = self.directory.path().join(name);
        fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    fn felt(&self, line: &str, input: &str) -> Ran {
        felt_with(&format!("policy {line}"), &[("FELT_STORE", &self.store)], input)
    }

    /// The same, going well and without a warning.
    fn well(&self, line: &str, input: &str) -> String {
        let ran = self.felt(line, input);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{line}: {ran:?}");
        ran.stdout
    }
}

#[test]
fn what_is_applied_is_listed_and_can_be_deleted() {
    let stand = Stand::new();
    let created = "networkpolicy/web/deny created\nnamespace/web created\nbaselineadminnetworkpolicy/default created\n";
    assert_eq!(stand.well("apply -f -", POLICIES), created);
    assert_eq!(stand.well("apply -f -", POLICIES), created.replace("created", "unchanged"));
    let file = stand.write("p.yaml", &POLICIES.replace("[Ingress]", "[Ingress, Egress]"));
    let configured = stand.well(&format!("apply --file {file}"), "");
    assert!(configured.starts_with("networkpolicy/web/deny configured\nnamespace/web unchanged\n"), "{configured}");
    insta::assert_snapshot!("policy_list", stand.well("list", ""));

    // What is listed as JSON can be applied again, to another store for one.
    let listed = stand.well("list --json", "");
    let other = Stand::new();
    assert_eq!(other.well("apply -f -", &listed).matches(" created").count(), 3);
    assert_eq!(other.well("list --json", ""), listed);

    assert_eq!(stand.well("delete netpol deny -n web", ""), "networkpolicy/web/deny deleted\n");
    let ran = stand.felt(&format!("delete -f {file}"), "");
    assert_eq!(ran.code, Some(5), "{ran:?}");
    let deleted = "networkpolicy/web/deny not found\nnamespace/web deleted\nbaselineadminnetworkpolicy/default deleted\n";
    assert_eq!(ran.stdout, deleted);
    assert!(ran.stderr.contains("1 of 3 objects were not there"), "{ran:?}");
    assert_eq!(stand.well("list --json", ""), "{\"apiVersion\":\"v1\",\"items\":[],\"kind\":\"List\"}\n");
}

#[test]
fn one_bad_object_and_nothing_is_written() {
    let stand = Stand::new();
    for (bad, part) in [
        ("kind: Namespace\napiVersion: v1\nmetadata: {}\n", "`metadata.name`"),
        ("kind: Namespace\napiVersion: v1\nmetadata: {name: a, labels: [b]}\n", "Namespace a: `metadata.labels`"),
        ("kind: [\n", "unclosed"),
        ("kind: Namespace\napiVersion: v1\nmetadata: {name: a/b}\n", "expected a name of"),
    ] {
        let file = stand.write("bad.yaml", &format!("{POLICIES}---\n{bad}"));
        let ran = stand.felt(&format!("apply -f {file}"), "");
        assert!(ran.code == Some(5) || (ran.code == Some(2) && bad.contains("a/b")), "{ran:?}");
        assert!(ran.stdout.is_empty() && ran.stderr.contains(part), "{bad}: {ran:?}");
        assert!(ran.stderr.contains("bad.yaml") || bad.contains("a/b"), "{ran:?}");
        assert!(!fs::exists(&stand.store).unwrap(), "{bad}");
    }
    let ran = stand.felt("apply -f /nonexistent.yaml", "");
    assert!(ran.code == Some(2) && ran.stderr.contains("/nonexistent.yaml"), "{ran:?}");
}

#[test]
fn what_fails_closed_is_warned_of_and_what_is_of_no_use_is_left_out() {
    let stand = Stand::new();
    let policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: odd}\n\
                  spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: nowhere}}]}]}\n";
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n";
    let ran = stand.felt("apply -f -", &format!("{policy}{service}{}", service.replace("---", "---\n---")));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "networkpolicy/default/odd created\n"), "{ran:?}");
    let warnings: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].starts_with("warning: standard input, line 1: NetworkPolicy default/odd: `spec.ingress[0].from[0]"));
    assert_eq!(warnings[1], "warning: standard input, line 6: Service s is of no use to policy and is left out");
    let ran = stand.felt("apply -f -", service);
    assert!(ran.code == Some(5) && ran.stderr.contains("no policy object"), "{ran:?}");
}

#[test]
fn folders_are_read_in_order_and_the_later_one_counts() {
    let stand = Stand::new();
    let folder = stand.directory.path().join("policies");
    fs::create_dir(&folder).unwrap();
    let namespace = |label: &str| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: a, labels: {{is: {label}}}}}\n");
    for (name, label) in [("1.yaml", "one"), ("2.yml", "two"), (".hidden.yaml", "hidden"), ("3.yaml~", "old")] {
        fs::write(folder.join(name), namespace(label)).unwrap();
    }
    let ran = stand.felt(&format!("apply -f {}", folder.display()), "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "namespace/a created\n"), "{ran:?}");
    assert!(ran.stderr.contains("2.yml, line 1: Namespace a is given twice"), "{ran:?}");
    assert!(stand.well("list --json", "").contains("\"is\":\"two\""));
}

#[test]
fn a_running_server_takes_what_is_applied_and_keeps_it() {
    let stand = Stand::new();
    let server = Running::serve(&format!("--store {}", stand.store));
    let at = server.address().to_owned();
    let remote = |line: &str, input: &str| felt_with(&format!("policy {line} --remote {at}"), &[], input);
    let ran = remote("apply -f -", POLICIES);
    assert_eq!((ran.code, ran.stdout.matches(" created").count()), (Some(0), 3), "{ran:?}");
    assert_eq!(remote("apply -f -", POLICIES).stdout.matches(" unchanged").count(), 3);
    let ran = remote("delete namespace web", "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "namespace/web deleted\n"), "{ran:?}");
    let listed = remote("list --json", "").stdout;
    server.end();
    assert_eq!(stand.well("list --json", ""), listed);
    assert_eq!(listed.matches(r#""kind":"Namespace""#).count(), 0);
    assert_eq!(remote("list", "").code, Some(3), "it is gone");
}

#[test]
fn registries_that_cannot_be_used_are_named() {
    let stand = Stand::new();
    let ran = felt("policy list --store /nonexistent/registry.redb");
    assert!(ran.code == Some(2) && ran.stderr.contains("no registry store at"), "{ran:?}");
    let ran = felt("policy list --etcd-endpoints http://127.0.0.1:1");
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let ran = felt_with("policy delete secret a", &[("FELT_STORE", &stand.store)], "");
    assert!(ran.code == Some(2) && ran.stderr.contains("found `secret`"), "{ran:?}");
}
