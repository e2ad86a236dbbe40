//! `felt cleanup`.

use std::process::Command;

use felt::lab::{EphemeralLab, LabPlan, LabPolicy, Node, PolicyScope};
use felt::sys::netns::Netns;

use crate::ground::{Host, PROGRAMS, inside, ruleset};
use crate::support::{PATIENCE, eventually, netlink, node};

/// Runs `felt cleanup` in a namespace: exit code, standard output, standard error.
fn cleanup(host: &Host, netns: &Netns, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(host.felt());
    command.arg("cleanup").args(words);
    netns.place(&mut command).unwrap();
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Everything that tells of us in a namespace.
fn state(netns: &Netns) -> String {
    let lines = ["iptables-legacy-save", "ip rule", "ip route show table all", "ip link"];
    let seen: Vec<String> = lines.iter().map(|line| inside(netns, line).unwrap()).collect();
    // The packets that iptables counts are none of it.
    let is_state = |line: &&str| !line.starts_with('#') && !line.starts_with(':');
    let seen = seen.concat();
    let seen: Vec<&str> = seen.lines().filter(is_state).collect();
    format!("{}{}", ruleset(netns), seen.join("\n"))
}

fn leave_everything(test: &str, host: &Host) -> EphemeralLab {
    let policy = Some(LabPolicy { dirs: Vec::new(), scope: PolicyScope::Node });
    let args = ["--ip-masq", "--ip-blackhole-route", "--iptables-resync=1"];
    let lab = crate::support::up(LabPlan { policy, ..host.plan(test, 1, &args) });
    let netns = node(&lab, 1);
    for iptables in ["iptables-nft", "iptables-legacy"] {
        inside(&netns, &format!("{iptables} -P FORWARD DROP")).unwrap();
        let accepted = || inside(&netns, &format!("{iptables}-save -t filter")).unwrap().contains("FELT-FWD").then_some(());
        eventually("accepted", PATIENCE, accepted);
    }
    lab
}

fn has_traces(state: &str) -> Vec<&'static str> {
    ["felt-", "FELT-FWD", "8285", "blackhole", "flannel0", "proto 85"].into_iter().filter(|trace| state.contains(trace)).collect()
}

#[test]
fn nothing_is_left_and_what_is_not_ours_stays() {
    let host = Host::with(&PROGRAMS);
    let lab = leave_everything("cleanup", &host);
    let (netns, first): (Netns, Node<'_>) = (node(&lab, 1), lab.node(1).unwrap());
    inside(&netns, "nft add table ip others").unwrap();
    inside(&netns, "iptables-nft -A FORWARD -s 192.0.2.0/24 -j ACCEPT").unwrap();
    inside(&netns, "ip rule add pref 50 from 192.0.2.7 lookup main").unwrap();
    let running = state(&netns);
    assert_eq!(has_traces(&running).len(), 6, "{running}");

    let (code, out, err) = cleanup(&host, &netns, &[]);
    assert_eq!((code, out.as_str()), (Some(4), ""), "{err}");
    assert!(err.contains("flannel0 is in use") && err.contains("stop it first"), "{err}");
    assert_eq!(state(&netns), running);

    first.kill().unwrap();
    let killed = state(&netns);
    let (code, dry, err) = cleanup(&host, &netns, &["--dry-run"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(state(&netns), killed, "a dry run changes nothing");
    let file = first.subnet_file();
    let (code, out, err) = cleanup(&host, &netns, &["--subnet-file", file.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert_eq!(dry.replace("would remove", "removed"), out);
    for what in [
        "rules and routes of policy scope node",
        "TUN device flannel0",
        "nft table ip felt-",
        "(nf_tables)",
        "(ip_tables)",
        "blackhole",
    ] {
        assert!(out.contains(what), "{what} in {out}");
    }
    let clean = state(&netns);
    assert_eq!(has_traces(&clean), Vec::<&str>::new(), "{clean}");
    assert!(clean.contains("table ip others") && clean.contains("192.0.2.0/24") && clean.contains("192.0.2.7"), "{clean}");
    assert!(netlink(&netns).find_link("flannel0").unwrap().is_none());

    assert!(file.exists(), "only on request");
    let (_, out, _) = cleanup(&host, &netns, &["--env-file", "--subnet-file", file.to_str().unwrap()]);
    assert!(out.contains("subnet file") && !file.exists(), "{out}");
    let (code, out, _) = cleanup(&host, &netns, &["--env-file", "--subnet-file", file.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (Some(0), "nothing of Felt's is left on this host\n"));
}
