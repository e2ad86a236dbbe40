//! `felt config check` of the real binary.

mod cli_support;

use cli_support::{felt, felt_with};

const GOOD: &str = r#"{"Network":"10.5.0.0/16","Backend":{"Type":"udp","Port":9555}}"#;

#[test]
fn a_good_config_is_explained() {
    let ran = felt_with("config check -", &[], GOOD);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!("config_check", ran.stdout);
    let ran = felt_with("config check --json -", &[], GOOD);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!("config_check_json", ran.stdout);
}

#[test]
fn a_config_may_come_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("net.json");
    std::fs::write(&file, GOOD).unwrap();
    let ran = felt(&format!("config check {}", file.display()));
    assert_eq!((ran.code, ran.stdout), (Some(0), felt_with("config check -", &[], GOOD).stdout));
}

#[test]
fn a_config_that_makes_no_network_is_answered_no() {
    for (text, part) in [
        ("", "standard input"),
        ("{", "standard input"),
        (r#"{"SubnetLen":24}"#, "`Network` is missing"),
        (r#"{"Network":"10.5.0.0/16","SubnetLen":31}"#, "SubnetLen"),
        (r#"{"Network":"10.5.0.0/16","Backend":{"Type":"carrier-pigeon"}}"#, "carrier-pigeon"),
    ] {
        let ran = felt_with("config check -", &[], text);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""), "{text}: {ran:?}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(part), "{text}: {}", ran.stderr);
    }
}

#[test]
fn a_sound_config_that_felt_cannot_carry_is_explained_and_answered_no() {
    let ran = felt_with("config check -", &[], r#"{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}"#);
    assert_eq!(ran.code, Some(5));
    assert!(ran.stdout.contains("backend     vxlan") && ran.stderr.contains("`vxlan`"), "{ran:?}");
}

#[test]
fn a_dual_stack_network_is_explained_and_answered_no() {
    let config = r#"{"Network":"10.3.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48"}"#;
    let ran = felt_with("config check -", &[], config);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stdout.contains("fd00:5::/48") && ran.stderr.contains("EnableIPv6"), "{ran:?}");
    let ran = felt_with("config check -", &[], &config.replace("true", "false"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_a_usage_error() {
    let ran = felt("config check /nonexistent/net.json");
    assert!(ran.code == Some(2) && ran.stderr.contains("/nonexistent/net.json"), "{ran:?}");
}

#[test]
fn a_bad_config_is_never_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("registry.redb");
    let ran = felt_with(&format!("config set - --store {}", store.display()), &[], r#"{"Network":"10.5.0.0/31"}"#);
    assert!(ran.code == Some(5) && ran.stderr.contains("Network"), "{ran:?}");
    assert!(!store.exists());
}
