//! Whole nodes with some offloads and without: what they say of them, and that what they carry arrives as it was sent.

mod e2e_support;

use e2e_support::{PATIENCE, lines, metrics, node, plan, pod, up};
use felt::lab::probe::{Amount, Transfer};
use felt::lab::{Interrupt, LabPlan, Place};

/// Two nodes run with `flags`: which of their offloads are on, in the order of [`OFFLOADS`], in words and in numbers.
fn carries(name: &str, flags: &[&str], words: &str, on: [u64; 4]) {
    let run_args = flags.iter().map(|&flag| flag.to_owned()).collect();
    let lab = up(LabPlan { run_args, ..plan(name, 2) });
    let log = lines(&lab.node(1).unwrap().log());
    assert!(log.iter().any(|line| line.contains("tunnel up") && line.contains(words)), "{words} in {log:#?}");
    let to = lab.address(Place::Pod { node: 2, pod: 1 }).unwrap();
    // Checked byte for byte at the other end.
    let transfer = Transfer::start(&pod(&lab, 1), &pod(&lab, 2), to, Amount::Bytes(20_000_000), PATIENCE).unwrap();
    assert!(transfer.finish(&Interrupt::new()).unwrap().bytes >= 20_000_000);
    for number in [1, 2] {
        let metrics = metrics(&node(&lab, number));
        for (offload, on) in OFFLOADS.into_iter().zip(on) {
            let name = format!("felt_offload_enabled{{offload=\"{offload}\"}}");
            assert_eq!(metrics.value(&name), on, "{offload} with {words}");
        }
        // R09. A wish that the kernel has granted is counted twice.
        for name in ["felt_receive_buffer_bytes", "felt_send_buffer_bytes"] {
            assert_eq!(metrics.value(name), 2 * 16_777_216, "{name}");
        }
    }
    let log = lines(&lab.node(1).unwrap().log());
    assert!(!log.iter().any(|line| line.contains("refuses this offload")), "{log:#?}");
}

const OFFLOADS: [&str; 4] = ["tun_tso", "tun_uso", "udp_gso", "udp_gro"];

#[test]
fn with_all_offloads() {
    carries("all", &[], "tun tso+uso, gso 128, gro on", [1, 1, 1, 1]);
}

#[test]
fn without_offloads_at_the_tun() {
    carries("notun", &["--no-tun-offload"], "tun off, gso 128, gro on", [0, 0, 1, 1]);
}

#[test]
fn without_trains_of_datagrams() {
    carries("noudp", &["--no-udp-gso", "--no-udp-gro"], "tun tso+uso, gso off, gro off", [1, 1, 0, 0]);
}

#[test]
fn one_packet_per_system_call() {
    let flags = ["--no-tun-offload", "--no-udp-gso", "--no-udp-gro", "--batch=1"];
    carries("single", &flags, "tun off, gso off, gro off", [0, 0, 0, 0]);
}

#[test]
fn with_several_queues() {
    carries("queues", &["--workers=3"], "tun tso+uso, gso 128, gro on", [1, 1, 1, 1]);
}
