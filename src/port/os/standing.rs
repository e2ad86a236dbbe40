//! Which offloads a port uses now: written by the port on the rare occasion that one fails, seen by whoever watches over it.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};

use crate::buf::TRAIN_DATAGRAMS;

/// One offload, on until it is refused; never on again.
#[derive(Debug)]
pub struct Switch {
    state: AtomicI32,
    told: AtomicBool,
}

/// What a TUN queue makes use of.
#[derive(Debug, Default)]
pub struct TunStanding {
    /// TCP super-packets, both ways.
    pub tso: Switch,
    /// UDP super-packets, both ways.
    pub uso: Switch,
}

/// What a socket makes use of.
#[derive(Debug)]
pub struct UdpStanding {
    /// Trains are sent as one message.
    pub gso: Switch,
    /// Trains are received as one message.
    pub gro: Switch,
    segments: AtomicUsize,
}

const ON: i32 = 0;
/// Not asked for, or not there to begin with. Any other state is the errno of the refusal.
const OFF: i32 = -1;

impl Switch {
    /// On, or off for no fault of anybody's.
    #[must_use]
    pub fn new(on: bool) -> Self {
        Self { state: AtomicI32::new(if on { ON } else { OFF }), told: AtomicBool::new(false) }
    }

    /// Whether the offload is in use.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.state.load(Relaxed) == ON
    }

    /// What the kernel said when it was switched off in operation.
    #[must_use]
    pub fn refusal(&self) -> Option<io::Error> {
        Some(self.state.load(Relaxed)).filter(|errno| *errno > ON).map(io::Error::from_raw_os_error)
    }

    /// The same, once.
    #[must_use]
    pub fn news(&self) -> Option<io::Error> {
        self.refusal().filter(|_| !self.told.swap(true, Relaxed))
    }

    /// Takes it out of use, if it is in use, because the kernel said `errno`.
    #[cold]
    pub fn refuse(&self, errno: i32) {
        let _ = self.state.compare_exchange(ON, errno.max(1), Relaxed, Relaxed);
    }
}

impl Default for Switch {
    fn default() -> Self {
        Self::new(false)
    }
}

impl UdpStanding {
    /// Trains both ways, each if it is there.
    #[must_use]
    pub fn new(gso: bool, gro: bool) -> Self {
        Self { gso: Switch::new(gso), gro: Switch::new(gro), segments: AtomicUsize::new(TRAIN_DATAGRAMS) }
    }

    /// Most datagrams of a train to be sent now; 1 when there are no trains.
    #[inline]
    #[must_use]
    pub fn segments(&self) -> usize {
        if self.gso.is_on() { self.segments.load(Relaxed) } else { 1 }
    }

    /// Shortens trains to be sent.
    #[cold]
    pub(super) fn shorten(&self, segments: usize) {
        self.segments.store(segments, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_tells_its_first_refusal_once() {
        let switch = Switch::new(true);
        assert!(switch.is_on() && switch.news().is_none());
        switch.refuse(libc::EIO);
        switch.refuse(libc::EINVAL);
        assert!(!switch.is_on());
        assert_eq!(switch.news().and_then(|error| error.raw_os_error()), Some(libc::EIO));
        assert!(switch.news().is_none() && switch.refusal().is_some());
    }

    #[test]
    fn what_was_never_on_is_not_refused() {
        let switch = Switch::new(false);
        switch.refuse(libc::EIO);
        assert!(!switch.is_on() && switch.news().is_none() && switch.refusal().is_none());
    }
}
