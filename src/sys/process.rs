//! Signals to other processes, by descriptor: the process that gets the signal is the one that was opened, even if its
//! id has been given to another since.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// A signal that labs and supervisors send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: end in good order.
    Terminate,
    /// SIGKILL: end at once.
    Kill,
    /// SIGSTOP: freeze.
    Stop,
    /// SIGCONT: go on.
    Continue,
    /// SIGINT: what Ctrl-C sends.
    Interrupt,
}

/// An open process.
#[derive(Debug)]
pub struct ProcessFd(OwnedFd);

impl ProcessFd {
    /// Opens the process that has this id now. Needs Linux 5.3.
    ///
    /// # Errors
    /// `ESRCH` when there is none (kind `Uncategorized`; see [`is_no_process`]).
    pub fn open(pid: u32) -> io::Result<Self> {
        let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        // SAFETY: pidfd_open(2) takes two integers and touches no memory of ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the kernel just gave us this descriptor and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// `ESRCH` once the process has ended; `EPERM` when it is another user's.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let number = match signal {
            Signal::Terminate => libc::SIGTERM,
            Signal::Kill => libc::SIGKILL,
            Signal::Stop => libc::SIGSTOP,
            Signal::Continue => libc::SIGCONT,
            Signal::Interrupt => libc::SIGINT,
        };
        let info = ptr::null_mut::<libc::siginfo_t>();
        // SAFETY: pidfd_send_signal(2) with a null siginfo reads no memory of ours; the descriptor is open.
        let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), number, info, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Whether `error` means that the process is gone.
#[must_use]
pub fn is_no_process(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_signal_reaches_the_opened_process_and_no_other() {
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let process = ProcessFd::open(child.id()).unwrap();
        process.signal(Signal::Stop).unwrap();
        process.signal(Signal::Continue).unwrap();
        process.signal(Signal::Terminate).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        assert!(is_no_process(&process.signal(Signal::Kill).unwrap_err()));
        assert!(is_no_process(&ProcessFd::open(child.id()).unwrap_err()));
    }
}
