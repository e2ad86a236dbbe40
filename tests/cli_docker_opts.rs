//! `felt docker-opts`: flannel's `mk-docker-opts.sh`, byte for byte.

mod cli_support;

use std::fs;
use std::path::Path;

use cli_support::{Ran, felt};

const SUBNET_ENV: &str = "FLANNEL_NETWORK=10.1.0.0/16\nFLANNEL_SUBNET=10.1.74.1/24\nFLANNEL_MTU=1472\nFLANNEL_IPMASQ=false\n";

/// Runs it on this subnet file; what it wrote.
fn docker_opts(folder: &Path, subnet_env: &str, flags: &str) -> (Ran, Option<String>) {
    let (from, to) = (folder.join("subnet.env"), folder.join("docker.env"));
    fs::write(&from, subnet_env).unwrap();
    let ran = felt(&format!("docker-opts -f {} -d {} {flags}", from.display(), to.display()));
    (ran, fs::read_to_string(to).ok())
}

#[test]
fn the_output_is_that_of_the_script() {
    let bip = "DOCKER_OPT_BIP=\"--bip=10.1.74.1/24\"\n";
    let masq = "DOCKER_OPT_IPMASQ=\"--ip-masq=true\"\n";
    let mtu = "DOCKER_OPT_MTU=\"--mtu=1472\"\n";
    let all = "\" --bip=10.1.74.1/24 --ip-masq=true --mtu=1472\"\n";
    for (flags, expected) in [
        ("", format!("{bip}{masq}{mtu}DOCKER_OPTS={all}")),
        ("-i", format!("{bip}{masq}{mtu}")),
        ("-c", format!("DOCKER_OPTS={all}")),
        ("-k CUSTOM_KEY", format!("{bip}{masq}{mtu}CUSTOM_KEY={all}")),
        ("-m", format!("{bip}{mtu}DOCKER_OPTS=\" --bip=10.1.74.1/24 --mtu=1472\"\n")),
        ("-ic", format!("{bip}{masq}{mtu}DOCKER_OPTS={all}")),
        ("-cmkX", "X=\" --bip=10.1.74.1/24 --mtu=1472\"\n".to_owned()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (ran, written) = docker_opts(folder.path(), SUBNET_ENV, flags);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""), "{flags}");
        assert_eq!(written.as_deref(), Some(expected.as_str()), "{flags}");
    }
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    docker_opts(folder.path(), SUBNET_ENV, "").1.unwrap();
    let before = fs::read(folder.path().join("docker.env")).unwrap();
    let (ran, _) = docker_opts(folder.path(), &SUBNET_ENV.replace("false", "maybe"), "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("FLANNEL_IPMASQ: expected `true` or `false`, found `maybe`"), "{}", ran.stderr);
    assert_eq!(fs::read(folder.path().join("docker.env")).unwrap(), before);

    let ran = felt("docker-opts -f /nonexistent/subnet.env");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("/nonexistent/subnet.env") && ran.stderr.contains("felt run"), "{}", ran.stderr);
    let ran = felt("docker-opts -k a=b");
    assert!(ran.code == Some(2) && ran.stderr.contains("letters, digits"), "{}", ran.stderr);
}

#[test]
fn it_can_be_written_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("subnet.env");
    fs::write(&file, SUBNET_ENV).unwrap();
    let ran = felt(&format!("docker-opts -c -f {} -d /dev/stdout", file.display()));
    assert_eq!(ran.stdout, "DOCKER_OPTS=\" --bip=10.1.74.1/24 --ip-masq=true --mtu=1472\"\n", "{}", ran.stderr);
}
