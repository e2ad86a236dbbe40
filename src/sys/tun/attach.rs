//! From a name to a descriptor: opening the device node and attaching a queue.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::TunError;
use super::vnet::VNET_BYTES;
use crate::sys::capability;

/// Where the kernel hands out TUN queues.
pub(super) const NODE: &str = "/dev/net/tun";

/// Whether the device can have several queues. All queues of a device must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiqueue {
    /// One queue only.
    No,
    /// Several: each open of the same name attaches one more.
    Yes,
}

/// What stands in front of each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Nothing.
    Bare,
    /// A virtio-net header. Like the offloads a property of the device: the newest queue decides for all.
    Vnet,
}

/// Attaches a queue to the device `name`; the descriptor, and the name the device has got.
pub(super) fn attach(node: &str, name: &str, multiqueue: Multiqueue, framing: Framing) -> Result<(OwnedFd, String), TunError> {
    check_name(name)?;
    let fd = OwnedFd::from(open_file(node, name)?);
    let name = set_interface(fd.as_fd(), name, multiqueue, framing)
        .map_err(|error| TunError::from_attach(name, error, capability::has_net_admin() == Some(true)))?;
    if framing == Framing::Vnet {
        describe_header(fd.as_fd()).map_err(|source| TunError::NoOffloads { device: name.clone(), source })?;
    }
    Ok((fd, name))
}

/// Opens the device node, through which a queue of `device` is to be attached.
pub(super) fn open_file(node: &str, device: &str) -> Result<File, TunError> {
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
fn set_interface(fd: BorrowedFd<'_>, name: &str, multiqueue: Multiqueue, framing: Framing) -> io::Result<String> {
    let mut flags = libc::IFF_TUN | libc::IFF_NO_PI;
    if multiqueue == Multiqueue::Yes {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    if framing == Framing::Vnet {
        flags |= libc::IFF_VNET_HDR;
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

/// Says how long the virtio-net header is and which way round its numbers are. Both belong to the device, so a former user
/// of one that was left behind may have said something else.
fn describe_header(fd: BorrowedFd<'_>) -> io::Result<()> {
    for (request, value) in [(libc::TUNSETVNETHDRSZ, VNET_BYTES as libc::c_int), (libc::TUNSETVNETLE, 1)] {
        // SAFETY: both requests read one number, which lives through the call.
        if unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw const value) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let attach = |node| attach(node, "felt0", Multiqueue::No, Framing::Bare).unwrap_err();
        assert!(matches!(attach("/nonexistent/tun"), TunError::NodeMissing { .. }));
        // A character device that is no TUN: TUNSETIFF means nothing to it.
        assert!(matches!(attach("/dev/null"), TunError::Other { attempt: "attach to", .. }));
    }
}
