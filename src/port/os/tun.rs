//! A TUN queue as a port.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::standing::{Switch, TunStanding};
use super::supers::{self, Doubts, Inward, is_gone};
use super::{back, probe};
use crate::buf::{Batch, Datagram, Gather, Packet};
use crate::net::{Offload, Supers};
use crate::port::TunPort;
use crate::sys::tun::{TunError, TunQueue};

/// How much one call of `recv` takes at most, so that neither the other direction waits nor the cache overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimit {
    /// Packets, super-packets counted as one.
    pub packets: usize,
    /// Bytes after which no further packet is read.
    pub bytes: usize,
}

/// A queue of a TUN device, one packet or super-packet a call.
///
/// Batch slots must be larger than the device's MTU, and 64 KiB with super-packets: what does not fit a slot is cut off by
/// the kernel without notice.
#[derive(Debug)]
pub struct OsTun {
    queue: TunQueue,
    limit: TurnLimit,
    standing: Arc<TunStanding>,
    doubts: Doubts,
    misread: u64,
    /// For segments of what is not taken back whole.
    room: Packet,
}

impl TurnLimit {
    /// As many as the batch has room for.
    pub const NONE: Self = Self { packets: usize::MAX, bytes: usize::MAX };
}

impl OsTun {
    /// Takes over `queue`, through which the kernel hands out `supers`, as [`negotiate`](Self::negotiate) found.
    #[must_use]
    pub fn new(queue: TunQueue, limit: TurnLimit, supers: Supers) -> Self {
        let (tso, uso) = (Switch::new(supers.tcp), Switch::new(supers.udp));
        Self::with(queue, limit, Arc::new(TunStanding { tso, uso }))
    }

    /// Has the kernel hand out the most it can of `wanted` through the device of `queue`, once all its queues are open.
    #[must_use]
    pub fn negotiate(queue: &TunQueue, wanted: Supers) -> Supers {
        let wanted = if queue.has_vnet() { wanted } else { Supers::default() };
        // The last is what the device was opened with, so it does not matter whether it can be set again.
        let ladder = [wanted, Supers { udp: false, ..wanted }, Supers::default()];
        ladder.into_iter().find(|supers| queue.set_supers(*supers).is_ok()).unwrap_or_default()
    }

    /// Finds out whether the device takes super-packets, and does without those it does not. To be asked once the device is
    /// up; `false` if it takes nothing at all now, so that nothing was found out.
    ///
    /// # Errors
    /// Only when the device is gone.
    pub fn probe(&mut self) -> io::Result<bool> {
        probe::probe(&mut self.queue, &self.standing)
    }

    /// The same port for another thread: one reads, the other writes.
    pub fn try_clone(&self) -> Result<Self, TunError> {
        Ok(Self::with(self.queue.try_clone()?, self.limit, Arc::clone(&self.standing)))
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &TunQueue {
        &self.queue
    }

    /// Gives the queue back.
    #[must_use]
    pub fn into_queue(self) -> TunQueue {
        self.queue
    }

    /// Which offloads are in use, to be watched from elsewhere.
    #[must_use]
    pub fn standing(&self) -> &Arc<TunStanding> {
        &self.standing
    }

    /// How many packets were read, since the port was made, that asked for something unknown to be done and so were dropped.
    #[must_use]
    pub fn misread(&self) -> u64 {
        self.misread
    }

    fn with(queue: TunQueue, limit: TurnLimit, standing: Arc<TunStanding>) -> Self {
        let room = Packet::with_capacity(back::SEGMENT_BYTES);
        Self { queue, limit, standing, doubts: Doubts::default(), misread: 0, room }
    }
}

impl TunPort for OsTun {
    fn recv(&mut self, batch: &mut Batch<Offload>) -> io::Result<usize> {
        let (mut count, mut bytes, mut misread) = (0, 0, 0);
        while count + misread < self.limit.packets
            && bytes < self.limit.bytes
            && let Some((packet, offload)) = batch.vacant()
        {
            match self.queue.read(packet) {
                Ok(read) => {
                    *offload = read;
                    bytes += packet.bytes().len();
                    batch.commit(1);
                    count += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => misread += 1,
                // What was read is worth keeping; the next call meets the error again.
                Err(_) if count > 0 => break,
                Err(error) => return Err(error),
            }
        }
        self.misread += misread as u64;
        Ok(count)
    }

    fn send<M>(&mut self, batch: &mut Batch<M>) -> io::Result<usize> {
        let mut refused = 0;
        for (packet, _) in batch.used() {
            match Inward::write(&mut self.queue, &Offload::default(), std::iter::once(packet.bytes())) {
                Ok(()) => {}
                Err(error) if is_gone(&error) => return Err(error),
                // Of this packet (EINVAL: no IP packet) or of the moment (EIO: device down; ENOBUFS, ENOMEM).
                Err(_) => refused += 1,
            }
        }
        Ok(refused)
    }

    fn supers(&self) -> Supers {
        Supers { tcp: self.standing.tso.is_on(), udp: self.standing.uso.is_on() }
    }

    fn send_gathered(&mut self, packets: &Gather, memory: &Batch<Datagram>) -> io::Result<usize> {
        supers::send(&mut self.queue, &self.standing, &mut self.doubts, packets, memory)
    }

    fn send_back(&mut self, batch: &Batch<Offload>) -> io::Result<usize> {
        back::send(&mut self.queue, &self.standing, &mut self.doubts, batch, self.room.room())
    }
}

impl Inward for TunQueue {
    #[inline]
    fn write<'a>(&mut self, offload: &Offload, parts: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        // A queue does not wait, so no signal interrupts a write.
        Self::write(self, offload, parts)
    }
}

impl AsFd for OsTun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}
