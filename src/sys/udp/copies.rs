//! Datagrams by the heap for load generators: many alike in one sendmmsg(2), many counted in one recvmmsg(2).
//!
//! Each datagram is given to the kernel as one packet of its own; nothing here asks for segmentation or merging.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::options::{self, BufferBytes};

/// Bytes at the start of each datagram that tell one series from another.
pub const TAG_BYTES: usize = 8;

/// Sends copies of one datagram through a connected, non-blocking socket.
pub struct CopySender {
    socket: Socket,
    payload: Box<[u8]>,
    headers: Box<[libc::mmsghdr]>,
}

impl CopySender {
    /// A socket in the calling thread's network namespace that sends datagrams of `payload_bytes`, [`TAG_BYTES`] at least,
    /// to `to`, up to `burst` a call.
    pub fn connect(to: SocketAddr, payload_bytes: usize, burst: usize) -> io::Result<Self> {
        let socket = open(to, Type::DGRAM.nonblocking())?;
        socket.connect(&to.into())?;
        let payload = vec![0; payload_bytes.max(TAG_BYTES)].into_boxed_slice();
        Ok(Self { socket, payload, headers: headers(burst) })
    }

    /// Sends `count` copies that begin with `tag`, at most `burst` of them, and says how many the kernel took; 0 when it has
    /// no room. Whether they arrive is the path's affair: an ICMP error about earlier ones is passed over.
    pub fn send(&mut self, tag: u64, count: usize) -> io::Result<usize> {
        if let Some(start) = self.payload.first_chunk_mut() {
            *start = tag.to_be_bytes();
        }
        let mut piece = libc::iovec { iov_base: self.payload.as_mut_ptr().cast(), iov_len: self.payload.len() };
        let count = count.min(self.headers.len());
        for header in self.headers.iter_mut().take(count) {
            header.msg_hdr.msg_iov = &raw mut piece;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `count` headers point at `piece`, and that at the payload; both live through the call, which
        // only reads them. No header has a name or control data.
        let sent = unsafe {
            libc::sendmmsg(self.socket.as_raw_fd(), self.headers.as_mut_ptr(), count as libc::c_uint, libc::MSG_DONTWAIT)
        };
        usize::try_from(sent).or_else(|_| none_yet())
    }
}

/// Receives datagrams to count them.
pub struct TagCounter {
    socket: Socket,
    granted: usize,
    room: Box<[u8]>,
    pieces: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    slot_bytes: usize,
}

// SAFETY: what makes them !Send are the raw pointers inside headers and pieces. They are written at the start of every
// call and mean nothing in between.
unsafe impl Send for CopySender {}
// SAFETY: as above.
unsafe impl Send for TagCounter {}

impl TagCounter {
    /// A socket bound to `at` in the calling thread's network namespace, with room for datagrams of `slot_bytes`, up to
    /// `burst` a call, that waits up to `patience` for the first.
    pub fn bind(at: SocketAddr, slot_bytes: usize, burst: usize, patience: Duration) -> io::Result<Self> {
        let socket = open(at, Type::DGRAM)?;
        let granted = options::set_buffers(&socket, socket.as_fd(), BufferBytes::default())?.receive;
        socket.set_read_timeout(Some(patience))?;
        socket.bind(&at.into())?;
        let slot_bytes = slot_bytes.max(TAG_BYTES);
        let piece = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Ok(Self {
            socket,
            granted,
            room: vec![0; slot_bytes * burst].into_boxed_slice(),
            pieces: vec![piece; burst].into_boxed_slice(),
            headers: headers(burst),
            slot_bytes,
        })
    }

    /// Where it is bound.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// The receive buffer the kernel granted, in its own counting.
    #[must_use]
    pub fn granted(&self) -> usize {
        self.granted
    }

    /// Waits for datagrams and says how many of those that are there begin with `tag`; 0 when the patience is at its end.
    pub fn receive(&mut self, tag: u64) -> io::Result<usize> {
        let slots = self.room.chunks_exact_mut(self.slot_bytes);
        for ((header, piece), slot) in self.headers.iter_mut().zip(self.pieces.iter_mut()).zip(slots) {
            *piece = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: every header points at its piece and every piece at its own slot of `room`, all of which live through the
        // call; no header has a name or control data; a null timeout is allowed.
        let received = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        };
        let received = usize::try_from(received).or_else(|_| none_yet())?;
        let tag = tag.to_be_bytes();
        let filled = self.room.chunks_exact(self.slot_bytes).zip(self.headers.iter()).take(received);
        Ok(filled.filter(|(slot, header)| header.msg_len as usize >= TAG_BYTES && slot.starts_with(&tag)).count())
    }
}

impl AsFd for TagCounter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), kind, Some(Protocol::UDP))
}

fn headers(count: usize) -> Box<[libc::mmsghdr]> {
    // SAFETY: mmsghdr is plain data, for which all zeros is a value: no name, no pieces, no control data.
    let header = unsafe { std::mem::zeroed() };
    vec![header; count].into_boxed_slice()
}

/// Judges the last failure: 0 for what passes by itself.
fn none_yet() -> io::Result<usize> {
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(
            libc::EAGAIN
            | libc::EINTR
            | libc::ENOBUFS
            | libc::ENOMEM
            | libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH,
        ) => Ok(0),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bears_the_tag_is_counted_and_nothing_else() {
        let mut counter = TagCounter::bind("127.0.0.1:0".parse().unwrap(), 64, 16, Duration::from_millis(200)).unwrap();
        let mut sender = CopySender::connect(counter.local().unwrap(), 64, 16).unwrap();
        assert_eq!(sender.send(7, 99).unwrap(), 16);
        assert_eq!(sender.send(8, 5).unwrap(), 5);
        assert_eq!(sender.send(7, 3).unwrap(), 3);
        let mut found = 0;
        for _ in 0..3 {
            found += counter.receive(7).unwrap();
        }
        assert_eq!(found, 19);
        assert_eq!(counter.receive(7).unwrap(), 0);
        assert!(counter.granted() > 0);
    }

    #[test]
    fn a_closed_port_is_no_failure_of_the_sender() {
        let to = TagCounter::bind("127.0.0.1:0".parse().unwrap(), 64, 1, Duration::from_millis(1)).unwrap().local().unwrap();
        let mut sender = CopySender::connect(to, 64, 4).unwrap();
        for _ in 0..10 {
            sender.send(1, 4).unwrap();
        }
    }
}
