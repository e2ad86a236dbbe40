//! Datagrams at a given rate, counted where they arrive.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Trial, open_at};
use crate::bench::{BenchError, Ends};
use crate::sys::udp::{CopySender, TagCounter};

/// The beat of the sender: in each the datagrams of this time go out together. Shorter beats cannot be slept for.
pub const TICK: Duration = Duration::from_micros(250);

/// Beats that a sender held up may catch up with at once. What was due before is not sent later: such a burst would be
/// lost in queues that the asked rate never fills.
const CATCH_UP: u32 = 4;

/// Datagrams a system call.
const BURST: usize = 64;

/// How long the receiver waits for a datagram before it looks whether more are to come.
const GLANCE: Duration = Duration::from_millis(5);

/// How long after the last was sent a datagram may arrive and still count: this, and a twentieth of the trial. Long enough
/// for a thread that had to wait for a processor; what still stands in queues then was offered faster than it is carried.
const GRACE: Duration = Duration::from_millis(20);

/// A sender and a receiver of datagrams of one size.
pub struct Blaster {
    sender: CopySender,
    counter: TagCounter,
    trials: u64,
}

impl Blaster {
    /// Sockets at both ends for datagrams of `payload_bytes`, client to server.
    ///
    /// # Errors
    /// When they cannot be had.
    pub fn open(ends: &Ends, payload_bytes: usize) -> Result<Self, BenchError> {
        let at = SocketAddr::new(ends.server.address, 0);
        let counter = open_at(&ends.server, "a UDP socket", || TagCounter::bind(at, payload_bytes, BURST, GLANCE))?;
        let to = counter.local().map_err(BenchError::load("bind a UDP socket"))?;
        let sender = open_at(&ends.client, "a UDP socket", || CopySender::connect(to, payload_bytes, BURST))?;
        Ok(Self { sender, counter, trials: 0 })
    }

    /// Offers `rate` datagrams a second for `time` and says what came of it.
    ///
    /// # Errors
    /// When a socket fails, or more arrived than was sent.
    pub fn trial(&mut self, rate: f64, time: Duration) -> Result<Trial, BenchError> {
        self.trials += 1;
        let tag = self.trials;
        let (sender, counter) = (&mut self.sender, &mut self.counter);
        let state = State::default();
        let begin = Instant::now();
        let (sent, arrived) = thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(counter, tag, &state, begin, time + time / 20 + GRACE));
            let sent = send(sender, tag, rate, begin, time);
            state.sent.store(*sent.as_ref().unwrap_or(&0), Ordering::Relaxed);
            state.done.store(true, Ordering::Release);
            (sent, receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let sent = sent.map_err(BenchError::load("send datagrams"))?;
        let (received, last) = arrived.map_err(BenchError::load("receive datagrams"))?;
        if received > sent {
            return Err(BenchError::Senseless(format!("{sent} datagrams were sent, {received} arrived: the path repeats them")));
        }
        Ok(Trial::new(rate, sent, received, time, last))
    }
}

#[derive(Debug, Default)]
struct State {
    sent: AtomicU64,
    done: AtomicBool,
}

/// Sends at `rate` for `time`, and says how many datagrams the kernel took.
fn send(sender: &mut CopySender, tag: u64, rate: f64, begin: Instant, time: Duration) -> io::Result<u64> {
    let per_tick = rate * TICK.as_secs_f64();
    let (mut sent, mut due) = (0u64, 0.0f64);
    let mut now = begin;
    let mut next = begin;
    let end = begin + time;
    while now < end {
        // One beat, or as many as were slept through.
        let mut beats = 0;
        while next <= now {
            next += TICK;
            beats += 1;
        }
        due = (due.fract() + per_tick * f64::from(beats.min(CATCH_UP))).max(0.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and some hundreds")]
        let mut left = due as usize;
        while left > 0 {
            let took = sender.send(tag, left.min(BURST))?;
            sent += took as u64;
            left -= left.min(took.max(1));
            // A path slower than the rate must not hold the sender beyond its time.
            if Instant::now() >= end {
                return Ok(sent);
            }
        }
        now = Instant::now();
        if now < next {
            thread::sleep(next - now);
            now = Instant::now();
        }
    }
    Ok(sent)
}

/// Counts until all that was sent is there or `patience` since `begin` has passed; how many, and when the last came.
fn receive(counter: &mut TagCounter, tag: u64, state: &State, begin: Instant, patience: Duration) -> io::Result<(u64, Duration)> {
    let (mut received, mut last) = (0, Duration::ZERO);
    loop {
        let is_done = state.done.load(Ordering::Acquire);
        let count = counter.receive(tag)?;
        let now = begin.elapsed();
        if now > patience {
            return Ok((received, last));
        }
        if count > 0 {
            received += count as u64;
            last = now;
        }
        if is_done && received >= state.sent.load(Ordering::Relaxed) {
            return Ok((received, last));
        }
    }
}
