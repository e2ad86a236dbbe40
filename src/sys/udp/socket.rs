//! The socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, Socket, Type};

use super::options::{self, BufferBytes};
use super::receiver::Receiver;
use super::sender::{Outgoing, Sender};
use crate::buf::{Datagram, Packet};
use crate::net::Endpoint;

/// A socket that could not be set up.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum UdpError {
    /// Somebody else has the port.
    #[error("UDP {address} is in use: another flanneld or felt on this host? choose another Backend.Port, on all nodes alike")]
    InUse { address: SocketAddr },
    /// The address is not one of this host's (any more).
    #[error("expected {address} to be an address of this host, it is not: check --iface and --public-ip")]
    NotLocal { address: SocketAddr },
    /// Anything else.
    #[error("cannot {attempt} for UDP {address}: {source}")]
    Other { attempt: &'static str, address: SocketAddr, source: io::Error },
}

/// A UDP socket bound to an address of the underlay, non-blocking, that tells and sets congestion marks.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
    local: SocketAddr,
    granted: BufferBytes,
}

impl UdpSocket {
    /// Binds to `address` in the calling thread's network namespace.
    pub fn bind(address: SocketAddr, buffers: BufferBytes) -> Result<Self, UdpError> {
        Self::prepare(address, buffers)?.bound(address)
    }

    /// Binds `count` sockets to the same `address`, among which the kernel spreads what comes in by its addresses and ports:
    /// one peer's datagrams always come to the same socket.
    ///
    /// The first is bound alone, so that an address somebody else has is refused as in [`bind`](Self::bind).
    pub fn bind_group(address: SocketAddr, buffers: BufferBytes, count: usize) -> Result<Vec<Self>, UdpError> {
        let other = |source| UdpError::Other { attempt: "share the port", address, source };
        let mut group = Vec::with_capacity(count);
        let mut shared = address;
        while group.len() < count {
            let socket = Self::prepare(address, buffers)?;
            let socket = if group.is_empty() {
                let socket = socket.bound(address)?;
                shared = socket.local;
                socket.socket.set_reuse_port(count > 1).map_err(other)?;
                socket
            } else {
                socket.socket.set_reuse_port(true).map_err(other)?;
                socket.bound(shared)?
            };
            group.push(socket);
        }
        Ok(group)
    }

    /// The address it is bound to, with the port the kernel chose if 0 was asked for.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The buffer sizes the kernel granted, in its own counting: twice what was asked for, if nothing was cut.
    #[must_use]
    pub fn granted(&self) -> BufferBytes {
        self.granted
    }

    /// How many datagrams found the receive buffer full since the socket was made, modulo 2^32. One system call.
    ///
    /// # Errors
    /// On kernels before 4.12, which do not say.
    pub fn receive_drops(&self) -> io::Result<u32> {
        options::receive_drops(self.socket.as_fd())
    }

    /// Receives messages that are ready into `slots`, from the first on, and says how many; 0 when none is ready.
    ///
    /// # Errors
    /// Only when the socket itself is unusable; what ICMP reported of some peer is skipped.
    #[inline]
    pub fn receive(&self, receiver: &mut Receiver, slots: &mut [(Packet, Datagram)]) -> io::Result<usize> {
        receiver.receive(self.socket.as_fd(), slots)
    }

    /// Sends `messages` in order in one system call, up to as many as `sender` has room for or until one is refused; says
    /// how many left. Nothing is 0.
    ///
    /// # Errors
    /// What the kernel has against the first of them.
    #[inline]
    pub fn send<'a>(&self, sender: &mut Sender, messages: impl Iterator<Item = Outgoing<'a>>) -> io::Result<usize> {
        sender.send(self.socket.as_fd(), messages)
    }

    /// From now on the kernel and routers on the way may split what is wider than the path, or not any more.
    ///
    /// For inner packets that may be split themselves. Trains never are.
    pub fn set_splitting(&self, may_split: bool) -> io::Result<()> {
        let mode = if may_split { libc::IP_PMTUDISC_DONT } else { libc::IP_PMTUDISC_DO };
        let (level, option) = if self.local.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)
        };
        options::set(self.socket.as_fd(), level, option, mode)
    }

    /// Whether datagrams of one peer may come in one message from now on. It takes slots of 64 KiB.
    ///
    /// # Errors
    /// `ENOPROTOOPT` before Linux 5.0.
    pub fn set_merging(&self, merge: bool) -> io::Result<()> {
        options::set(self.socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, libc::c_int::from(merge))
    }

    /// Whether the kernel knows trains at all; a device on the way out may still refuse them.
    #[must_use]
    pub fn knows_trains(&self) -> bool {
        options::read(self.socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
    }

    /// The path MTU to `peer` as the kernel knows it now, in bytes of a whole outer IP packet.
    ///
    /// Asks through a socket of its own, connected to the peer; nothing is sent.
    pub fn path_mtu(&self, peer: Endpoint) -> io::Result<u32> {
        let probe = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
        probe.bind(&SocketAddr::new(self.local.ip(), 0).into())?;
        probe.connect(&peer.into())?;
        let (level, option) =
            if peer.is_ipv4() { (libc::IPPROTO_IP, libc::IP_MTU) } else { (libc::IPPROTO_IPV6, libc::IPV6_MTU) };
        let mtu = options::read(probe.as_fd(), level, option)?;
        u32::try_from(mtu).map_err(io::Error::other)
    }

    /// The same socket by another descriptor, for another thread.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.try_clone()?, local: self.local, granted: self.granted })
    }

    /// All but the binding.
    fn prepare(address: SocketAddr, buffers: BufferBytes) -> Result<Self, UdpError> {
        let other = |attempt| move |source| UdpError::Other { attempt, address, source };
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))
            .map_err(other("open a socket"))?;
        let granted = options::set_buffers(&socket, socket.as_fd(), buffers).map_err(other("set buffer sizes"))?;
        let tell_marks = if address.is_ipv4() { socket.set_recv_tos_v4(true) } else { socket.set_recv_tclass_v6(true) };
        tell_marks.map_err(other("ask for congestion marks"))?;
        let socket = Self { socket, local: address, granted };
        socket.set_splitting(false).map_err(other("set path MTU discovery"))?;
        Ok(socket)
    }

    fn bound(self, address: SocketAddr) -> Result<Self, UdpError> {
        self.socket.bind(&address.into()).map_err(|source| match source.raw_os_error() {
            Some(libc::EADDRINUSE) => UdpError::InUse { address },
            Some(libc::EADDRNOTAVAIL) => UdpError::NotLocal { address },
            _ => UdpError::Other { attempt: "bind", address, source },
        })?;
        let local = self.socket.local_addr().ok().and_then(|local| local.as_socket()).unwrap_or(address);
        Ok(Self { local, ..self })
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
