//! Sending: the arrays that sendmmsg(2) works on, allocated once.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::control::Control;
use super::name::Name;
use crate::net::{Ecn, Endpoint};

/// The arrays for up to `capacity` messages a call. Belongs to one worker.
pub struct Sender {
    headers: Box<[libc::mmsghdr]>,
    pieces: Box<[libc::iovec]>,
    names: Box<[Name]>,
    controls: Box<[Control]>,
}

// SAFETY: what makes it !Send are the raw pointers inside `headers` and `pieces`. They are written at the start of every
// call for the messages of that call, used by that call only, and mean nothing in between.
unsafe impl Send for Sender {}

/// One message: a datagram, or a train that the kernel is to cut into datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// What it carries.
    pub bytes: &'a [u8],
    /// Where it goes.
    pub peer: Endpoint,
    /// The congestion mark of each datagram.
    pub ecn: Ecn,
    /// Bytes of each datagram but the last. 0: it is one datagram; never to be set for what is one, some drivers refuse that.
    pub segment_bytes: u16,
}

impl Sender {
    /// Arrays for `capacity` messages, at least one. The only place that allocates.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        // SAFETY: both are plain data, for which all zeros is a value.
        let (header, piece) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Self {
            headers: vec![header; capacity].into_boxed_slice(),
            pieces: vec![piece; capacity].into_boxed_slice(),
            names: vec![Name::none(); capacity].into_boxed_slice(),
            controls: vec![Control::EMPTY; capacity].into_boxed_slice(),
        }
    }

    /// See [`UdpSocket::send`](super::UdpSocket::send).
    #[inline]
    pub(super) fn send<'a>(&mut self, fd: BorrowedFd<'_>, messages: impl Iterator<Item = Outgoing<'a>>) -> io::Result<usize> {
        let loaded = self.load(messages);
        if loaded == 0 {
            return Ok(0);
        }
        let (headers, flags) = (self.headers.as_mut_ptr(), libc::MSG_DONTWAIT);
        // SAFETY: the first `loaded` headers were pointed at bytes that are borrowed beyond this call and are only read from,
        // and at names and control words that are ours.
        let sent = unsafe { libc::sendmmsg(fd.as_raw_fd(), headers, loaded as libc::c_uint, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Points the headers at as many of `messages` as there is room for; how many those are.
    #[inline]
    fn load<'a>(&mut self, messages: impl Iterator<Item = Outgoing<'a>>) -> usize {
        let Self { headers, pieces, names, controls } = self;
        let arrays = headers.iter_mut().zip(pieces).zip(names.iter_mut().zip(controls));
        let mut loaded = 0;
        // The arrays come first: a message is only taken when there is room for it.
        for (((header, piece), (name, control)), message) in arrays.zip(messages) {
            *piece = libc::iovec { iov_base: message.bytes.as_ptr().cast_mut().cast(), iov_len: message.bytes.len() };
            let header = &mut header.msg_hdr;
            header.msg_iov = piece;
            header.msg_iovlen = 1;
            header.msg_namelen = name.set(message.peer);
            header.msg_name = ptr::from_mut(name).cast();
            header.msg_controllen = control.write(message.peer.is_ipv4(), message.ecn, message.segment_bytes) as _;
            header.msg_control = if header.msg_controllen == 0 { ptr::null_mut() } else { control.as_mut_ptr() };
            loaded += 1;
        }
        loaded
    }
}
