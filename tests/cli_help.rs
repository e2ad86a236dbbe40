//! Help, version and usage of the real binary, by snapshot.

mod cli_support;

use cli_support::felt;

macro_rules! help_is {
    ($name:ident, $line:literal) => {
        #[test]
        fn $name() {
            let ran = felt($line);
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", $line);
            insta::assert_snapshot!(stringify!($name), ran.stdout);
        }
    };
}

help_is!(help, "--help");
help_is!(help_run, "run --help");
help_is!(help_run_short, "run -h");
help_is!(help_serve, "serve -help");
help_is!(help_config, "config --help");
help_is!(help_config_get, "config get --help");
help_is!(help_config_set, "config set --help");
help_is!(help_config_check, "config check --help");
help_is!(help_lease, "lease --help");
help_is!(help_lease_list, "lease list --help");
help_is!(help_lease_watch, "lease watch --help");
help_is!(help_lease_reserve, "lease reserve --help");
help_is!(help_lease_unreserve, "lease unreserve --help");
help_is!(help_lease_revoke, "lease revoke --help");
help_is!(help_policy, "policy --help");
help_is!(help_policy_apply, "policy apply --help");
help_is!(help_policy_delete, "policy delete --help");
help_is!(help_policy_list, "policy list --help");
help_is!(help_cleanup, "cleanup --help");
help_is!(help_docker_opts, "docker-opts --help");
help_is!(help_lab, "lab --help");
help_is!(help_lab_up, "lab up --help");
help_is!(help_lab_exec, "lab exec --help");
help_is!(help_lab_status, "lab status --help");
help_is!(help_lab_down, "lab down --help");
help_is!(help_lab_demo, "lab demo --help");
help_is!(help_policy_matrix, "policy matrix --help");
help_is!(help_policy_explain, "policy explain --help");
help_is!(help_policy_check, "policy check --help");
help_is!(help_bench, "bench --help");

#[test]
fn every_spelling_of_version_gives_one_line_on_stdout() {
    for line in ["--version", "-V", "version", "run -version", "run --version", "run --version=true"] {
        let ran = felt(line);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{line}");
        assert_eq!(ran.stdout, format!("felt {}\n", env!("CARGO_PKG_VERSION")), "{line}");
    }
}

#[test]
fn nothing_typed_is_a_usage_error_with_the_whole_help() {
    let ran = felt("");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert_eq!(ran.stderr, felt("--help").stdout);
}

#[test]
fn what_felt_does_not_know_is_a_usage_error() {
    for (line, part) in [
        ("frobnicate", "unrecognized subcommand 'frobnicate'"),
        ("run -frobnicate", "unexpected argument '--frobnicate'"),
        ("run --frobnicate=x -iface a", "unexpected argument '--frobnicate'"),
        ("run ---iface", "unexpected argument"),
        ("run -=x", "unexpected argument"),
        ("run stray", "unexpected argument 'stray'"),
        ("run -- stray", "unexpected argument 'stray'"),
        ("run -keep-device false", "unexpected argument 'false'"),
        ("run -iface", "a value is required"),
        ("serve -iface eth0", "unexpected argument '--iface'"),
        ("serve", "--listen"),
        ("config", "Usage: felt config"),
        ("config set", "<FILE>"),
        ("lease", "Usage: felt lease"),
        ("lease revoke 10.5.1.7/24", "such as 10.5.1.0/24"),
        ("lease reserve 10.5.1.0/24", "<PUBLIC_IP>"),
        ("policy", "Usage: felt policy"),
        ("policy apply", "--file"),
        ("policy delete networkpolicy", "<NAME>"),
        ("policy delete networkpolicy a -f x", "cannot be used with"),
        ("run -policy-scope pod", "possible values"),
        ("run -policy-flows 7", "from 1024 to 16777216"),
        ("run -log-level loud", "possible values"),
        ("lab", "Usage: felt lab"),
        ("lab up -n 0", "'0'"),
        ("lab exec node1 ls", "unexpected argument 'ls'"),
    ] {
        let ran = felt(line);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{line}: {ran:?}");
        let shows_the_way = ran.stderr.contains("Usage: felt") || ran.stderr.contains("try '--help'");
        assert!(ran.stderr.contains(part) && shows_the_way, "{line}: {}", ran.stderr);
    }
}
