//! Flags and variables of `felt run` and `felt serve` as the real binary takes or refuses them.
//!
//! Taken values are seen by the error of a later one: nothing here starts a node.

mod cli_support;

use cli_support::{felt, felt_with};

/// Every flag of flannel's that Felt does not act on: values that are refused, values that are taken.
const FOREIGN: &[(&str, &[&str], &[&str])] = &[
    ("public-ipv6", &["fd00::1"], &[""]),
    ("subnet-dir", &["/tmp"], &["/run/flannel/networks", ""]),
    ("networks", &["blue,green"], &[""]),
    ("watch-networks", &["true", "1"], &["false", "F"]),
    ("listen", &["0.0.0.0:8889"], &[""]),
    ("vmodule", &["udp=2"], &[""]),
    ("log_backtrace_at", &["main.go:10"], &[":0", ""]),
    ("log_dir", &["/var/log"], &[""]),
    ("logtostderr", &["false"], &["true"]),
    ("alsologtostderr", &[], &["true", "false"]),
    ("stderrthreshold", &["WARNING", "3"], &["ERROR", "2", "INFO", "0"]),
];

/// A flag that is refused after all of flannel's foreign flags have been looked at, so that no node starts.
const LAST: (&str, &str) = ("-iface-regex=(", "error: --iface-regex `(`: ");

/// Flags that take their value after `=` only.
const BOOLEAN: [&str; 7] = [
    "version",
    "ip-masq",
    "ip-masq-fully-random-disable",
    "iptables-forward-rules",
    "ip-blackhole-route",
    "kube-subnet-mgr",
    "set-node-network-unavailable",
];

fn variable(flag: &str) -> String {
    format!("FLANNELD_{}", flag.to_ascii_uppercase().replace('-', "_"))
}

#[test]
fn foreign_flags_are_refused_by_name() {
    for (flag, refused, _) in FOREIGN {
        for value in *refused {
            let ran = felt(&format!("run -{flag}={value} {}", LAST.0));
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{flag}={value}");
            assert!(ran.stderr.contains(&format!("error: --{flag}=")), "{flag}={value}: {}", ran.stderr);
            assert!(ran.stderr.contains("cannot be done: "), "{flag}={value}: {}", ran.stderr);

            let ran = felt_with(&format!("run {}", LAST.0), &[(&variable(flag), value)], "");
            assert_eq!(ran.code, Some(2), "{flag}={value}");
            assert!(ran.stderr.contains(&format!("error: {}=", variable(flag))), "{flag}={value}: {}", ran.stderr);
        }
    }
}

#[test]
fn foreign_flags_are_taken_where_felt_does_just_that() {
    for (flag, _, taken) in FOREIGN {
        for value in *taken {
            let ran = felt(&format!("run -{flag}={value} {}", LAST.0));
            assert!(ran.code == Some(2) && ran.stderr.contains(LAST.1), "{flag}={value}: {}", ran.stderr);
            let ran = felt_with(&format!("run {}", LAST.0), &[(&variable(flag), value)], "");
            assert!(ran.code == Some(2) && ran.stderr.contains(LAST.1), "{flag}={value}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_bare_foreign_boolean_is_true() {
    let ran = felt("run -watch-networks");
    assert!(ran.code == Some(2) && ran.stderr.contains("--watch-networks=true cannot be done"), "{}", ran.stderr);
    let ran = felt(&format!("run -logtostderr {}", LAST.0));
    assert!(ran.stderr.contains(LAST.1), "{}", ran.stderr);
}

#[test]
fn listen_leads_to_felt_serve() {
    assert!(felt("run --listen :8889").stderr.contains("felt serve --listen"));
}

#[test]
fn every_flag_of_flannel_is_known() {
    let flags = [
        "etcd-endpoints=http://e:1",
        "etcd-prefix=/p",
        "etcd-keyfile=",
        "etcd-certfile=",
        "etcd-cafile=ca.pem",
        "public-ip=10.0.0.1",
        "iface=eth0",
        "iface=eth1",
        "iface-regex=^eth",
        "iface-can-reach=10.0.0.1",
        "subnet-file=/tmp/subnet.env",
        "subnet-lease-renew-margin=0x3c",
        "healthz-ip=127.0.0.1",
        "healthz-port=0o17",
        "remote=h:1",
        "kube-subnet-mgr=0",
        "kube-api-url=",
        "kubeconfig-file=",
        "kube-annotation-prefix=example.org",
        "net-config-path=/etc/net.json",
        "set-node-network-unavailable=false",
        "remote-keyfile=",
        "remote-certfile=",
        "remote-cafile=ca.pem",
        "ip-masq=1",
        "ip-masq-fully-random-disable=F",
        "iptables-resync=0x3c",
        "iptables-forward-rules=t",
        "ip-blackhole-route=true",
        "v=1_0",
        "version=f",
    ];
    for (dash, join) in [("-", "="), ("--", "="), ("-", " "), ("--", " ")] {
        for flag in flags
            .iter()
            .filter(|flag| join == "=" || !(BOOLEAN.contains(&flag.split('=').next().unwrap()) || flag.ends_with('=')))
        {
            let line = format!("run {dash}{} {}", flag.replacen('=', join, 1), LAST.0);
            let ran = felt(&line);
            assert!(ran.code == Some(2) && ran.stderr.contains(LAST.1), "{line}: {}", ran.stderr);
        }
    }
}

#[test]
fn bad_values_are_named_with_their_flag_or_variable() {
    for (flag, value, reason) in [
        ("public-ip", "10.0.0.256", "IPv4"),
        ("iface-can-reach", "gateway", "IPv4"),
        ("subnet-lease-renew-margin", "0", "from 1 to 1439"),
        ("subnet-lease-renew-margin", "1440", "from 1 to 1439"),
        ("healthz-ip", "localhost", "IP address"),
        ("healthz-port", "65536", "from 0 to 65535"),
        ("healthz-port", "08", "whole number"),
        ("v", "-1", "from 0"),
        ("ip-masq", "yes", "true or false"),
        ("kube-annotation-prefix", "org/prefix", "a lower-case domain"),
        ("kube-subnet-mgr", "yes", "true or false"),
        ("iptables-resync", "0", "from 1 to 86400"),
        ("iptables-forward-rules", "2", "true or false"),
    ] {
        let ran = felt(&format!("run -{flag}={value}"));
        assert_eq!(ran.code, Some(2), "{flag}={value}");
        let named = ran.stderr.contains(&format!("'{value}' for '--{flag}"));
        assert!(named && ran.stderr.contains(reason), "{flag}={value}: {}", ran.stderr);

        let ran = felt_with("run", &[(&variable(flag), value)], "");
        assert_eq!(ran.code, Some(2), "{flag}={value}");
        let named = ran.stderr.contains(&format!("'{value}' for the environment variable {}", variable(flag)));
        assert!(named && ran.stderr.contains(reason), "{flag}={value}: {}", ran.stderr);
    }
}

#[test]
fn the_log_variable_is_checked_too() {
    let ran = felt_with("version", &[("FELT_LOG", "felt=loud")], "");
    assert!(ran.code == Some(2) && ran.stderr.contains("FELT_LOG"), "{ran:?}");
}
