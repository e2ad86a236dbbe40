//! Ping-pong: one datagram to and fro at a time.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::open_at;
use crate::bench::stats::percentile;
use crate::bench::{BenchError, Ends};
use crate::lab::Interrupt;

/// What an idle run pauses for before each request. Long enough for processors to fall asleep and for pollers to give up.
pub const PAUSE: Duration = Duration::from_millis(1);

/// Bytes of a request and of its answer.
const PAYLOAD_BYTES: usize = 64;

/// How long a request waits for its answer before it counts as lost.
const PATIENCE: Duration = Duration::from_millis(200);

/// How many may be lost before the path counts as broken.
const LOST_AT_MOST: u32 = 5;

/// How many go first, uncounted: neighbours are looked up, code is fetched.
const WARM_UP: u32 = 20;

/// Round trips that were made, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTrips {
    /// Each one's time, in microseconds, in order.
    pub micros: Vec<f64>,
    /// How many had no answer in time.
    pub lost: u32,
}

impl RoundTrips {
    /// A percentile of the times, in microseconds; 0 if there was none.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        percentile(&self.micros, percent).unwrap_or_default()
    }
}

/// Makes round trips from client to server for `time`: back to back, or with a [`PAUSE`] before each.
///
/// # Errors
/// When sockets fail or more than a few requests stay without answer; when `interrupt` is raised.
pub fn round_trips(ends: &Ends, idle: bool, time: Duration, interrupt: &Interrupt) -> Result<RoundTrips, BenchError> {
    let open = |at| move || UdpSocket::bind(SocketAddr::new(at, 0));
    let server = open_at(&ends.server, "a UDP socket", open(ends.server.address))?;
    let client = open_at(&ends.client, "a UDP socket", open(ends.client.address))?;
    let prepare = || -> io::Result<()> {
        client.connect(server.local_addr()?)?;
        server.connect(client.local_addr()?)?;
        client.set_read_timeout(Some(PATIENCE))?;
        server.set_read_timeout(Some(PATIENCE))
    };
    prepare().map_err(BenchError::load("connect UDP sockets"))?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let answering = scope.spawn(|| answer(&server, &stop));
        let trips = ask(&client, idle, time, interrupt);
        stop.store(true, Ordering::Relaxed);
        // One more, that the other side need not wait.
        drop(client.send(&[0; PAYLOAD_BYTES]));
        let answered = answering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let trips = trips?;
        answered.map_err(BenchError::load("answer datagrams"))?;
        Ok(trips)
    })
}

fn ask(client: &UdpSocket, idle: bool, time: Duration, interrupt: &Interrupt) -> Result<RoundTrips, BenchError> {
    let failed = || BenchError::load("send datagrams to and fro");
    let mut trips = RoundTrips { micros: Vec::with_capacity(1 << 16), lost: 0 };
    let mut buffer = [0; PAYLOAD_BYTES];
    let mut warm_up = WARM_UP;
    let mut begin = Instant::now();
    for number in 0u64.. {
        interrupt.check()?;
        if idle {
            thread::sleep(PAUSE);
        }
        if let Some(start) = buffer.first_chunk_mut() {
            *start = number.to_be_bytes();
        }
        let sent = Instant::now();
        let is_back = client.send(&buffer).and_then(|_| await_answer(client, number, sent)).map_err(failed())?;
        let took = sent.elapsed();
        if !is_back {
            trips.lost += 1;
            if trips.lost > LOST_AT_MOST {
                let (lost, made) = (trips.lost, trips.micros.len());
                return Err(BenchError::Senseless(format!("{lost} round trips were lost, {made} were made: the path is broken")));
            }
        } else if warm_up > 0 {
            warm_up -= 1;
            begin = Instant::now();
        } else {
            trips.micros.push(took.as_secs_f64() * 1e6);
        }
        if begin.elapsed() >= time && !trips.micros.is_empty() {
            break;
        }
    }
    Ok(trips)
}

/// Whether the answer to request `number` came in time. Answers to earlier ones, given up already, are passed over.
fn await_answer(client: &UdpSocket, number: u64, sent: Instant) -> io::Result<bool> {
    let mut buffer = [0; PAYLOAD_BYTES];
    while sent.elapsed() < PATIENCE {
        match client.recv(&mut buffer) {
            Ok(_) if buffer.starts_with(&number.to_be_bytes()) => return Ok(true),
            Ok(_) => {}
            Err(error) if is_lost(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

fn answer(server: &UdpSocket, stop: &AtomicBool) -> io::Result<()> {
    let mut buffer = [0; PAYLOAD_BYTES];
    while !stop.load(Ordering::Relaxed) {
        match server.recv(&mut buffer).and_then(|length| server.send(buffer.get(..length).unwrap_or_default())) {
            Err(error) if !is_lost(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether this is a datagram that did not get through, rather than a socket that does not work.
fn is_lost(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | Interrupted | NetworkUnreachable | TimedOut | WouldBlock)
}
