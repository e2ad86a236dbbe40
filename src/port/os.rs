//! Ports on the operating system: a TUN queue and a UDP socket.
//!
//! Nothing here waits: a worker polls the descriptors and drains the ports until they have nothing more.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::{TunPort, UdpPort};
use crate::buf::{Batch, Datagram, Gather, Refusal, TrainLimit};
use crate::net::{Endpoint, Offload};
use crate::sys::tun::TunQueue;
use crate::sys::udp::{Messages, UdpSocket};

/// A queue of a TUN device, one packet a call.
///
/// Batch slots must be larger than the device's MTU: what does not fit a slot is cut off by the kernel without notice.
#[derive(Debug)]
pub struct OsTun {
    queue: TunQueue,
}

impl OsTun {
    /// Takes over `queue`.
    #[must_use]
    pub fn new(queue: TunQueue) -> Self {
        Self { queue }
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &TunQueue {
        &self.queue
    }
}

impl TunPort for OsTun {
    fn recv(&mut self, batch: &mut Batch<Offload>) -> io::Result<usize> {
        let mut count = 0;
        while let Some((packet, offload)) = batch.vacant() {
            *offload = Offload::default();
            match self.queue.read(packet.room()) {
                Ok(length) => {
                    packet.set_len(length);
                    batch.commit(1);
                    count += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // What was read is worth keeping; the next call meets the error again.
                Err(_) if count > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    fn send<M>(&mut self, batch: &mut Batch<M>) -> io::Result<usize> {
        let mut refused = 0;
        for (packet, _) in batch.used_mut() {
            loop {
                match self.queue.write(packet.bytes()) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) if is_gone(&error) => return Err(error),
                    // Of this packet (EINVAL: no IP packet) or of the moment (EIO: device down; ENOBUFS, ENOMEM).
                    Err(_) => refused += 1,
                }
                break;
            }
        }
        Ok(refused)
    }

    fn send_gathered(&mut self, packets: &Gather, memory: &Batch<Datagram>) -> io::Result<usize> {
        let mut refused = 0;
        for piece in packets.packets().flat_map(|packet| packet.originals()) {
            let bytes = memory.used().get(usize::from(piece.slot)).and_then(|(packet, _)| packet.bytes().get(piece.range()));
            match self.queue.write(bytes.unwrap_or_default()) {
                Ok(_) => {}
                Err(error) if is_gone(&error) => return Err(error),
                Err(_) => refused += 1,
            }
        }
        Ok(refused)
    }
}

impl AsFd for OsTun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

/// A UDP socket, many datagrams a call.
pub struct OsUdp {
    socket: UdpSocket,
    messages: Messages,
}

impl OsUdp {
    /// Takes over `socket`; up to `burst` datagrams go through one system call.
    #[must_use]
    pub fn new(socket: UdpSocket, burst: usize) -> Self {
        Self { socket, messages: Messages::new(burst) }
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The path MTU to `peer` as the kernel knows it now, in bytes of a whole outer packet.
    ///
    /// # Errors
    /// When there is no way to the peer.
    pub fn path_mtu(&self, peer: Endpoint) -> io::Result<u32> {
        self.socket.path_mtu(peer)
    }
}

impl UdpPort for OsUdp {
    fn recv(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize> {
        let vacant = batch.vacant_mut();
        if vacant.is_empty() {
            return Ok(0);
        }
        let count = self.socket.receive(&mut self.messages, vacant)?;
        batch.commit(count);
        Ok(count)
    }

    fn send(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize> {
        let refused = self.socket.send(&mut self.messages, batch.used_mut())?;
        if refused == 0 { Ok(0) } else { self.send_split(batch, refused) }
    }

    fn train(&self) -> TrainLimit {
        TrainLimit::ONE
    }
}

impl OsUdp {
    /// Sends again, one by one and split on the way, those of `batch` that were too wide for their path and may be split.
    /// Three system calls each, on a path that is narrower than its sender was told.
    #[cold]
    fn send_split(&mut self, batch: &mut Batch<Datagram>, mut refused: usize) -> io::Result<usize> {
        for slot in batch.used_mut() {
            if slot.1.refused.is_some_and(|refused| refused.reason == Refusal::TooBig) && slot.1.may_fragment {
                slot.1.refused = None;
                refused = refused - 1 + self.socket.send_split(&mut self.messages, std::slice::from_mut(slot))?;
            }
        }
        Ok(refused)
    }
}

impl AsFd for OsUdp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether a write's error means that the device is no more: EBADFD after its removal.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADFD | libc::ENODEV | libc::ENXIO | libc::EBADF))
}
