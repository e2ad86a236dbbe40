//! A TCP transfer between two places, checked byte for byte.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::open_in;
use super::pattern::{BLOCK_BYTES, Checker, fill};
use crate::lab::{Interrupt, LabError};
use crate::sys::netns::Netns;

/// How long one call on a socket may take before the thread looks whether it is still wanted.
const GLANCE: Duration = Duration::from_millis(100);
/// Bytes of the receiver's closing word: how many it found right.
const RECEIPT_BYTES: usize = size_of::<u64>();

/// When a transfer is at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// After at least this many bytes, rounded up to whole blocks of 64 KiB.
    Bytes(u64),
    /// After this time.
    Time(Duration),
}

/// A transfer under way.
#[derive(Debug)]
pub struct Transfer {
    shared: Arc<Shared>,
    stall: Duration,
    sender: Option<JoinHandle<io::Result<TransferReport>>>,
    receiver: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    received: AtomicU64,
}

/// What a transfer came to: every byte sent arrived, once, in order and unharmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferReport {
    /// Bytes sent and found right by the receiver.
    pub bytes: u64,
    /// From the first byte to the receiver's word that it has all.
    pub time: Duration,
}

impl TransferReport {
    /// The rate of payload, in bits a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people; exact to one in 2⁵³")]
    pub fn bits_per_second(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl Transfer {
    /// Begins a transfer from one place to another, whose address is `to`. It fails once nothing has moved for `stall`.
    ///
    /// # Errors
    /// When sockets cannot be had in these places.
    pub fn start(sender: &Netns, receiver: &Netns, to: Ipv4Addr, amount: Amount, stall: Duration) -> Result<Self, LabError> {
        // The receiver's side stands before the sender's begins.
        let listener = open_in(receiver, "a TCP listener", || TcpListener::bind((to, 0)))?;
        let address = listener.local_addr().map_err(LabError::step("listen"))?;
        let SocketAddr::V4(address) = address else {
            return Err(LabError::Probe(format!("expected an IPv4 listener, found {address}")));
        };
        let socket = open_in(sender, "a TCP socket", || Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)))?;
        let shared = Arc::new(Shared::default());
        let spawned = LabError::step::<io::Error>("start a thread that transfers");
        let (at_receiver, at_sender) = (Arc::clone(&shared), Arc::clone(&shared));
        let start = || -> io::Result<_> {
            let receiver = thread::Builder::new()
                .name("lab-receive".to_owned())
                .spawn(move || receive(&listener, &Watch { shared: &at_receiver, stall }))?;
            let sender = thread::Builder::new()
                .name("lab-send".to_owned())
                .spawn(move || send(socket, address, amount, &Watch { shared: &at_sender, stall }))?;
            Ok((sender, receiver))
        };
        let (sender, receiver) = start().map_err(spawned)?;
        Ok(Self { shared, stall, sender: Some(sender), receiver: Some(receiver) })
    }

    /// Bytes that have arrived and are right.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Whether it is at its end, good or bad.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.sender.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When nothing moved for too long, a byte was wrong, or a socket failed. [`LabError::Interrupted`] once raised.
    pub fn finish(mut self, interrupt: &Interrupt) -> Result<TransferReport, LabError> {
        while !self.is_finished() {
            interrupt.sleep(GLANCE)?;
        }
        let received = self.receiver.take().map_or(Ok(()), join);
        let sent = self.sender.take().map_or_else(|| Err(io::ErrorKind::NotConnected.into()), join);
        let told = |side: &str, error: &io::Error| {
            let stalled = matches!(error.kind(), io::ErrorKind::TimedOut);
            let reason = if stalled { format!("nothing moved for {:?}", self.stall) } else { error.to_string() };
            LabError::Probe(format!("TCP transfer failed at the {side}, {} bytes in: {reason}", self.received()))
        };
        // Of two failures the receiver's says more: it knows of wrong bytes.
        received.map_err(|error| told("receiver", &error))?;
        sent.map_err(|error| told("sender", &error))
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // Not joined, lest a panic of ours meets one of theirs; they end within a glance.
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn send(socket: Socket, to: SocketAddrV4, amount: Amount, watch: &Watch<'_>) -> io::Result<TransferReport> {
    socket.connect_timeout(&to.into(), watch.stall)?;
    let mut stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(GLANCE))?;
    stream.set_read_timeout(Some(GLANCE))?;
    let begin = Instant::now();
    let mut block = vec![0; BLOCK_BYTES];
    let mut bytes = 0;
    for number in 0.. {
        let is_enough = match amount {
            Amount::Bytes(wanted) => bytes >= wanted,
            Amount::Time(wanted) => begin.elapsed() >= wanted,
        };
        if is_enough {
            break;
        }
        fill(number, &mut block);
        let mut rest = block.as_slice();
        while !rest.is_empty() {
            let written = watch.patiently(|| (&stream).write(rest))?;
            rest = rest.get(written..).unwrap_or_default();
        }
        bytes += BLOCK_BYTES as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut receipt = [0; RECEIPT_BYTES];
    let mut filled = 0;
    while filled < RECEIPT_BYTES {
        match watch.patiently(|| stream.read(&mut receipt[filled..]))? {
            0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the receiver gave up")),
            read => filled += read,
        }
    }
    let right = u64::from_le_bytes(receipt);
    if right == bytes {
        Ok(TransferReport { bytes, time: begin.elapsed() })
    } else {
        Err(io::Error::other(format!("{bytes} bytes were sent, {right} arrived")))
    }
}

fn receive(listener: &TcpListener, watch: &Watch<'_>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let (mut stream, _) = watch.patiently(|| {
        listener.accept().inspect_err(|error| {
            if error.kind() == io::ErrorKind::WouldBlock {
                thread::sleep(Duration::from_millis(1));
            }
        })
    })?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(GLANCE))?;
    let mut buffer = vec![0; 4 * BLOCK_BYTES];
    let mut checker = Checker::new();
    loop {
        let read = watch.patiently(|| stream.read(&mut buffer))?;
        if read == 0 {
            break;
        }
        let bytes = buffer.get(..read).unwrap_or_default();
        checker
            .check(bytes)
            .map_err(|position| io::Error::new(io::ErrorKind::InvalidData, format!("byte {position} is wrong")))?;
        watch.shared.received.store(checker.position(), Ordering::Relaxed);
    }
    stream.write_all(&checker.position().to_le_bytes())
}

/// How long one side of a transfer goes on.
struct Watch<'a> {
    shared: &'a Shared,
    stall: Duration,
}

impl Watch<'_> {
    /// Repeats a call that has a short time-out until it succeeds, has stalled for too long, or is no longer wanted.
    fn patiently<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let begin = Instant::now();
        loop {
            match call() {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                    ) =>
                {
                    if self.shared.stop.load(Ordering::Relaxed) {
                        return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "called off"));
                    }
                    if begin.elapsed() > self.stall {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                other => return other,
            }
        }
    }
}
