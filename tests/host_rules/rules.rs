//! Exactly which rules there are, that they stay, and that they follow the subnet.

use std::fs;
use std::time::Duration;

use felt::lab::{Interrupt, LabPlan, Node};
use felt::sys::netfilter;

use crate::ground::{Host, PROGRAMS, inside, names, ruleset};
use crate::support::{PATIENCE, eventually, lines, node};

const BEFORE: &str = r#"{"Network":"10.99.0.0/16","SubnetMin":"10.99.50.0","SubnetMax":"10.99.60.0","Backend":{"Type":"udp"}}"#;
const AFTER: &str = r#"{"Network":"10.98.0.0/16","SubnetMin":"10.98.100.0","SubnetMax":"10.98.120.0","Backend":{"Type":"udp"}}"#;

/// The rules of flannel, as nft lists them.
fn expected(node: Node<'_>) -> String {
    let env = node.subnet().unwrap().unwrap();
    let (network, subnet, table) = (env.network, env.subnet, names(node).table);
    format!(
        "table ip {table} {{\n\
         \tchain postrouting {{\n\
         \t\ttype nat hook postrouting priority srcnat + 1; policy accept;\n\
         \t\tmeta mark & 0x00004000 == 0x00004000 return\n\
         \t\tip saddr {subnet} ip daddr {network} return\n\
         \t\tip saddr {network} ip daddr {subnet} return\n\
         \t\tip saddr != {network} ip daddr {subnet} return\n\
         \t\tip saddr {network} ip daddr != 224.0.0.0/4 masquerade fully-random\n\
         \t\tip saddr != {network} ip daddr {network} masquerade fully-random\n\
         \t}}\n\
         }}\n"
    )
}

fn said(node: Node<'_>, what: &str) -> usize {
    lines(&node.log()).iter().filter(|line| line.contains(what)).count()
}

#[test]
fn the_rules_are_exactly_flannel_s_and_come_back_when_they_are_wiped() {
    let host = Host::with(&["nft"]);
    let lab = host.lab("wiped", 1, &["--ip-masq", "--iptables-resync=1"]);
    let (netns, first) = (node(&lab, 1), lab.node(1).unwrap());
    let (wanted, table) = (expected(first), names(first).table);
    assert_eq!(ruleset(&netns), wanted, "there before the node is ready");
    assert!(fs::read_to_string(first.subnet_file()).unwrap().ends_with("FLANNEL_IPMASQ=true\n"));
    let wipes = [
        format!("nft delete table ip {table}"),
        format!("nft flush table ip {table}"),
        format!("nft flush chain ip {table} postrouting"),
        format!("nft insert rule ip {table} postrouting accept"),
        format!("nft add chain ip {table} other"),
    ];
    for wipe in &wipes {
        inside(&netns, wipe).unwrap();
        assert_ne!(ruleset(&netns), wanted, "{wipe}");
        eventually(wipe, PATIENCE, || (ruleset(&netns) == wanted).then_some(()));
    }
    // The log folds what is repeated.
    eventually("told", PATIENCE, || (said(first, "had been changed: they are restored") == 1).then_some(()));
    // Rules of others are none of ours.
    inside(&netns, "nft add table ip others").unwrap();
    inside(&netns, &format!("nft delete table ip {table}")).unwrap();
    eventually("restored", PATIENCE, || ruleset(&netns).contains(wanted.as_str()).then_some(()));
    assert!(ruleset(&netns).contains("table ip others"));
}

#[test]
fn rules_that_are_as_they_should_be_are_left_alone() {
    let host = Host::with(&["nft"]);
    let lab = host.lab("alone", 1, &["--ip-masq", "--iptables-resync=1"]);
    let (netns, first) = (node(&lab, 1), lab.node(1).unwrap());
    let table = names(first).table;
    let handles = || inside(&netns, &format!("nft -a list table ip {table}")).unwrap();
    let before = handles();
    std::thread::sleep(Duration::from_millis(3500));
    assert_eq!(handles(), before, "not even put there again");
    assert_eq!(said(first, "had been changed"), 0);
}

#[test]
fn the_rules_follow_the_subnet_and_outlive_the_daemon() {
    let host = Host::with(&["nft"]);
    let lab = crate::support::up(LabPlan { config: BEFORE.to_owned(), ..host.plan("follow", 1, &["--ip-masq"]) });
    let (netns, first) = (node(&lab, 1), lab.node(1).unwrap());
    assert_eq!(ruleset(&netns), expected(first));
    lab.registry().put_config(AFTER).unwrap();
    let moved = || first.subnet().unwrap().is_some_and(|env| env.subnet.to_string().starts_with("10.98.1")) && first.is_ready();
    eventually("the node takes another subnet", PATIENCE, || moved().then_some(()));
    eventually("the rules are those of it, and no others", PATIENCE, || (ruleset(&netns) == expected(first)).then_some(()));
    first.stop().unwrap();
    assert_eq!(ruleset(&netns), expected(first), "left in place, as flannel's are");
    // A node that does not masquerade any more does away with them.
    first.start_with(&["--ip-masq=false".to_owned()]).unwrap();
    first.wait_ready(&Interrupt::new()).unwrap();
    eventually("none are left", PATIENCE, || ruleset(&netns).is_empty().then_some(()));
    assert!(fs::read_to_string(first.subnet_file()).unwrap().ends_with("FLANNEL_IPMASQ=false\n"));
}

#[test]
fn ports_are_not_chosen_at_random_where_that_is_not_wanted_or_impossible() {
    let host = Host::with(&["nft"]);
    let lab = host.lab("random", 1, &["--ip-masq", "--ip-masq-fully-random-disable"]);
    assert_eq!(ruleset(&node(&lab, 1)), expected(lab.node(1).unwrap()).replace(" fully-random", ""));
    drop(lab);
    // A kernel that cannot, played by an nft that refuses.
    let refusing = "input=$(/bin/cat)\ncase $input in *fully-random*) echo 'Error: Operation not supported' >&2; exit 1;; esac\n\
                    printf '%s\\n' \"$input\" | exec /usr/sbin/nft \"$@\"";
    let host = Host::with(&[]).and("nft", refusing);
    let lab = host.lab("orderly", 1, &["--ip-masq"]);
    assert_eq!(ruleset(&node(&lab, 1)), expected(lab.node(1).unwrap()).replace(" fully-random", ""));
}

#[test]
fn two_daemons_of_one_host_have_rules_of_their_own() {
    let names = |file: &str| felt::daemon::rules::Names::of(file.as_ref());
    assert_ne!(names("/run/flannel/a.env"), names("/run/flannel/b.env"));
    assert_eq!(names("/run/flannel/subnet.env").table, "felt");
}

#[test]
fn without_flags_no_program_is_run() {
    let mut host = Host::with(&[]);
    let trap = host.folder().join("trap");
    for program in PROGRAMS {
        host = host.and(program, &format!("echo {program} \"$@\" >> {}", trap.display()));
    }
    let lab = host.lab("quiet", 1, &["--iptables-resync=1"]);
    let (netns, first) = (node(&lab, 1), lab.node(1).unwrap());
    std::thread::sleep(Duration::from_millis(2500));
    assert!(!trap.exists(), "{}", fs::read_to_string(&trap).unwrap());
    assert!(netns.run_in(netfilter::chains).unwrap().unwrap().is_empty());
    assert!(netns.run_in(netfilter::legacy_tables).unwrap().is_empty());
    assert_eq!(said(first, "iptables"), 0);
    // The trap is one: with something to accept in, it is looked for a program.
    inside(&netns, "iptables-nft -P FORWARD DROP").unwrap();
    eventually("the trap snaps", PATIENCE, || trap.exists().then_some(()));
}
