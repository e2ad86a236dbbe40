//! Socket options that socket2 does not have.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use socket2::Socket;

/// Sizes of a socket's buffers, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferBytes {
    /// For datagrams that wait to be read.
    pub receive: usize,
    /// For datagrams that wait to leave.
    pub send: usize,
}

impl Default for BufferBytes {
    /// 16 MiB in: the smallest size without loss for four TCP streams (208 KiB: 22,500 retransmits). 4 MiB out: the queue
    /// of the device behind it is shorter anyway.
    fn default() -> Self {
        Self { receive: 16 << 20, send: 4 << 20 }
    }
}

/// Asks for `wanted`, beyond the system's limit where permitted, and says what was granted.
///
/// The kernel doubles what is asked for to pay for its book-keeping, and counts it in that way when asked.
pub(super) fn set_buffers(socket: &Socket, fd: BorrowedFd<'_>, wanted: BufferBytes) -> io::Result<BufferBytes> {
    let number = |bytes: usize| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX / 2);
    if set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, number(wanted.receive)).is_err() {
        socket.set_recv_buffer_size(wanted.receive)?;
    }
    if set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, number(wanted.send)).is_err() {
        socket.set_send_buffer_size(wanted.send)?;
    }
    Ok(BufferBytes { receive: socket.recv_buffer_size()?, send: socket.send_buffer_size()? })
}

/// setsockopt(2) of a number.
pub(super) fn set(fd: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`, which lives through the call.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How many datagrams the kernel has dropped for want of room in the receive buffer. Needs Linux 4.12.
pub(super) fn receive_drops(fd: BorrowedFd<'_>) -> io::Result<u32> {
    // `SO_MEMINFO` fills an array of numbers, of which this is the last.
    let mut numbers = [0u32; libc::SK_MEMINFO_DROPS as usize + 1];
    let mut length = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the pointer and length describe `numbers`; both live through the call, which writes no more than `length`.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, (&raw mut numbers).cast(), &raw mut length)
    };
    if result == 0 { Ok(numbers[libc::SK_MEMINFO_DROPS as usize]) } else { Err(io::Error::last_os_error()) }
}

/// getsockopt(2) of a number.
pub(super) fn read(fd: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`; both live through the call, which writes no more than `length`.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
