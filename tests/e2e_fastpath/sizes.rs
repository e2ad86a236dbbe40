//! Underlays from narrow to wide, with one worker to sixteen: traffic passes, and each flow keeps its order (R26).

use std::thread;

use felt::lab::LabPlan;

use crate::datagrams::{self, Report, Sizes};
use crate::ground::{between, direct, ground};
use crate::streams;
use crate::support::{fragments_made, netlink, node, note, pin_to_one_cpu};

/// What the UDP backend puts in front of packets.
const OVERHEAD: u32 = 28;
/// R26.
const FLOWS: u64 = 8;
const PACKETS: u32 = 10_000;
/// Raised so that a burst of many small packets does not overflow the device's queue.
const TXQLEN: u32 = 4096;

fn passes(underlay_mtu: u32, workers: u32) {
    pin_to_one_cpu();
    let plan = direct(&format!("m{underlay_mtu}w{workers}"), &["--workers", &workers.to_string()]);
    let lab = ground(LabPlan { underlay_mtu, ..plan });
    let mtu = underlay_mtu - OVERHEAD;
    for number in [1, 2] {
        let device = netlink(&node(&lab, number)).link("flannel0").unwrap();
        assert_eq!((device.mtu, device.txqlen), (mtu, TXQLEN));
    }
    let reports = between(&lab, |one, two| {
        streams::exchange(one.netns, two.netns, two.address, 8_000_000, 3);
        assert_eq!([1, 2].map(|number| fragments_made(&node(&lab, number))), [0, 0], "no outer packet is ever split");
        if workers == 1 {
            // Not with more: fragments have no ports, so the kernel may put them in another queue than the rest of the flow.
            let report = datagrams::flow(one, two, Sizes::Mixed { mtu }, 2_000, 4);
            assert!(report.arrived > report.sent / 10 * 9, "{report:?}");
        }
        thread::scope(|scope| {
            let flow = |seed| scope.spawn(move || datagrams::flow(one, two, Sizes::Small, PACKETS, seed));
            let flows: Vec<_> = (0..FLOWS).map(flow).collect();
            flows.into_iter().map(|flow| flow.join().unwrap()).collect::<Vec<Report>>()
        })
    });
    let arrived: Vec<_> = reports.iter().map(|report| report.arrived).collect();
    note(&format!("MTU {underlay_mtu}, {workers} workers: of {PACKETS} packets each flow had {arrived:?}"));
    assert!(reports.iter().all(|report| report.arrived > report.sent / 10 * 8), "{reports:?}");
}

#[test]
fn one_worker_on_the_narrowest_underlay() {
    passes(576, 1);
}

#[test]
fn one_worker_on_a_wide_underlay() {
    passes(9000, 1);
}

#[test]
fn two_workers_on_a_usual_underlay() {
    passes(1500, 2);
}

#[test]
fn four_workers_on_a_wide_underlay() {
    passes(9000, 4);
}

#[test]
fn sixteen_workers_on_the_narrowest_underlay() {
    passes(576, 16);
}

/// Not on one processor: workers, senders and receivers all run beside each other. TCP puts in order what a kernel on several
/// processors does not.
#[test]
fn many_connections_over_several_workers_on_all_processors() {
    let lab = ground(direct("parallel", &["--workers", "4"]));
    between(&lab, |one, two| {
        thread::scope(|scope| {
            for connection in 0..8 {
                let (from, to) = if connection % 2 == 0 { (one, two) } else { (two, one) };
                scope.spawn(move || streams::exchange(from.netns, to.netns, to.address, 16_000_000, connection));
            }
        });
    });
}
