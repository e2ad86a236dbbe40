//! Pinging without pause, to see what an event costs.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::echo::{EchoSocket, is_transient};
use crate::lab::LabError;
use crate::sys::netns::Netns;

/// How long answers may come after the last request.
const GRACE: Duration = Duration::from_secs(2);

/// A thread that pings one address at a steady pace until it is stopped.
#[derive(Debug)]
pub struct Pinger {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<PingReport>>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
}

/// What became of the requests of a [`Pinger`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PingReport {
    /// Requests sent, those included that the kernel refused for want of a way.
    pub sent: u64,
    /// Requests answered.
    pub received: u64,
    /// Answers that came more than once.
    pub duplicates: u64,
    /// Longest time between one answered request and the next answered one.
    pub longest_gap: Duration,
    /// Round-trip times; zero without answers.
    pub fastest: Duration,
    /// Sum over all answers divided by their number.
    pub mean: Duration,
    /// Longest round-trip time.
    pub slowest: Duration,
}

impl PingReport {
    /// Requests without an answer.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent - self.received
    }
}

impl Pinger {
    /// Begins to ping `to` from `netns`, once every `pace`.
    ///
    /// # Errors
    /// When no socket can be had there.
    pub fn start(netns: &Netns, to: Ipv4Addr, pace: Duration) -> Result<Self, LabError> {
        let socket = EchoSocket::open(netns, to)?;
        let shared = Arc::new(Shared::default());
        let (own, name) = (Arc::clone(&shared), format!("ping {to}"));
        let thread = thread::Builder::new().name(name).spawn(move || run(&socket, pace, &own));
        Ok(Self { shared, thread: Some(thread.map_err(LabError::step("start a thread that pings"))?) })
    }

    /// How many requests have been sent and answered so far.
    #[must_use]
    pub fn so_far(&self) -> (u64, u64) {
        (self.shared.sent.load(Ordering::Relaxed), self.shared.received.load(Ordering::Relaxed))
    }

    /// Stops, and waits a little for answers that are under way.
    ///
    /// # Errors
    /// When the socket failed meanwhile for a reason other than a broken way.
    pub fn stop(mut self) -> Result<PingReport, LabError> {
        self.join().unwrap_or_else(|| Ok(PingReport::default())).map_err(LabError::step("ping"))
    }

    fn join(&mut self) -> Option<io::Result<PingReport>> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        // Not joined, lest a panic of ours meets one of the thread's; it ends by itself within the grace time.
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

fn run(socket: &EchoSocket, pace: Duration, shared: &Shared) -> io::Result<PingReport> {
    let mut tally = Tally::default();
    let mut due = Instant::now();
    let mut stopped: Option<Instant> = None;
    loop {
        let now = Instant::now();
        if stopped.is_none() && shared.stop.load(Ordering::Relaxed) {
            stopped = Some(now);
        }
        if stopped.is_some_and(|since| tally.waiting.is_empty() || since.elapsed() > GRACE) {
            return Ok(tally.report);
        }
        if stopped.is_none() && now >= due {
            let sequence = tally.send(now);
            match socket.send(sequence) {
                Err(error) if !is_transient(&error) => return Err(error),
                _ => {}
            }
            // Late for one is no reason to hurry with the next.
            due = (due + pace).max(now);
        }
        let patience = due.saturating_duration_since(Instant::now()).min(pace);
        if let Some(sequence) = socket.receive(patience)? {
            tally.receive(sequence, Instant::now());
        }
        shared.sent.store(tally.report.sent, Ordering::Relaxed);
        shared.received.store(tally.report.received, Ordering::Relaxed);
    }
}

/// The books of a pinger.
#[derive(Default)]
struct Tally {
    report: PingReport,
    /// Requests without an answer yet, by sequence number, which comes round after 65,536 of them.
    waiting: BTreeMap<u16, Instant>,
    last_answered: Option<Instant>,
    total: Duration,
}

impl Tally {
    fn send(&mut self, now: Instant) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "sequence numbers come round")]
        let sequence = self.report.sent as u16;
        self.report.sent += 1;
        self.waiting.insert(sequence, now);
        sequence
    }

    fn receive(&mut self, sequence: u16, now: Instant) {
        let report = &mut self.report;
        let Some(sent) = self.waiting.remove(&sequence) else {
            report.duplicates += 1;
            return;
        };
        let took = now - sent;
        report.fastest = if report.received == 0 { took } else { report.fastest.min(took) };
        report.slowest = report.slowest.max(took);
        report.received += 1;
        self.total += took;
        report.mean = self.total / u32::try_from(report.received).unwrap_or(u32::MAX);
        // Answers may overtake each other; the gap is between requests, in their order.
        if self.last_answered.is_none_or(|last| last < sent) {
            let gap = self.last_answered.map_or(Duration::ZERO, |last| sent - last);
            report.longest_gap = report.longest_gap.max(gap);
            self.last_answered = Some(sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_gaps_and_duplicates_are_told_apart() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let mut tally = Tally::default();
        let sequences: Vec<u16> = (0..5).map(|number| tally.send(at(number * 100))).collect();
        tally.receive(sequences[0], at(10));
        // The third overtakes none; the second and fourth are lost.
        tally.receive(sequences[2], at(230));
        tally.receive(sequences[2], at(231));
        tally.receive(sequences[4], at(420));
        let report = tally.report;
        assert_eq!((report.sent, report.received, report.lost(), report.duplicates), (5, 3, 2, 1));
        let times = (report.fastest, report.mean, report.slowest);
        assert_eq!(times, (Duration::from_millis(10), Duration::from_millis(20), Duration::from_millis(30)));
        assert_eq!(report.longest_gap, Duration::from_millis(200));
    }

    #[test]
    fn sequence_numbers_come_round() {
        let now = Instant::now();
        let mut tally = Tally { report: PingReport { sent: 65_535, ..PingReport::default() }, ..Tally::default() };
        assert_eq!((tally.send(now), tally.send(now)), (65_535, 0));
        assert_eq!(tally.report.sent, 65_537);
    }
}
