//! `felt lab` of the real binary: a network made, looked at, used and taken down. Needs root.

mod cli_support;

use std::fs;

use cli_support::{felt, felt_with};

/// The environment a lab needs: where its programs are.
const PATH: (&str, &str) = ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");

/// A name of our own; what bears it is taken down at the end, come what may.
struct Name(String);

impl Name {
    fn new(test: &str) -> Self {
        Self(format!("t{}-{test}", std::process::id()))
    }

    fn run(&self, verb: &str, rest: &str) -> cli_support::Ran {
        felt_with(&format!("lab {verb} --name {} {rest}", self.0), &[PATH], "")
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        self.run("down", "");
    }
}

#[test]
fn a_network_is_made_used_and_taken_down() {
    let lab = Name::new("cli");
    let ran = lab.run("up", "-n 2 --pods 1");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("node2-pod1") && ran.stdout.matches("ready").count() == 2, "{}", ran.stdout);

    let ran = lab.run("status", "--json");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let status: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(status["complete"], true);
    let address = status["nodes"][1]["pods"][0]["address"].as_str().unwrap();

    let ran = lab.run("exec", &format!("n1p1 -- ping -c 1 -W 5 {address}"));
    assert!(ran.code == Some(0) && ran.stdout.contains("1 received"), "{ran:?}");
    assert_eq!(lab.run("exec", "node2 -- /bin/false").code, Some(1));

    let ran = lab.run("up", "");
    assert!(ran.code == Some(1) && ran.stderr.contains("exists already"), "{ran:?}");
    assert_eq!(lab.run("exec", "node3 -- true").code, Some(2));

    let ran = lab.run("down", "");
    assert!(ran.code == Some(0) && ran.stdout.contains("is gone"), "{ran:?}");
    let ran = lab.run("down", "");
    assert!(ran.code == Some(0) && ran.stdout.contains("there was no lab"), "{ran:?}");
}

#[test]
fn policies_of_a_folder_are_enforced_and_followed() {
    const DENY: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: deny, namespace: lab}\n\
                        spec: {podSelector: {matchLabels: {app: node2-pod1}}, policyTypes: [Ingress]}\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deny.yaml");
    fs::write(&file, DENY).unwrap();
    let lab = Name::new("cli-policy");
    let ran = lab.run("up", &format!("-n 2 --pods 1 --policy-dir {}", folder.path().display()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = format!("policy (overlay): /run/felt/lab/{}/policy, {}", lab.0, folder.path().display());
    assert!(ran.stdout.contains(&told), "{told}: {}", ran.stdout);

    let status: serde_json::Value = serde_json::from_str(&lab.run("status", "--json").stdout).unwrap();
    assert_eq!(status["policy"]["scope"], "overlay");
    assert_eq!(status["policy"]["dirs"][1], folder.path().to_str().unwrap());
    let pings = |from: &str, to: usize| {
        let address = status["nodes"][to]["pods"][0]["address"].as_str().unwrap();
        lab.run("exec", &format!("{from} -- ping -c 1 -W 1 {address}")).code == Some(0)
    };
    // A pod is closed until it is known; so the one without a policy tells when they are.
    assert!((0..20).any(|_| pings("n2p1", 0)), "no policy closes node1-pod1");
    assert!(!pings("n1p1", 1), "a policy closes node2-pod1");
    fs::remove_file(file).unwrap();
    assert!((0..20).any(|_| pings("n1p1", 1)), "no policy closes node2-pod1 any more");
}

#[test]
fn a_network_that_is_not_there_is_told() {
    let lab = Name::new("cli-absent");
    for (verb, rest) in [("status", ""), ("exec", "node1 -- true")] {
        let ran = lab.run(verb, rest);
        assert!(ran.code == Some(1) && ran.stderr.contains("there is no lab"), "{ran:?}");
    }
    let ran = felt("lab up --policy-dir /nowhere/at/all");
    assert!(ran.code == Some(2) && ran.stderr.contains("/nowhere/at/all, found nothing"), "{ran:?}");
    for line in ["lab up --policy-scope node", "lab up --policy-dir / --policy-scope pod"] {
        assert_eq!(felt(line).code, Some(2), "{line}");
    }
    for line in ["lab up --name Upper", "lab exec nowhere -- true", "lab up --nodes 251", "lab exec node1 --"] {
        assert_eq!(felt(line).code, Some(2), "{line}");
    }
}
