//! Sockets handed over by a supervisor (systemd's socket activation).
//!
//! Not the rules about `LISTEN_PID` and `LISTEN_FDS`: those are the caller's. Here the descriptor is checked and made ours.

use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

use socket2::{Domain, Socket};

/// Descriptors already made ours: owning one twice would close somebody else's file later.
static ADOPTED: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Makes `descriptor`, which must be a listening TCP socket inherited from the parent process, ours: non-blocking, closed on exec.
///
/// # Errors
/// When it is not open, is no listening TCP socket, or was adopted before.
pub fn adopt_listener(descriptor: RawFd) -> io::Result<TcpListener> {
    // The standard streams have owners in the standard library.
    if descriptor <= libc::STDERR_FILENO {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "descriptors 0 to 2 are the standard streams"));
    }
    let mut adopted = ADOPTED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if adopted.contains(&descriptor) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "already in use by this process"));
    }
    // SAFETY: F_GETFD reads a flag of the descriptor table and touches no memory of ours.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open (above), was inherited, so nothing in this process owns it, and is adopted only once (the
    // list, whose lock is held). The caller passes only what the supervisor said it handed over.
    let socket = Socket::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    adopted.push(descriptor);
    drop(adopted);
    let domain = socket.domain()?;
    if !matches!(domain, Domain::IPV4 | Domain::IPV6) || !socket.is_listener()? {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a listening TCP socket"));
    }
    socket.set_cloexec(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpStream, UdpSocket};
    use std::os::fd::IntoRawFd;

    use super::*;

    /// One test, since descriptor numbers are used again once closed, and the list of adopted ones is the process's.
    #[test]
    fn a_listening_socket_becomes_ours_once_and_nothing_else_does() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let descriptor = listener.into_raw_fd();
        let adopted = adopt_listener(descriptor).unwrap();
        assert_eq!(adopted.local_addr().unwrap(), address);
        TcpStream::connect(address).unwrap();
        assert!(adopt_listener(descriptor).unwrap_err().to_string().contains("already in use"));

        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().into_raw_fd();
        assert!(adopt_listener(socket).unwrap_err().to_string().contains("not a listening TCP socket"));
        assert_eq!(adopt_listener(1 << 20).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert!(adopt_listener(2).is_err());
    }
}
