//! Flags that ask for what this host cannot do: told before anything is touched, each reason in its own words.

use std::path::Path;
use std::process::Command;

use felt::lab::{EphemeralLab, LabPlan};

use crate::ground::{Host, PROGRAMS, ruleset};
use crate::support::{Daemon, PATIENCE, netlink, node};

const NO_NF_TABLES: &str = "echo 'netlink: Error: cache initialization failed: Protocol not supported' >&2; exit 1";
const NO_TABLE: &str = "echo \"iptables: can't initialize iptables table nat: Table does not exist\" >&2; exit 3";

/// What is missing, what is asked for; the exit code, and what is said.
type Case<'a> = (Host, &'a str, &'a str, i32, &'a [&'a str]);

/// Runs a daemon that ends by itself, and looks that it left no trace.
fn refused(lab: &EphemeralLab, host: &Host, wrapper: &[&str], flag: &str) -> (Option<i32>, String) {
    let netns = node(lab, 1);
    let directory = tempfile::tempdir().unwrap();
    let mut words = Daemon::run_words(lab, &netns, directory.path());
    words.push(flag.to_owned());
    let mut command = match wrapper {
        [] => Command::new(host.felt()),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(host.felt());
            command
        }
    };
    command.args(words);
    let mut daemon = Daemon::start(lab, &netns, command);
    let code = daemon.ended(PATIENCE).code();
    assert!(!Path::new(&directory.path().join("subnet.env")).exists());
    assert!(netlink(&netns).find_link("flannel0").unwrap().is_none());
    assert_eq!(ruleset(&netns), "");
    let log = daemon.log();
    assert!(!log.contains("lease acquired") && !log.contains("starting"), "{log}");
    (code, log)
}

#[test]
fn each_reason_is_told_before_anything_is_touched() {
    let lab = crate::support::up(LabPlan { pods_per_node: 0, ..crate::support::plan("norules", 1) });
    lab.node(1).unwrap().stop().unwrap();
    std::fs::remove_file(lab.node(1).unwrap().subnet_file()).unwrap();
    let unprivileged = "--inh-caps=-net_admin --bounding-set=-net_admin";
    let no_kernel = || Host::with(&[]).and("nft", NO_NF_TABLES).and("iptables", NO_TABLE).and("iptables-restore", NO_TABLE);
    let cases: [Case<'_>; 6] = [
        (Host::with(&[]), "", "--ip-masq", 1, &["neither `nft` nor `iptables` is found in PATH", "nftables"]),
        (no_kernel(), "", "--ip-masq", 1, &["Protocol not supported", "Table does not exist", "CONFIG_NF_TABLES"]),
        (Host::with(&PROGRAMS), unprivileged, "--ip-masq", 4, &["not permitted", "--cap-add NET_ADMIN"]),
        (Host::with(&[]), "", "--iptables-forward-rules", 1, &["`iptables-legacy` is not installed", "leave the flag out"]),
        (Host::with(&["nft"]), "", "--iptables-forward-rules=true", 1, &["install iptables"]),
        (Host::with(&PROGRAMS), unprivileged, "--iptables-forward-rules", 4, &["ermission denied"]),
    ];
    for (host, privileges, flag, code, parts) in cases {
        let setpriv: Vec<&str> = ["setpriv"].into_iter().chain(privileges.split(' ')).collect();
        let wrapper = if privileges.is_empty() { &[][..] } else { &setpriv };
        let (found, log) = refused(&lab, &host, wrapper, flag);
        assert_eq!(found, Some(code), "{log}");
        let error = log.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{log}"));
        assert!(parts.iter().all(|part| error.contains(part)), "{parts:?} in {error}");
        assert!(error.contains(&format!("{} cannot be done here", flag.trim_end_matches("=true"))), "{error}");
    }
}
