//! What can go wrong with a netlink request, told so that a person knows what was attempted.

use std::io;

/// A failed request.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum NetlinkError {
    /// The kernel, or the socket, said no.
    #[error("cannot {attempt}: {source}{}", detail.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        attempt: String,
        source: io::Error,
        /// The kernel's own explanation, when it gives one.
        detail: Option<String>,
    },
    /// There is no device of that name here.
    #[error("expected a device named `{name}` in this network namespace, found none")]
    NoLink { name: String },
    /// The kernel's answer could not be read.
    #[error("cannot {attempt}: unreadable answer from the kernel: {reason}")]
    Unreadable { attempt: String, reason: String },
}

impl NetlinkError {
    /// The kernel's error number, when it gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { source, .. } => source.raw_os_error(),
            Self::NoLink { .. } => Some(libc::ENODEV),
            Self::Unreadable { .. } => None,
        }
    }

    /// Whether the failure is that the device does not exist (any more).
    pub fn is_no_device(&self) -> bool {
        matches!(self.errno(), Some(libc::ENODEV | libc::ENXIO))
    }

    /// Whether the kernel knows no such kind of device, or no such operation: something is missing that other kernels have.
    pub fn is_unsupported(&self) -> bool {
        self.errno() == Some(libc::EOPNOTSUPP)
    }

    pub(super) fn refused(attempt: &str, source: io::Error) -> Self {
        Self::Refused { attempt: attempt.to_owned(), source, detail: None }
    }
}
