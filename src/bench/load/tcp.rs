//! TCP in bulk: some connections side by side, bytes counted where they arrive.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{CpuTime, open_at};
use crate::bench::{BenchError, Ends};
use crate::lab::Interrupt;

/// Bytes of a write and of a read. As iperf3: twice a super-packet.
const BLOCK_BYTES: usize = 128 << 10;

/// How long a call on a socket may take before its thread looks whether it is still wanted.
const GLANCE: Duration = Duration::from_millis(50);

/// How long a connection may take to come about.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long what is under way may take to arrive once sending has stopped.
const DRAIN: Duration = Duration::from_secs(1);

/// The congestion control every path is measured with, where the kernel has it. What a system chooses otherwise (bbr
/// paces, for one) would be measured in place of the path.
const CONGESTION_CONTROL: &[u8] = b"cubic";

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// Connections side by side, each with a thread at either end.
    pub streams: usize,
    /// The server sends.
    pub reverse: bool,
    /// How long they run before anything is counted.
    pub warm_up: Duration,
    /// How long is counted.
    pub time: Duration,
}

/// What it came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkReport {
    /// Bytes that arrived in `time`, after the warm-up.
    pub bytes: u64,
    /// How long was counted.
    pub time: Duration,
    /// Bytes that were sent in all, warm-up included.
    pub sent: u64,
    /// Bytes that arrived in all; less than `sent` only if the path was too slow to deliver the rest within a second.
    pub received: u64,
    /// Processor time spent in `time`.
    pub cpu: CpuTime,
    /// The congestion control that was used, as the kernel tells.
    pub congestion_control: String,
}

impl BulkReport {
    /// The rate of payload, in gigabits (10⁹) a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people; exact to one in 2⁵³")]
    pub fn gigabits_per_second(&self) -> f64 {
        self.bytes as f64 * 8e-9 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// `time` spent on processors, in seconds for each gigabyte (10⁹) that arrived.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "as above")]
    pub fn seconds_per_gigabyte(&self, time: Duration) -> f64 {
        time.as_secs_f64() / (self.bytes as f64 * 1e-9).max(f64::MIN_POSITIVE)
    }
}

/// Runs it between the two ends.
///
/// # Errors
/// When a connection does not come about or breaks, or no byte arrives; when `interrupt` is raised.
pub fn bulk(ends: &Ends, plan: Bulk, interrupt: &Interrupt) -> Result<BulkReport, BenchError> {
    let listener = open_at(&ends.server, "a TCP listener", || listen(SocketAddr::new(ends.server.address, 0)))?;
    let to = listener.local_addr().map_err(BenchError::load("listen"))?;
    let mut pairs = Vec::with_capacity(plan.streams);
    for _ in 0..plan.streams {
        interrupt.check()?;
        let attempt = || format!("connect {} with {to}", ends.client.address);
        let client =
            open_at(&ends.client, &format!("a TCP connection to {to}"), || connect(SocketAddr::new(ends.client.address, 0), to))?;
        let server = accept(&listener).map_err(BenchError::load(attempt()))?;
        pairs.push(if plan.reverse { (server, client) } else { (client, server) });
    }
    let congestion_control = pairs.first().map_or_else(String::new, |(sender, _)| congestion_control(sender));

    let state = State::default();
    thread::scope(|scope| {
        let threads: Vec<_> = pairs
            .iter()
            .map(|(sender, receiver)| (scope.spawn(|| state.send(sender)), scope.spawn(|| state.receive(receiver))))
            .collect();
        let counted = count(&state, plan, &ends.daemons, interrupt);
        state.stop.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        while threads.iter().any(|(_, receiver)| !receiver.is_finished()) && begin.elapsed() < DRAIN {
            thread::sleep(Duration::from_millis(1));
        }
        state.give_up.store(true, Ordering::Relaxed);
        let broken: Vec<_> =
            threads.into_iter().flat_map(|(one, other)| [join(one), join(other)]).filter_map(Result::err).collect();
        let (bytes, time, cpu) = counted?;
        if let Some(reason) = broken.into_iter().next() {
            return Err(BenchError::Load { attempt: format!("move bytes between {} and {to}", ends.client.address), reason });
        }
        if bytes == 0 {
            return Err(BenchError::Senseless(format!(
                "no byte of TCP from {} to {to} arrived in {time:?}",
                ends.client.address
            )));
        }
        let (sent, received) = (state.sent.load(Ordering::Relaxed), state.received.load(Ordering::Relaxed));
        Ok(BulkReport { bytes, time, sent, received, cpu, congestion_control })
    })
}

/// What the threads of one run share.
#[derive(Debug, Default)]
struct State {
    sent: AtomicU64,
    received: AtomicU64,
    /// Send no more.
    stop: AtomicBool,
    /// Wait no more for what was sent.
    give_up: AtomicBool,
}

impl State {
    fn send(&self, mut stream: &TcpStream) -> io::Result<()> {
        let block = vec![0x5a; BLOCK_BYTES];
        while !self.stop.load(Ordering::Relaxed) {
            match stream.write(&block) {
                Ok(written) => _ = self.sent.fetch_add(written as u64, Ordering::Relaxed),
                Err(error) if is_glance(&error) => {}
                Err(error) => return Err(error),
            }
        }
        stream.shutdown(Shutdown::Write)
    }

    fn receive(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut block = vec![0; BLOCK_BYTES];
        while !self.give_up.load(Ordering::Relaxed) {
            match stream.read(&mut block) {
                Ok(0) => return Ok(()),
                Ok(read) => _ = self.received.fetch_add(read as u64, Ordering::Relaxed),
                Err(error) if is_glance(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Lets it run, and says how many bytes arrived in which time, and what that cost.
fn count(state: &State, plan: Bulk, pids: &[u32], interrupt: &Interrupt) -> Result<(u64, Duration, CpuTime), BenchError> {
    let look = || CpuTime::now(pids).map_err(BenchError::load("read processor times"));
    interrupt.sleep(plan.warm_up)?;
    let (cpu, bytes, begin) = (look()?, state.received.load(Ordering::Relaxed), Instant::now());
    interrupt.sleep(plan.time)?;
    let (bytes, time) = (state.received.load(Ordering::Relaxed) - bytes, begin.elapsed());
    Ok((bytes, time, look()?.since(cpu)))
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    pin(&socket);
    socket.bind(&at.into())?;
    socket.listen(16)?;
    Ok(socket.into())
}

fn connect(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    pin(&socket);
    socket.bind(&from.into())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    glancing(socket.into())
}

fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    SockRef::from(listener).set_read_timeout(Some(PATIENCE))?;
    let (stream, _) = listener.accept()?;
    glancing(stream)
}

/// Where the kernel does not have it the system's own stays, and is told by [`congestion_control`].
fn pin(socket: &Socket) {
    drop(socket.set_tcp_congestion(CONGESTION_CONTROL));
}

fn congestion_control(stream: &TcpStream) -> String {
    let name = SockRef::from(stream).tcp_congestion().unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}

fn glancing(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_read_timeout(Some(GLANCE))?;
    stream.set_write_timeout(Some(GLANCE))?;
    Ok(stream)
}

/// Whether nothing happened but that time passed.
fn is_glance(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
