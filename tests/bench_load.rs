//! The load generators of `felt bench` on a plain veth pair, and beside iperf3. Needs root.
//!
//! They share a machine with other tests, so nothing here depends on how fast it is: only on what adds up.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use felt::bench::load::{self, Blaster, Bulk, LOSS_LIMIT};
use felt::bench::{BareGround, BenchError, Ends, Ground, Path, Underlay};
use felt::lab::{Interrupt, LabError};
use felt::sys::netlink::Netlink;
use felt::sys::netns::Netns;

const SHORT: Bulk = Bulk { streams: 1, reverse: false, warm_up: Duration::from_millis(100), time: Duration::from_millis(400) };

fn raise() -> (BareGround, Ends) {
    let mut ground = BareGround::raise().expect("these tests need root");
    let ends = ground.ends(Underlay::Super, Path::Veth).unwrap();
    (ground, ends)
}

/// Bytes and packets that the client's end of the cable has sent and received.
fn traffic(ends: &Ends) -> (u64, u64) {
    let devices = ends.client.netns.run_in(|| std::fs::read_to_string("/proc/thread-self/net/dev")).unwrap().unwrap();
    let line = devices.lines().find(|line| line.trim_start().starts_with(felt::lab::UPLINK)).unwrap();
    let fields: Vec<u64> = line.split(':').nth(1).unwrap().split_whitespace().map(|field| field.parse().unwrap()).collect();
    (fields[0], fields[8])
}

#[test]
fn the_ground_goes_when_it_is_dropped() {
    let (ground, ends) = raise();
    let names = [ends.client.netns.name().to_owned(), ends.server.netns.name().to_owned()];
    let standing = || Netns::list().unwrap().into_iter().filter(|name| names.contains(name)).count();
    assert_eq!(standing(), 2);
    drop(ground);
    assert_eq!(standing(), 0);
}

#[test]
fn tcp_moves_what_it_says_in_the_direction_asked_for() {
    let (_ground, ends) = raise();
    for (streams, reverse) in [(1, false), (4, false), (1, true)] {
        let before = traffic(&ends);
        let report = load::bulk(&ends, Bulk { streams, reverse, ..SHORT }, &Interrupt::new()).unwrap();
        let after = traffic(&ends);
        assert_eq!(report.sent, report.received, "{report:?}");
        assert!(report.bytes > 1 << 20 && report.bytes < report.received, "{report:?}");
        assert!(report.time >= SHORT.time && report.gigabits_per_second() > 0.01, "{report:?}");
        assert!(report.cpu.busy > Duration::ZERO && report.cpu.processes == Duration::ZERO, "{report:?}");
        assert_eq!(report.congestion_control, "cubic");
        // All of it, and little else, went over the cable that way.
        let (received, sent) = (after.0 - before.0, after.1 - before.1);
        let (there, back) = if reverse { (received, sent) } else { (sent, received) };
        assert!(there > report.sent && there < report.sent * 3 / 2, "{there} bytes on the wire, {report:?}");
        assert!(back < there / 4, "{back} bytes the other way, {report:?}");
    }
}

#[test]
fn cpu_time_of_the_ends_own_processes_is_counted_apart() {
    let (_ground, mut ends) = raise();
    // The generators run in this very process.
    ends.daemons = vec![std::process::id()];
    let report = load::bulk(&ends, SHORT, &Interrupt::new()).unwrap();
    assert!(report.cpu.processes > Duration::ZERO, "{report:?}");
    assert!(report.seconds_per_gigabyte(report.cpu.processes) > 0.0);
}

#[test]
fn an_interrupt_ends_a_transfer_at_once() {
    let (_ground, ends) = raise();
    let interrupt = Interrupt::new();
    let begin = Instant::now();
    let long = Bulk { time: Duration::from_mins(10), ..SHORT };
    let ended = std::thread::scope(|scope| {
        let transfer = scope.spawn(|| load::bulk(&ends, long, &interrupt));
        std::thread::sleep(Duration::from_millis(200));
        interrupt.raise();
        transfer.join().unwrap()
    });
    assert!(matches!(ended, Err(BenchError::Lab(LabError::Interrupted))), "{ended:?}");
    assert!(begin.elapsed() < Duration::from_mins(1));
}

#[test]
fn datagrams_are_offered_at_the_rate_asked_for_and_counted() {
    let (_ground, ends) = raise();
    for payload_bytes in [64, 1400] {
        let mut blaster = Blaster::open(&ends, payload_bytes).unwrap();
        // The first finds out where its neighbour is.
        blaster.trial(100.0, Duration::from_millis(100)).unwrap();
        let before = traffic(&ends);
        let trial = blaster.trial(4000.0, Duration::from_millis(500)).unwrap();
        let sent = traffic(&ends).1 - before.1;
        // Never more than asked for; less where this thread had to wait for a processor.
        assert!(trial.offered <= 4000.0 * 1.01 && trial.offered > 100.0, "{trial:?}");
        assert!(trial.delivered <= trial.offered && trial.loss >= 0.0 && trial.loss <= 1.0, "{trial:?}");
        // Ethernet, IPv4 and UDP headers; neighbour discovery beside them.
        #[allow(clippy::cast_precision_loss, reason = "some thousands")]
        let expected = trial.offered * 0.5 * (payload_bytes + 14 + 20 + 8) as f64;
        #[allow(clippy::cast_precision_loss, reason = "some millions")]
        let sent = sent as f64;
        assert!(sent >= expected * 0.999 && sent < expected * 1.05 + 2000.0, "{sent} bytes on the wire, {expected} expected");
    }
}

#[test]
fn the_search_finds_a_rate_that_is_carried() {
    let (_ground, ends) = raise();
    let mut blaster = Blaster::open(&ends, 64).unwrap();
    // Where other tests keep all processors busy the receiver may starve at any rate, but not each time.
    let found = (0..20).find_map(|_| {
        let mut asked = Vec::new();
        let found = load::search(2000.0, 10, |rate| {
            asked.push(rate);
            blaster.trial(rate, Duration::from_millis(100))
        });
        assert!(!asked.is_empty() && asked.len() <= 10, "{asked:?}");
        found.unwrap()
    });
    let found = found.expect("a cable carries something");
    assert!(found.delivered > 100.0 && found.loss <= LOSS_LIMIT && found.trials <= 10, "{found:?}");
}

#[test]
fn round_trips_are_short_and_a_pause_makes_them_fewer() {
    let (_ground, ends) = raise();
    let time = Duration::from_millis(400);
    let busy = load::round_trips(&ends, false, time, &Interrupt::new()).unwrap();
    let idle = load::round_trips(&ends, true, time, &Interrupt::new()).unwrap();
    for trips in [&busy, &idle] {
        let (p50, p99) = (trips.percentile(50.0), trips.percentile(99.0));
        // No datagram crosses two stacks in a microsecond, and none that came back took the 200 ms of a lost one.
        assert!(p50 > 1.0 && p50 <= p99 && p99 < 200_000.0, "{p50} {p99}");
    }
    assert!(idle.micros.len() <= 400 && !busy.micros.is_empty(), "{} {}", idle.micros.len(), busy.micros.len());
}

#[test]
fn a_path_that_carries_nothing_is_told_and_not_waited_for() {
    let (_ground, mut ends) = raise();
    // The server's end listens elsewhere, and where the cable ends nobody has its address.
    let (_other, elsewhere) = raise();
    let silenced = std::mem::replace(&mut ends.server.netns, elsewhere.server.netns);
    let emptied = silenced.run_in(|| {
        let netlink = Netlink::open().unwrap();
        for address in netlink.addresses().unwrap() {
            netlink.delete_address(address.device, address.address).unwrap();
        }
    });
    emptied.unwrap();
    let begin = Instant::now();
    let told = load::bulk(&ends, SHORT, &Interrupt::new()).unwrap_err().to_string();
    assert!(told.contains("192.0.2.1") && told.contains("192.0.2.2"), "{told}");
    let told = load::round_trips(&ends, false, SHORT.time, &Interrupt::new()).unwrap_err().to_string();
    assert!(told.contains("the path is broken"), "{told}");
    let mut blaster = Blaster::open(&ends, 64).unwrap();
    let trial = blaster.trial(1000.0, Duration::from_millis(100)).unwrap();
    assert!(!trial.holds() && trial.delivered < 1.0, "{trial:?}");
    let found = load::search(1000.0, 20, |rate| blaster.trial(rate, Duration::from_millis(20))).unwrap();
    assert_eq!(found, None);
    assert!(begin.elapsed() < Duration::from_mins(1));
}

/// iperf3 between the same ends, in Gb/s.
fn iperf3(ends: &Ends) -> f64 {
    let (server, client) = (ends.server.address.to_string(), ends.client.address.to_string());
    let command = |end: &felt::bench::End, words: &[&str]| {
        let mut command = Command::new("iperf3");
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        end.netns.place(&mut command).unwrap();
        command.spawn().expect("iperf3 is there; scripts/test installs it")
    };
    let mut listening = command(&ends.server, &["-s", "-1", "-B", &server, "--forceflush"]);
    let told = (0..50).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let running =
            command(&ends.client, &["-c", &server, "-B", &client, "-t", "1", "-O", "0", "-C", "cubic", "-J"]).wait_with_output();
        let report: serde_json::Value = serde_json::from_slice(&running.unwrap().stdout).ok()?;
        report["end"]["sum_received"]["bits_per_second"].as_f64()
    });
    let _ = listening.kill();
    listening.wait().unwrap();
    told.expect("iperf3 measures something") / 1e9
}

#[test]
fn tcp_agrees_with_iperf3() {
    let (_ground, ends) = raise();
    let plan = Bulk { time: Duration::from_secs(1), ..SHORT };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let best = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    // By turns, so that both have the same share of the machine; the best of several, since others use it too, and more
    // rounds where these keep one of the two from its best.
    let is_alike = (1..=15).any(|round| {
        ours.push(load::bulk(&ends, plan, &Interrupt::new()).unwrap().gigabits_per_second());
        theirs.push(iperf3(&ends));
        round >= 3 && (0.5..2.0).contains(&(best(&ours) / best(&theirs)))
    });
    println!("ours {ours:.1?}, iperf3's {theirs:.1?}, in Gb/s");
    assert!(is_alike, "ours {ours:.1?}, iperf3's {theirs:.1?}, in Gb/s");
}
