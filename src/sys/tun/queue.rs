//! One queue of a TUN device.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use tun::Device;

use super::TunError;
use crate::sys::capability;

/// Where the kernel hands out TUN queues.
const NODE: &str = "/dev/net/tun";

/// Whether the device can have several queues. All queues of a device must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiqueue {
    /// One queue only.
    No,
    /// Several: each open of the same name attaches one more.
    Yes,
}

/// One queue of a TUN device: whole IP packets, one a call, non-blocking.
///
/// Dropping the last queue of a device that is not persistent removes the device, its addresses and its routes.
pub struct TunQueue {
    device: Device,
    name: String,
}

impl TunQueue {
    /// Attaches a queue to the device `name` in the calling thread's network namespace; makes the device if there is none.
    /// A `%d` in the name becomes the first free number.
    ///
    /// Offloads that a former user left switched on are switched off: they belong to the device, not to the queue.
    pub fn open(name: &str, multiqueue: Multiqueue) -> Result<Self, TunError> {
        Self::open_node(NODE, name, multiqueue)
    }

    /// The device's name, with the number that took the place of a `%d`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads one packet; bytes that do not fit `buffer` are lost.
    ///
    /// # Errors
    /// `WouldBlock` when none is ready; `EBADFD` when the device is gone.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.device.read(buffer)
    }

    /// Writes one packet.
    ///
    /// # Errors
    /// `EINVAL` when it is no IP packet, `EIO` while the device is down, `EBADFD` when it is gone.
    #[inline]
    pub fn write(&mut self, packet: &[u8]) -> io::Result<usize> {
        self.device.write(packet)
    }

    /// Whether the device outlives its last queue.
    pub fn set_persistent(&self, persistent: bool) -> Result<(), TunError> {
        // SAFETY: TUNSETPERSIST takes a number, not a pointer.
        let result = unsafe { libc::ioctl(self.device.as_raw_fd(), libc::TUNSETPERSIST, libc::c_ulong::from(persistent)) };
        if result == 0 { Ok(()) } else { Err(self.failed("change the persistence of")) }
    }

    /// Whether the device node is there and may be opened. Whether a device may be made is known only once one is.
    pub fn check_access() -> Result<(), TunError> {
        open_file(NODE, "").map(drop)
    }

    fn open_node(node: &str, name: &str, multiqueue: Multiqueue) -> Result<Self, TunError> {
        check_name(name)?;
        let fd = OwnedFd::from(open_file(node, name)?);
        let name = attach(fd.as_fd(), name, multiqueue)
            .map_err(|error| TunError::from_attach(name, error, capability::has_net_admin() == Some(true)))?;
        let mut configuration = tun::configure();
        // The crate closes the descriptor when the device is dropped, and also when it cannot take it.
        configuration.tun_name(&name).raw_fd(fd.into_raw_fd());
        let other = |attempt, source| TunError::Other { attempt, device: name.clone(), source };
        let device = Device::new(&configuration).map_err(|error| other("adopt", io::Error::other(error)))?;
        device.set_nonblock().map_err(|error| other("unblock", error))?;
        let queue = Self { device, name };
        queue.switch_offloads_off()?;
        Ok(queue)
    }

    fn switch_offloads_off(&self) -> Result<(), TunError> {
        // SAFETY: TUNSETOFFLOAD takes a number, not a pointer.
        let result = unsafe { libc::ioctl(self.device.as_raw_fd(), libc::TUNSETOFFLOAD, 0 as libc::c_ulong) };
        if result == 0 { Ok(()) } else { Err(self.failed("switch off the offloads of")) }
    }

    fn failed(&self, attempt: &'static str) -> TunError {
        TunError::Other { attempt, device: self.name.clone(), source: io::Error::last_os_error() }
    }
}

impl AsFd for TunQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: `self` owns the device and keeps its descriptor open for as long as the borrow lives.
        unsafe { BorrowedFd::borrow_raw(self.device.as_raw_fd()) }
    }
}

impl std::fmt::Debug for TunQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TunQueue").field("name", &self.name).field("fd", &self.device.as_raw_fd()).finish()
    }
}

/// Opens the device node, through which a queue of `device` is to be attached.
fn open_file(node: &str, device: &str) -> Result<File, TunError> {
    OpenOptions::new().read(true).write(true).open(node).map_err(|error| TunError::from_open(node, device, error))
}

/// The kernel's own rule for device names (`dev_valid_name`), so that its EINVAL is left to mean one thing.
fn check_name(name: &str) -> Result<(), TunError> {
    let fits = (1..libc::IFNAMSIZ).contains(&name.len()) && name != "." && name != "..";
    let plain = name.replacen("%d", "", 1);
    let clean = !plain.bytes().any(|byte| matches!(byte, b'/' | b':' | b'%' | 0) || byte.is_ascii_whitespace() || byte == 0x0b);
    if fits && clean { Ok(()) } else { Err(TunError::InvalidName { device: name.to_owned() }) }
}

/// TUNSETIFF; the name the device has got.
#[allow(clippy::cast_possible_wrap, reason = "`c_char` is signed on some machines and not on others; the bits are the same")]
#[allow(clippy::cast_possible_truncation, reason = "the interface flags of TUN lie in the lower 16 bits")]
fn attach(fd: BorrowedFd<'_>, name: &str, multiqueue: Multiqueue) -> io::Result<String> {
    let mut flags = libc::IFF_TUN | libc::IFF_NO_PI;
    if multiqueue == Multiqueue::Yes {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    // SAFETY: ifreq is plain data, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which `request` is, and which lives through the call.
    if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `check_name` left room for the NUL, and the kernel terminates the name it writes.
    let name = unsafe { CStr::from_ptr(request.ifr_name.as_ptr()) };
    Ok(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netns::Netns;

    #[test]
    fn names_the_kernel_would_refuse_never_reach_it() {
        for name in ["", "sixteen-bytes-xx", "a/b", "a b", "a:b", ".", "..", "%s", "a%d%d", "a\n"] {
            assert!(matches!(check_name(name), Err(TunError::InvalidName { .. })), "{name:?}");
        }
        for name in ["flannel%d", "felt0", "fifteen-bytes-x"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn a_missing_node_is_told_from_one_without_a_driver() {
        let error = TunQueue::open_node("/nonexistent/tun", "felt0", Multiqueue::No).unwrap_err();
        assert!(matches!(error, TunError::NodeMissing { .. }));
        // A character device that is no TUN: TUNSETIFF means nothing to it.
        let error = TunQueue::open_node("/dev/null", "felt0", Multiqueue::No).unwrap_err();
        assert!(matches!(error, TunError::Other { attempt: "attach to", .. }));
    }

    #[test]
    fn a_missing_capability_is_told_from_a_refused_open() {
        let name = format!("felt-cap-{}", std::process::id());
        let netns = Netns::create(&name).unwrap();
        let error = netns.run_in(|| {
            capability::drop_all_of_thread().unwrap();
            TunQueue::open("felt0", Multiqueue::No).unwrap_err()
        });
        Netns::delete(&name).unwrap();
        assert!(matches!(error.unwrap(), TunError::NotPermitted { held: false, .. }));
    }
}
