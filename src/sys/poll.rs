//! Waiting for descriptors, and waking a thread that does.

use std::fs::File;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

/// One descriptor to wait for, and afterwards what it is ready for.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Interest<'fd> {
    entry: libc::pollfd,
    descriptor: PhantomData<BorrowedFd<'fd>>,
}

impl<'fd> Interest<'fd> {
    /// Something to read.
    pub fn readable(fd: BorrowedFd<'fd>) -> Self {
        Self::new(fd, libc::POLLIN)
    }

    /// Room to write.
    pub fn writable(fd: BorrowedFd<'fd>) -> Self {
        Self::new(fd, libc::POLLOUT)
    }

    /// Whether the last [`wait`] found what was asked for, or an error that the next call on it will tell.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.entry.revents != 0
    }

    /// Whether the last [`wait`] found it broken: a TUN device that is gone, say.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.entry.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0
    }

    fn new(fd: BorrowedFd<'fd>, events: i16) -> Self {
        Self { entry: libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }, descriptor: PhantomData }
    }
}

/// Waits until one of `interests` is ready or `timeout` has passed (`None`: as long as it takes), and says how many are.
/// A signal ends the wait early with 0.
pub fn wait(interests: &mut [Interest<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let count = interests.len() as libc::nfds_t;
    // SAFETY: Interest is a transparent pollfd, the pointer and count describe the slice, which is ours to change through
    // the call; the timeout is null or lives on this frame; a null signal mask leaves the thread's as it is.
    let ready = unsafe { libc::ppoll(interests.as_mut_ptr().cast(), count, timeout, ptr::null()) };
    if let Ok(ready) = usize::try_from(ready) {
        return Ok(ready);
    }
    let error = io::Error::last_os_error();
    for interest in interests {
        interest.entry.revents = 0;
    }
    if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) }
}

/// Wakes a thread out of [`wait`]: any thread calls [`wake`](Self::wake), the waiting one has it among its interests.
#[derive(Debug)]
pub struct Waker(File);

impl Waker {
    /// A waker that nobody has called yet.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd(2) takes two numbers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and nothing else knows of it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }.into()))
    }

    /// Ends the current wait, or the next one at once.
    pub fn wake(&self) {
        // Fails only when 2^64 - 2 calls are pending: then it is awake already.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Takes all calls so far; says whether there were any.
    pub fn take(&self) -> bool {
        (&self.0).read(&mut [0; 8]).is_ok()
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_ends_a_wait_from_another_thread() {
        let waker = Waker::new().unwrap();
        let idle = Waker::new().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| waker.wake());
            let mut interests = [Interest::readable(idle.as_fd()), Interest::readable(waker.as_fd())];
            assert_eq!(wait(&mut interests, None).unwrap(), 1);
            assert!(!interests[0].is_ready() && interests[1].is_ready() && !interests[1].is_broken());
        });
        assert!(waker.take() && !waker.take());
    }

    #[test]
    fn nothing_ready_is_zero() {
        let waker = Waker::new().unwrap();
        let mut interests = [Interest::readable(waker.as_fd())];
        assert_eq!(wait(&mut interests, Some(Duration::from_micros(100))).unwrap(), 0);
        assert!(!interests[0].is_ready());
        assert_eq!(wait(&mut [Interest::writable(waker.as_fd())], Some(Duration::ZERO)).unwrap(), 1);
    }
}
