//! A UDP socket as a port.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use super::standing::UdpStanding;
use super::trains::{self, Outlet};
use crate::buf::{Batch, Datagram, TrainLimit};
use crate::net::Endpoint;
use crate::port::UdpPort;
use crate::sys::poll::{self, Interest};
use crate::sys::udp::{Outgoing, Receiver, Sender, UdpSocket};

/// How long a batch waits, once, for a full send buffer to drain before the rest of it is given up.
const DRAIN: Duration = Duration::from_millis(1);
/// Bytes of a train. Eighteen and fifty-eight more would be taken (65,507 and, over IPv6, 65,527), but then the frame is larger
/// than devices take whole (`gso_max_size`, 65,536 bytes with link header and perhaps a VLAN tag), and the kernel cuts it up
/// itself, in passing. Tried on 6.18: 65,493 and 65,473 bytes cross a veth in one piece, one more byte does so in 47.
const TRAIN_V4: usize = 65_535 - LINK_HEADER - 20 - 8;
const TRAIN_V6: usize = 65_535 - LINK_HEADER - 40 - 8;
const LINK_HEADER: usize = 14 + 4;

/// Which offloads a socket may make use of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOffloads {
    /// Trains sent as one message (`UDP_SEGMENT`).
    pub gso: bool,
    /// Trains received as one message (`UDP_GRO`); takes slots of 64 KiB.
    pub gro: bool,
}

/// A UDP socket, many datagrams a call.
pub struct OsUdp {
    socket: UdpSocket,
    receiver: Receiver,
    sender: Sender,
    burst: usize,
    standing: Arc<UdpStanding>,
}

impl UdpOffloads {
    /// One datagram a message.
    pub const NONE: Self = Self { gso: false, gro: false };
    /// Whatever the kernel has.
    pub const ALL: Self = Self { gso: true, gro: true };
}

impl OsUdp {
    /// Takes over `socket`; up to `burst` messages go through one system call. Of the offloads `wanted` those are used that
    /// the kernel has.
    #[must_use]
    pub fn new(socket: UdpSocket, burst: usize, wanted: UdpOffloads) -> Self {
        let gro = socket.set_merging(wanted.gro).is_ok() && wanted.gro;
        let gso = wanted.gso && socket.knows_trains();
        let standing = Arc::new(UdpStanding::new(gso, gro));
        Self { socket, receiver: Receiver::new(burst), sender: Sender::new(burst), burst, standing }
    }

    /// The same port for another thread: one receives, the other sends.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn try_clone(&self) -> io::Result<Self> {
        let (socket, burst, standing) = (self.socket.try_clone()?, self.burst, Arc::clone(&self.standing));
        Ok(Self { socket, receiver: Receiver::new(burst), sender: Sender::new(burst), burst, standing })
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Which offloads are in use, to be watched from elsewhere.
    #[must_use]
    pub fn standing(&self) -> &Arc<UdpStanding> {
        &self.standing
    }
}

impl UdpPort for OsUdp {
    fn recv(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize> {
        let vacant = batch.vacant_mut();
        if vacant.is_empty() {
            return Ok(0);
        }
        let count = self.socket.receive(&mut self.receiver, vacant)?;
        batch.commit(count);
        Ok(count)
    }

    fn send(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize> {
        let mut outlet = SocketOutlet { socket: &self.socket, sender: &mut self.sender };
        trains::send(&mut outlet, &self.standing, batch.used_mut())
    }

    fn path_mtu(&self, peer: Endpoint) -> Option<u16> {
        let mtu = self.socket.path_mtu(peer).ok()?;
        Some(u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    fn train(&self) -> TrainLimit {
        match self.standing.segments() {
            1 => TrainLimit::ONE,
            datagrams => TrainLimit { datagrams, bytes: if self.socket.local().is_ipv4() { TRAIN_V4 } else { TRAIN_V6 } },
        }
    }
}

impl AsFd for OsUdp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

struct SocketOutlet<'a> {
    socket: &'a UdpSocket,
    sender: &'a mut Sender,
}

impl Outlet for SocketOutlet<'_> {
    #[inline]
    fn send<'a>(&mut self, messages: impl Iterator<Item = Outgoing<'a>>) -> io::Result<usize> {
        self.socket.send(self.sender, messages)
    }

    fn set_splitting(&mut self, may_split: bool) -> io::Result<()> {
        self.socket.set_splitting(may_split)
    }

    fn wait_for_room(&mut self) -> io::Result<()> {
        poll::wait(&mut [Interest::writable(self.socket.as_fd())], Some(DRAIN)).map(drop)
    }
}
