//! `felt lab` of the real binary: a network made, looked at, used and taken down. Needs root.

mod cli_support;

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
fn a_network_that_is_not_there_is_told() {
    let lab = Name::new("cli-absent");
    for (verb, rest) in [("status", ""), ("exec", "node1 -- true")] {
        let ran = lab.run(verb, rest);
        assert!(ran.code == Some(1) && ran.stderr.contains("there is no lab"), "{ran:?}");
    }
    for line in ["lab up --name Upper", "lab exec nowhere -- true", "lab up --nodes 251", "lab exec node1 --"] {
        assert_eq!(felt(line).code, Some(2), "{line}");
    }
}
