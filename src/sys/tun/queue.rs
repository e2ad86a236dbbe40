//! One queue of a TUN device.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use tun::Device;

use super::TunError;
use super::attach::{self, Framing, Multiqueue, NODE};
use super::vnet::{self, VNET_BYTES};
use crate::buf::Packet;
use crate::net::{Offload, Supers};

/// Most parts of one packet to be written: the kernel's `UIO_MAXIOV` less one for the virtio-net header. With more, writes
/// answer EMSGSIZE.
pub const WRITE_PARTS: usize = 1_023;

/// One queue of a TUN device: whole IP packets, one a call, non-blocking.
///
/// Dropping the last queue of a device that is not persistent removes the device, its addresses and its routes.
pub struct TunQueue {
    device: Device,
    name: String,
    framing: Framing,
    parts: Parts,
}

/// The array that writev(2) works on, allocated once.
struct Parts(Vec<libc::iovec>);

// SAFETY: the pointers inside are written at the start of every call for that call only, and mean nothing in between.
unsafe impl Send for Parts {}

impl TunQueue {
    /// Attaches a queue to the device `name` in the calling thread's network namespace; makes the device if there is none.
    /// A `%d` in the name becomes the first free number.
    ///
    /// Offloads that a former user left switched on are switched off: they belong to the device, not to the queue.
    pub fn open(name: &str, multiqueue: Multiqueue) -> Result<Self, TunError> {
        Self::open_framed(name, multiqueue, Framing::Bare)
    }

    /// The same with a virtio-net header in front of each packet, so that it may be a super-packet; reading these is switched
    /// on by [`set_supers`](Self::set_supers), once all queues are open. All queues of a device must be opened in the same way.
    pub fn open_vnet(name: &str, multiqueue: Multiqueue) -> Result<Self, TunError> {
        Self::open_framed(name, multiqueue, Framing::Vnet)
    }

    /// The device's name, with the number that took the place of a `%d`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether packets may be super-packets or lack a checksum.
    #[must_use]
    pub fn has_vnet(&self) -> bool {
        self.framing == Framing::Vnet
    }

    /// Which super-packets the kernel may hand out from now on, through all queues of the device. With any of them, checksums
    /// are left to the reader, too.
    ///
    /// # Errors
    /// `EINVAL` when it knows no such ones, as with those of UDP before Linux 6.2. Nothing is changed then.
    pub fn set_supers(&self, supers: Supers) -> io::Result<()> {
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        // One of these without the other is refused.
        let udp = libc::TUN_F_CSUM | libc::TUN_F_USO4 | libc::TUN_F_USO6;
        let mask = if supers.tcp { tcp } else { 0 } | if supers.udp { udp } else { 0 };
        // SAFETY: TUNSETOFFLOAD takes a number, not a pointer.
        let result = unsafe { libc::ioctl(self.device.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(mask)) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Reads one packet and says what is left to be done on it. What the packet has no room for is lost, unnoticed.
    ///
    /// # Errors
    /// `WouldBlock` when none is ready; `InvalidData` when one came that nobody can handle, which is gone with that; `EBADFD`
    /// when the device is gone.
    #[inline]
    pub fn read(&mut self, packet: &mut Packet) -> io::Result<Offload> {
        let front = if self.has_vnet() { VNET_BYTES } else { 0 };
        let room = packet.room_with_front(front);
        // SAFETY: the pointer and length describe `room`, which is ours to change through the call.
        let read = unsafe { libc::read(self.device.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
        let Ok(read) = usize::try_from(read) else { return Err(io::Error::last_os_error()) };
        packet.set_len(read);
        if front == 0 {
            return Ok(Offload::default());
        }
        let header = packet.bytes().first_chunk().copied();
        let offload = header.and_then(vnet::decode).ok_or(io::ErrorKind::InvalidData)?;
        packet.pull_front(VNET_BYTES).ok_or(io::ErrorKind::InvalidData)?;
        Ok(offload)
    }

    /// Writes one packet, given in parts, of which the kernel has `offload` left to do.
    ///
    /// # Errors
    /// `EINVAL` when it is no IP packet, or the kernel cannot do what is left, or the queue was opened without headers to say
    /// so; `EMSGSIZE` with more than [`WRITE_PARTS`]; `EIO` while the device is down; `EBADFD` when it is gone.
    #[inline]
    pub fn write<'a>(&mut self, offload: &Offload, parts: impl IntoIterator<Item = &'a [u8]>) -> io::Result<()> {
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        let header = vnet::encode(offload);
        self.parts.0.clear();
        if self.has_vnet() {
            self.parts.0.push(libc::iovec { iov_base: header.as_ptr().cast_mut().cast(), iov_len: VNET_BYTES });
        } else if *offload != Offload::default() {
            return refused(libc::EINVAL);
        }
        for part in parts {
            if self.parts.0.len() > WRITE_PARTS {
                return refused(libc::EMSGSIZE);
            }
            self.parts.0.push(libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        }
        // SAFETY: every entry describes the header above or a part that is borrowed beyond this call; all are only read from.
        let written = unsafe { libc::writev(self.device.as_raw_fd(), self.parts.0.as_ptr(), self.parts.0.len() as libc::c_int) };
        if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The same queue by another descriptor, for another thread. It is closed when both are.
    pub fn try_clone(&self) -> Result<Self, TunError> {
        let fd = self.as_fd().try_clone_to_owned().map_err(|error| self.failed("share a queue of", error))?;
        Self::adopt(fd, self.name.clone(), self.framing)
    }

    /// Whether the device outlives its last queue.
    pub fn set_persistent(&self, persistent: bool) -> Result<(), TunError> {
        // SAFETY: TUNSETPERSIST takes a number, not a pointer.
        let result = unsafe { libc::ioctl(self.device.as_raw_fd(), libc::TUNSETPERSIST, libc::c_ulong::from(persistent)) };
        if result == 0 { Ok(()) } else { Err(self.failed("change the persistence of", io::Error::last_os_error())) }
    }

    /// Whether the device node is there and may be opened. Whether a device may be made is known only once one is.
    pub fn check_access() -> Result<(), TunError> {
        attach::open_file(NODE, "").map(drop)
    }

    fn open_framed(name: &str, multiqueue: Multiqueue, framing: Framing) -> Result<Self, TunError> {
        let (fd, name) = attach::attach(NODE, name, multiqueue, framing)?;
        let queue = Self::adopt(fd, name, framing)?;
        queue.set_supers(Supers::default()).map_err(|error| queue.failed("switch off the offloads of", error))?;
        Ok(queue)
    }

    fn adopt(fd: OwnedFd, name: String, framing: Framing) -> Result<Self, TunError> {
        let mut configuration = tun::configure();
        // The crate closes the descriptor when the device is dropped, and also when it cannot take it.
        configuration.tun_name(&name).raw_fd(fd.into_raw_fd());
        let other = |attempt, source| TunError::Other { attempt, device: name.clone(), source };
        let device = Device::new(&configuration).map_err(|error| other("adopt", io::Error::other(error)))?;
        device.set_nonblock().map_err(|error| other("unblock", error))?;
        Ok(Self { device, name, framing, parts: Parts(Vec::with_capacity(WRITE_PARTS + 1)) })
    }

    fn failed(&self, attempt: &'static str, source: io::Error) -> TunError {
        TunError::Other { attempt, device: self.name.clone(), source }
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
        let Self { name, framing, .. } = self;
        f.debug_struct("TunQueue").field("name", name).field("framing", framing).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::capability;
    use crate::sys::netns::Netns;

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
