//! Receiving: the arrays that recvmmsg(2) works on, allocated once.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::control::{Control, Told};
use super::name::Name;
use crate::buf::{Datagram, Packet};

/// How often a receive goes past errors that some peer's ICMP left on the socket before it reports "nothing ready".
const STALE_ERRORS: usize = 16;

/// The arrays for up to `capacity` messages a call. Belongs to one worker.
pub struct Receiver {
    headers: Box<[libc::mmsghdr]>,
    pieces: Box<[libc::iovec]>,
    names: Box<[Name]>,
    controls: Box<[Control]>,
}

// SAFETY: what makes it !Send are the raw pointers inside `headers` and `pieces`. They are written at the start of every
// call for the messages of that call, used by that call only, and mean nothing in between.
unsafe impl Send for Receiver {}

impl Receiver {
    /// Arrays for `capacity` messages. The only place that allocates.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        // SAFETY: both are plain data, for which all zeros is a value.
        let (header, piece) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Self {
            headers: vec![header; capacity].into_boxed_slice(),
            pieces: vec![piece; capacity].into_boxed_slice(),
            names: vec![Name::none(); capacity].into_boxed_slice(),
            controls: vec![Control::EMPTY; capacity].into_boxed_slice(),
        }
    }

    /// See [`UdpSocket::receive`](super::UdpSocket::receive).
    #[inline]
    pub(super) fn receive(&mut self, fd: BorrowedFd<'_>, slots: &mut [(Packet, Datagram)]) -> io::Result<usize> {
        let offered = self.offer(slots);
        let received = self.receive_now(fd, offered)?;
        for ((packet, datagram), (header, name)) in slots.iter_mut().zip(self.headers.iter().zip(&self.names)).take(received) {
            let length = header.msg_len as usize;
            packet.set_len(length);
            let Told { ecn, segment_bytes } = Told::of(&header.msg_hdr);
            *datagram = Datagram {
                peer: name.endpoint().unwrap_or(Datagram::default().peer),
                ecn,
                segment_bytes: if usize::from(segment_bytes) < length { segment_bytes } else { 0 },
                may_fragment: false,
                truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                refused: None,
            };
        }
        Ok(received)
    }

    /// Points a message at each of `slots`, as far as there are messages; how many that are.
    #[inline]
    fn offer(&mut self, slots: &mut [(Packet, Datagram)]) -> usize {
        let Self { headers, pieces, names, controls } = self;
        let messages = headers.iter_mut().zip(pieces).zip(names.iter_mut().zip(controls));
        let mut offered = 0;
        for (((header, piece), (name, control)), (packet, _)) in messages.zip(slots) {
            let room = packet.room();
            *piece = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            let header = &mut header.msg_hdr;
            header.msg_iov = piece;
            header.msg_iovlen = 1;
            header.msg_name = ptr::from_mut(name).cast();
            header.msg_namelen = size_of::<Name>() as libc::socklen_t;
            header.msg_control = control.as_mut_ptr();
            header.msg_controllen = Control::BYTES as _;
            offered += 1;
        }
        offered
    }

    fn receive_now(&mut self, fd: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        for _ in 0..STALE_ERRORS {
            let (headers, flags) = (self.headers.as_mut_ptr(), libc::MSG_DONTWAIT);
            // SAFETY: the first `count` headers were pointed at this call's buffers, names and control words, all of which
            // outlive it; a null timeout is allowed.
            let received = unsafe { libc::recvmmsg(fd.as_raw_fd(), headers, count as libc::c_uint, flags, ptr::null_mut()) };
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
