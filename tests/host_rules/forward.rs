//! Overlay traffic where the host drops what it forwards, as Docker has it: by iptables in nf_tables, by the older one, by both.

use std::net::Ipv4Addr;
use std::time::Duration;

use felt::lab::{EphemeralLab, Interrupt, Place};

use crate::ground::{Host, PROGRAMS, inside, names};
use crate::support::{PATIENCE, acquainted, eventually, lines, node};

/// Whether the pod of node 1 reaches that of node 2 within one moment.
fn reaches(lab: &EphemeralLab) -> bool {
    let (from, to) = (Place::Pod { node: 1, pod: 1 }, Place::Pod { node: 2, pod: 1 });
    let (netns, to): (_, Ipv4Addr) = (lab.netns(from).unwrap(), lab.address(to).unwrap());
    felt::lab::probe::ping(&netns, to, Duration::from_millis(300), &Interrupt::new()).unwrap().is_some()
}

fn lab(test: &str, host: &Host, args: &[&str]) -> EphemeralLab {
    let lab = host.lab(test, 2, args);
    acquainted(&lab);
    eventually("pods reach each other", PATIENCE, || reaches(&lab).then_some(()));
    lab
}

#[test]
fn what_the_host_would_drop_is_accepted_by_default() {
    let host = Host::with(&PROGRAMS);
    let lab = lab("accept", &host, &["--iptables-resync=1"]);
    let (netns, first) = (node(&lab, 1), lab.node(1).unwrap());
    let (chain, network) = (names(first).forward, "10.99.0.0/16");
    for iptables in ["iptables-nft", "iptables-legacy"] {
        // Both have a say, so the second one cuts off again what the first one lets through.
        inside(&netns, &format!("{iptables} -P FORWARD DROP")).unwrap();
        let accepted = || {
            let saved = inside(&netns, &format!("{iptables}-save -t filter")).unwrap();
            let ours: Vec<&str> = saved.lines().filter(|line| line.starts_with("-A ") && line.contains(&chain)).collect();
            let expected = [
                format!("-A FORWARD -j {chain}"),
                format!("-A {chain} -s {network} -j ACCEPT"),
                format!("-A {chain} -d {network} -j ACCEPT"),
            ];
            (ours == expected).then_some(())
        };
        eventually(iptables, PATIENCE, accepted);
        eventually("pods reach each other again", PATIENCE, || reaches(&lab).then_some(()));
        for wipe in [format!("{iptables} -F {chain}"), format!("{iptables} -D FORWARD -j {chain}"), format!("{iptables} -F")] {
            inside(&netns, &wipe).unwrap();
            eventually(&wipe, PATIENCE, accepted);
        }
    }
    assert!(reaches(&lab));
    // The log folds what is repeated.
    let said = lines(&first.log()).iter().filter(|line| line.contains("FORWARD chain had been changed")).count();
    assert_eq!(said, 1);
}

#[test]
fn what_is_not_to_be_accepted_stays_dropped() {
    let host = Host::with(&PROGRAMS);
    let lab = lab("refuse", &host, &["--iptables-forward-rules=false", "--iptables-resync=1"]);
    inside(&node(&lab, 1), "iptables-nft -P FORWARD DROP").unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert!(!reaches(&lab));
    let saved = inside(&node(&lab, 1), "iptables-nft-save -t filter").unwrap();
    assert!(!saved.contains("FELT"), "{saved}");
}

#[test]
fn where_it_cannot_be_accepted_that_is_said_once() {
    let host = Host::with(&["nft"]);
    let lab = lab("unable", &host, &["--iptables-resync=1"]);
    let (netns, first) = (node(&lab, 1), lab.node(1).unwrap());
    inside(&netns, "iptables-nft -P FORWARD DROP").unwrap();
    let said = || lines(&first.log()).iter().filter(|line| line.contains("may drop overlay traffic")).count();
    eventually("told", PATIENCE, || (said() == 1).then_some(()));
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(said(), 1);
    assert!(first.is_ready(), "it was not demanded");
}
