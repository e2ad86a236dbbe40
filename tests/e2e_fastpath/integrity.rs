//! Whatever offloads are in use: every byte arrives as it was sent, and nothing of a flow passes what went before it.

use std::thread;

use felt::lab::Lab;

use crate::datagrams::{self, Report, Sizes};
use crate::ground::{Both, Underlay, between, carry, direct, ground};
use crate::streams;
use crate::support::{metrics, node, note, pin_to_one_cpu};

/// Of the overlay's devices.
const MTU: u32 = 1472;
/// Bytes each way and underlay, unless more are asked for.
const BYTES: u64 = 128_000_000;
const CONNECTIONS: u64 = 2;
const FLOWS: u64 = 2;
/// What datagrams of mixed sizes have on the average, and a little less.
const AVERAGE: u64 = 800;

/// Where something is in use there is far more of it than this.
const FEW: u64 = 20;

/// Which offloads are in use.
#[derive(Clone, Copy, Debug)]
struct With {
    tun: bool,
    gso: bool,
    gro: bool,
}

/// Bytes that go each way over each underlay.
fn amount() -> u64 {
    let Ok(gigabytes) = std::env::var("FELT_SOAK_GB") else { return BYTES };
    gigabytes.parse::<u64>().expect("FELT_SOAK_GB is a number of gigabytes") * 1_000_000_000 / 4
}

/// Three quarters as TCP, the rest as UDP, all of it at once, both ways.
fn carries(lab: &Lab, bytes: u64) -> Vec<Report> {
    between(lab, |one, two| {
        thread::scope(|scope| {
            for connection in 0..CONNECTIONS {
                let bytes = bytes * 3 / 4 / CONNECTIONS;
                scope.spawn(move || streams::exchange(one.netns, two.netns, two.address, bytes, connection));
            }
            let flow = |seed| {
                let (from, to) = if seed % 2 == 0 { (one, two) } else { (two, one) };
                let count = u32::try_from(bytes / 4 / FLOWS / AVERAGE).unwrap();
                scope.spawn(move || datagrams::flow(from, to, Sizes::Mixed { mtu: MTU }, count, seed))
            };
            let flows: Vec<_> = (0..2 * FLOWS).map(flow).collect();
            flows.into_iter().map(|flow| flow.join().unwrap()).collect::<Vec<Report>>()
        })
    })
}

fn nothing_is_altered(name: &str, with: With) {
    pin_to_one_cpu();
    let flags = [(with.tun, "--no-tun-offload"), (with.gso, "--no-udp-gso"), (with.gro, "--no-udp-gro")];
    let flags: Vec<_> = flags.into_iter().filter(|(on, _)| !on).map(|(_, flag)| flag).collect();
    let lab = ground(direct(name, &flags));
    let bytes = amount();
    for underlay in [Underlay::Super, Underlay::Single] {
        carry(&lab, underlay);
        let before = [1, 2].map(|number| metrics(&node(&lab, number)));
        let begin = std::time::Instant::now();
        let reports = carries(&lab, bytes);
        note(&format!("{with:?}, {underlay:?}: {bytes} bytes each way in {:?}, datagrams: {reports:?}", begin.elapsed()));
        for (number, before) in [1, 2].into_iter().zip(&before) {
            let after = metrics(&node(&lab, number));
            // Else it would not be this combination that was tried. The ends of connections may come in a train that left while
            // the link was another.
            let on = |count: u64| count > FEW;
            let supers = Both::since("supers", before, &after);
            assert_eq!((on(supers.egress), on(supers.ingress)), (with.tun, with.tun), "{with:?} {underlay:?} {supers:?}");
            let trains = Both::since("trains", before, &after);
            note(&format!("node {number}: {supers:?}, {trains:?}"));
            let whole = with.gso && with.gro && underlay == Underlay::Super;
            assert_eq!((on(trains.egress), on(trains.ingress)), (with.gso, whole), "{with:?} {underlay:?} {trains:?}");
            for (offload, on) in [("tun_tso", with.tun), ("udp_gso", with.gso), ("udp_gro", with.gro)] {
                let name = format!("felt_offload_enabled{{offload=\"{offload}\"}}");
                assert_eq!(after.value(&name), u64::from(on), "{offload} at the end");
            }
            assert!(Both::since("bytes", before, &after).egress >= bytes);
            assert_eq!(after.drops_since(before), [], "{with:?} {underlay:?}");
        }
        // Queues that TCP keeps full may lose some, but not many.
        assert!(reports.iter().all(|report| report.arrived > report.sent / 10 * 8), "{with:?} {underlay:?} {reports:?}");
    }
}

#[test]
fn with_everything() {
    nothing_is_altered("all", With { tun: true, gso: true, gro: true });
}

#[test]
fn with_super_packets_and_trains_sent() {
    nothing_is_altered("tungso", With { tun: true, gso: true, gro: false });
}

#[test]
fn with_super_packets_and_trains_received() {
    nothing_is_altered("tungro", With { tun: true, gso: false, gro: true });
}

#[test]
fn with_super_packets_only() {
    nothing_is_altered("tun", With { tun: true, gso: false, gro: false });
}

#[test]
fn with_trains_only() {
    nothing_is_altered("gsogro", With { tun: false, gso: true, gro: true });
}

#[test]
fn with_trains_sent_only() {
    nothing_is_altered("gso", With { tun: false, gso: true, gro: false });
}

#[test]
fn with_trains_received_only() {
    nothing_is_altered("gro", With { tun: false, gso: false, gro: true });
}

#[test]
fn with_nothing() {
    nothing_is_altered("plain", With { tun: false, gso: false, gro: false });
}
