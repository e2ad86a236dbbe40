//! Batches of datagrams in one system call: the arrays that recvmmsg(2) and sendmmsg(2) work on, allocated once.

use std::io;
use std::net::{SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use crate::buf::{Datagram, Packet, Refusal};
use crate::net::{Ecn, Endpoint};
use crate::sys::poll::{self, Interest};

/// Words of control data a message has room for: one number with its header takes three.
const CONTROL_WORDS: usize = 8;
/// How often a receive goes past errors that some peer's ICMP left on the socket before it reports "nothing ready".
const STALE_ERRORS: usize = 16;
/// How long a batch waits, once, for a full send buffer to drain before the rest of it is given up.
const DRAIN: Duration = Duration::from_millis(1);

/// The arrays for up to `capacity` datagrams a call. Belongs to one worker.
pub struct Messages {
    headers: Box<[libc::mmsghdr]>,
    pieces: Box<[libc::iovec]>,
    names: Box<[Name]>,
    controls: Box<[[u64; CONTROL_WORDS]]>,
}

// SAFETY: what makes it !Send are the raw pointers inside `headers` and `pieces`. They are written at the start of every
// call for the messages of that call, used by that call only, and mean nothing in between.
unsafe impl Send for Messages {}

/// A socket address of either family, as the kernel reads and writes it.
#[derive(Clone, Copy)]
#[repr(C)]
union Name {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Messages {
    /// Arrays for `capacity` datagrams. The only place that allocates.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        // SAFETY: mmsghdr, iovec and the socket addresses are plain data, for which all zeros is a value.
        let (header, piece, name) = unsafe { (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed()) };
        Self {
            headers: vec![header; capacity].into_boxed_slice(),
            pieces: vec![piece; capacity].into_boxed_slice(),
            names: vec![name; capacity].into_boxed_slice(),
            controls: vec![[0; CONTROL_WORDS]; capacity].into_boxed_slice(),
        }
    }

    /// See [`UdpSocket::receive`](super::UdpSocket::receive).
    pub(super) fn receive(&mut self, fd: BorrowedFd<'_>, slots: &mut [(Packet, Datagram)]) -> io::Result<usize> {
        let count = slots.len().min(self.headers.len());
        for (index, (packet, _)) in slots.iter_mut().take(count).enumerate() {
            self.point(index, packet.room());
            self.offer_control(index);
        }
        let received = self.receive_now(fd, count)?;
        for ((packet, datagram), index) in slots.iter_mut().zip(0..received) {
            let (Some(header), Some(name)) = (self.headers.get(index), self.names.get(index)) else { break };
            packet.set_len(header.msg_len as usize);
            *datagram = Datagram {
                peer: name.endpoint().unwrap_or(Datagram::default().peer),
                ecn: mark_of(&header.msg_hdr),
                segment_bytes: 0,
                may_fragment: false,
                truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                refused: None,
            };
        }
        Ok(received)
    }

    /// See [`UdpSocket::send`](super::UdpSocket::send).
    pub(super) fn send(&mut self, fd: BorrowedFd<'_>, slots: &mut [(Packet, Datagram)]) -> io::Result<usize> {
        let mut refused = 0;
        let capacity = self.headers.len().max(1);
        for part in slots.chunks_mut(capacity) {
            for (index, (packet, datagram)) in part.iter_mut().enumerate() {
                datagram.refused = None;
                self.point(index, packet.bytes_mut());
                self.address(index, datagram.peer);
                self.mark(index, datagram);
            }
            refused += self.send_all(fd, part)?;
        }
        Ok(refused)
    }

    fn receive_now(&mut self, fd: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        for _ in 0..STALE_ERRORS {
            // SAFETY: the first `count` headers were pointed at this call's buffers, names and control words, all of which
            // outlive it; a null timeout is allowed.
            let received = unsafe {
                libc::recvmmsg(
                    fd.as_raw_fd(),
                    self.headers.as_mut_ptr(),
                    count as libc::c_uint,
                    libc::MSG_DONTWAIT,
                    ptr::null_mut(),
                )
            };
            let Ok(received) = usize::try_from(received) else {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOMEM | libc::ENOBUFS) => return Ok(0),
                    Some(errno) if is_of_a_peer(errno) || errno == libc::EINTR => continue,
                    _ => return Err(error),
                }
            };
            return Ok(received);
        }
        Ok(0)
    }

    fn send_all(&mut self, fd: BorrowedFd<'_>, part: &mut [(Packet, Datagram)]) -> io::Result<usize> {
        let (mut next, mut refused, mut stale, mut waited) = (0, 0, 0, false);
        while let Some(rest) = self.headers.get_mut(next..part.len()).filter(|rest| !rest.is_empty()) {
            // SAFETY: these headers were pointed at this call's bytes, names and control words, all of which outlive it.
            let sent =
                unsafe { libc::sendmmsg(fd.as_raw_fd(), rest.as_mut_ptr(), rest.len() as libc::c_uint, libc::MSG_DONTWAIT) };
            if let Ok(sent) = usize::try_from(sent) {
                next += sent;
                continue;
            }
            // The error is that of the first message not sent.
            let error = io::Error::last_os_error();
            let refusal = match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                // Left by an earlier datagram, and taken by being told: this one has not been tried.
                Some(libc::ECONNREFUSED) if stale < STALE_ERRORS => {
                    stale += 1;
                    continue;
                }
                Some(libc::EAGAIN) if !waited => {
                    waited = true;
                    poll::wait(&mut [Interest::writable(fd)], Some(DRAIN))?;
                    continue;
                }
                Some(libc::EAGAIN) => {
                    let rest = part.get_mut(next..).unwrap_or_default();
                    for (_, datagram) in rest.iter_mut() {
                        datagram.refuse(Refusal::NoBuffer);
                    }
                    return Ok(refused + rest.len());
                }
                Some(libc::EMSGSIZE) => Refusal::TooBig,
                Some(libc::ENOBUFS | libc::ENOMEM) => Refusal::NoBuffer,
                Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT) | None => return Err(error),
                Some(_) => Refusal::Other,
            };
            if let Some((_, datagram)) = part.get_mut(next) {
                datagram.refuse(refusal);
            }
            next += 1;
            refused += 1;
        }
        Ok(refused)
    }

    /// Points message `index` at `bytes` and at its own name.
    fn point(&mut self, index: usize, bytes: &mut [u8]) {
        let (Some(header), Some(piece)) = (self.headers.get_mut(index), self.pieces.get_mut(index)) else { return };
        let Some(name) = self.names.get_mut(index) else { return };
        *piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let header = &mut header.msg_hdr;
        header.msg_iov = piece;
        header.msg_iovlen = 1;
        header.msg_name = ptr::from_mut(name).cast();
        header.msg_namelen = size_of::<Name>() as libc::socklen_t;
        header.msg_control = ptr::null_mut();
        header.msg_controllen = 0;
        header.msg_flags = 0;
    }

    /// Gives message `index` room for control data.
    fn offer_control(&mut self, index: usize) {
        let (Some(header), Some(control)) = (self.headers.get_mut(index), self.controls.get_mut(index)) else { return };
        header.msg_hdr.msg_control = control.as_mut_ptr().cast();
        header.msg_hdr.msg_controllen = size_of_val(control) as _;
    }

    fn address(&mut self, index: usize, peer: Endpoint) {
        let (Some(header), Some(name)) = (self.headers.get_mut(index), self.names.get_mut(index)) else { return };
        header.msg_hdr.msg_namelen = name.set(peer);
    }

    /// Puts the congestion mark on message `index`; none is what the kernel sends without being told.
    fn mark(&mut self, index: usize, datagram: &Datagram) {
        if datagram.ecn == Ecn::NotEct {
            return;
        }
        self.offer_control(index);
        let Some(header) = self.headers.get_mut(index).map(|header| &mut header.msg_hdr) else { return };
        let (level, kind) =
            if datagram.peer.is_ipv4() { (libc::IPPROTO_IP, libc::IP_TOS) } else { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) };
        let value = datagram.ecn as libc::c_int;
        // SAFETY: the control words are aligned for cmsghdr and larger than one number's space, so the first header exists
        // and its data lies inside; the value is written unaligned.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size_of::<libc::c_int>() as libc::c_uint) as _;
            let control = libc::CMSG_FIRSTHDR(header);
            (*control).cmsg_level = level;
            (*control).cmsg_type = kind;
            (*control).cmsg_len = libc::CMSG_LEN(size_of::<libc::c_int>() as libc::c_uint) as _;
            libc::CMSG_DATA(control).cast::<libc::c_int>().write_unaligned(value);
        }
    }
}

impl Name {
    fn set(&mut self, endpoint: Endpoint) -> libc::socklen_t {
        match endpoint {
            Endpoint::V4(endpoint) => {
                let address = libc::in_addr { s_addr: u32::from_ne_bytes(endpoint.ip().octets()) };
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: endpoint.port().to_be(),
                    sin_addr: address,
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            Endpoint::V6(endpoint) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: endpoint.port().to_be(),
                    sin6_flowinfo: endpoint.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: endpoint.ip().octets() },
                    sin6_scope_id: endpoint.scope_id(),
                };
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        }
    }

    fn endpoint(&self) -> Option<Endpoint> {
        // SAFETY: every byte of the union was initialised, and every bit pattern is a value of the plain fields read here;
        // the family, first in both addresses, says which of them the kernel wrote.
        unsafe {
            match libc::c_int::from(self.family) {
                libc::AF_INET => {
                    let address = self.v4.sin_addr.s_addr.to_ne_bytes();
                    Some(SocketAddrV4::new(address.into(), u16::from_be(self.v4.sin_port)).into())
                }
                libc::AF_INET6 => {
                    let (port, scope) = (u16::from_be(self.v6.sin6_port), self.v6.sin6_scope_id);
                    Some(SocketAddrV6::new(self.v6.sin6_addr.s6_addr.into(), port, 0, scope).into())
                }
                _ => None,
            }
        }
    }
}

/// The congestion mark that came with a received message.
fn mark_of(header: &libc::msghdr) -> Ecn {
    // SAFETY: the kernel wrote the control data into the words `header` points at and set its length, so walking it stays
    // inside; the TOS is one byte, the traffic class a number, read unaligned.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = control.as_ref() {
            let data = libc::CMSG_DATA(control);
            match (found.cmsg_level, found.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => return Ecn::from_tos(*data),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    return Ecn::from_tos(data.cast::<libc::c_int>().read_unaligned() as u8);
                }
                _ => control = libc::CMSG_NXTHDR(header, control),
            }
        }
    }
    Ecn::NotEct
}

/// Errors that ICMP left on the socket: news of some peer, not of the socket.
fn is_of_a_peer(errno: i32) -> bool {
    matches!(
        errno,
        libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENOPROTOOPT
            | libc::EPROTO
            | libc::EMSGSIZE
    )
}
