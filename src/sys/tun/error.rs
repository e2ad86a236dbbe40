//! Why a TUN queue could not be opened, and what to do about it.

use std::io;

/// A queue that could not be opened. Each kind needs another remedy, so they are never lumped together.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum TunError {
    /// There is no `/dev/net/tun`.
    #[error(
        "the TUN device node {node} is missing: give the container the host's (`--device {node}`, or a hostPath volume of \
         type CharDevice), or make it with `mknod {node} c 10 200`"
    )]
    NodeMissing { node: String },
    /// The node is there, the driver is not.
    #[error("{node} exists but the kernel has no TUN driver behind it ({source}): use a kernel with CONFIG_TUN")]
    NoDriver { node: String, source: io::Error },
    /// The node may not be opened.
    #[error(
        "opening {node} was refused ({source}): the device cgroup or the file's mode forbids it; allow the device \
         (`--device {node}`, or `DeviceAllow={node} rw` in a systemd unit) and reading and writing for this user"
    )]
    OpenRefused { node: String, source: io::Error },
    /// The node opened, but no device may be made.
    #[error(
        "not permitted to attach to TUN device {device}: CAP_NET_ADMIN is needed in this network namespace{}; grant it \
         (`--cap-add NET_ADMIN`, or `AmbientCapabilities=CAP_NET_ADMIN` in a systemd unit), or have root prepare the \
         device with `ip tuntap add {device} mode tun user UID`",
        if *held { " (held, but by a user namespace that does not own it)" } else { "" }
    )]
    NotPermitted { device: String, held: bool },
    /// Somebody else has the queue.
    #[error("TUN device {device} is in use by another process: stop it (another daemon on this host?) or choose another name")]
    Busy { device: String },
    /// A device name the kernel cannot take.
    #[error("expected a device name of 1 to 15 bytes without `/`, `:` and spaces, found `{device}`")]
    InvalidName { device: String },
    /// A device of that name exists but cannot be attached to in this way.
    #[error(
        "a device {device} exists that is no TUN device of the expected kind: remove it (`ip link del {device}`) or choose another name"
    )]
    OtherKind { device: String },
    /// The kernel is too old to say what its super-packets are.
    #[error("no offloads with TUN device {device} ({source}): they need Linux 4.0 or newer; go on without them")]
    NoOffloads { device: String, source: io::Error },
    /// Anything else.
    #[error("cannot {attempt} TUN device {device}: {source}")]
    Other { attempt: &'static str, device: String, source: io::Error },
}

impl TunError {
    /// From a failed open(2) of the device node.
    pub(super) fn from_open(node: &str, device: &str, source: io::Error) -> Self {
        let node = node.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => Self::NodeMissing { node },
            Some(libc::ENODEV | libc::ENXIO) => Self::NoDriver { node, source },
            Some(libc::EPERM | libc::EACCES) => Self::OpenRefused { node, source },
            _ => Self::Other { attempt: "open the node of", device: device.to_owned(), source },
        }
    }

    /// From a failed TUNSETIFF.
    pub(super) fn from_attach(device: &str, source: io::Error, held: bool) -> Self {
        let device = device.to_owned();
        match source.raw_os_error() {
            Some(libc::EPERM) => Self::NotPermitted { device, held },
            Some(libc::EBUSY) => Self::Busy { device },
            // The name is checked before, so this is what a device of another kind, or with other queue flags, answers.
            Some(libc::EINVAL) => Self::OtherKind { device },
            _ => Self::Other { attempt: "attach to", device, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_own_name() {
        let open = |errno| TunError::from_open("/dev/net/tun", "t0", io::Error::from_raw_os_error(errno));
        assert!(matches!(open(libc::ENOENT), TunError::NodeMissing { .. }));
        assert!(matches!(open(libc::ENODEV), TunError::NoDriver { .. }));
        assert!(matches!(open(libc::EPERM), TunError::OpenRefused { .. }));
        assert!(matches!(open(libc::EACCES), TunError::OpenRefused { .. }));
        assert!(matches!(open(libc::EMFILE), TunError::Other { .. }));
        let attach = |errno| TunError::from_attach("t0", io::Error::from_raw_os_error(errno), false);
        assert!(matches!(attach(libc::EPERM), TunError::NotPermitted { held: false, .. }));
        assert!(matches!(attach(libc::EBUSY), TunError::Busy { .. }));
        assert!(matches!(attach(libc::EINVAL), TunError::OtherKind { .. }));
        assert!(matches!(attach(libc::ENOMEM), TunError::Other { .. }));
    }

    #[test]
    fn messages_name_the_remedy_and_never_blame_a_module() {
        for errno in [libc::ENOENT, libc::EPERM] {
            let text = TunError::from_open("/dev/net/tun", "t0", io::Error::from_raw_os_error(errno)).to_string();
            assert!(text.contains("--device /dev/net/tun") && !text.contains("modprobe"), "{text}");
        }
        let text = TunError::from_attach("t0", io::Error::from_raw_os_error(libc::EPERM), false).to_string();
        assert!(text.contains("--cap-add NET_ADMIN") && !text.contains("user namespace"), "{text}");
    }
}
