//! What daemons have left on this host, found and removed: rules, routes, devices, and the subnet file if that is asked for.
//!
//! Not while a daemon runs: what it needs would be pulled from under it. One runs where a device of ours has somebody on its queue.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use super::device::{OverlayDevice, is_name_by};
use super::rules::{Leftover, LeftoverError};
use super::scope::{NodeScope, ScopeError};
use crate::sys::netlink::{Link, LinkKind, Netlink, NetlinkError};

/// How devices are called unless another name is asked for.
const USUAL_NAME: &str = "flannel%d";

/// What there is.
#[derive(Debug)]
pub struct Cleanup {
    netlink: Netlink,
    traces: Vec<Trace>,
}

/// One thing that was left. [`Display`](fmt::Display) says what it is.
#[derive(Clone, Debug)]
pub struct Trace(What);

#[derive(Clone, Debug)]
enum What {
    Scope { device: String, lines: Vec<String> },
    Device { name: String, index: u32 },
    Rules(Leftover),
    File(PathBuf),
}

/// It cannot be cleaned up.
#[derive(Debug, thiserror::Error)]
pub enum CleanupError {
    /// Somebody is using it.
    #[error("TUN device {0} is in use: a daemon is running here; stop it first (nothing was removed)")]
    Running(String),
    /// The kernel could not be asked, or refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// Rules of policy scope `node`.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// Other rules.
    #[error(transparent)]
    Rules(#[from] LeftoverError),
    /// The subnet file.
    #[error("cannot remove {path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl CleanupError {
    /// Whether the system does not let us, so that somebody has to grant something or give something up.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        let of_netlink = |error: &NetlinkError| matches!(error.errno(), Some(libc::EPERM | libc::EACCES));
        match self {
            Self::Running(_) => true,
            Self::Netlink(error) | Self::Scope(ScopeError::Netlink(error)) => of_netlink(error),
            Self::Scope(ScopeError::NoPolicyRouting(_)) => false,
            Self::Rules(error) => error.is_permission(),
            Self::File { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
        }
    }
}

impl Cleanup {
    /// Looks what there is; of the subnet file only if `env_file` names it. Nothing is removed.
    ///
    /// # Errors
    /// When a daemon is running, or the kernel cannot be asked.
    pub fn find(env_file: Option<&Path>) -> Result<Self, CleanupError> {
        let netlink = Netlink::open()?;
        let links = netlink.links()?;
        let may_be_ours = |link: &&Link| OverlayDevice::is_ours(link) || is_name_by(USUAL_NAME, &link.name);
        let devices: Vec<&Link> = links.iter().filter(|link| link.kind == Some(LinkKind::Tun)).filter(may_be_ours).collect();
        if let Some(used) = devices.iter().find(|link| link.carrier) {
            return Err(CleanupError::Running(used.name.clone()));
        }
        let ours: Vec<&Link> = devices.into_iter().filter(|link| OverlayDevice::is_ours(link)).collect();
        // A kernel that does not keep who made a rule tells by the device.
        let device = ours.first().map_or_else(|| USUAL_NAME.replace("%d", "0"), |link| link.name.clone());
        let scope = NodeScope::traces(&device, &netlink)?;
        let mut found = Vec::new();
        if !scope.is_empty() {
            found.push(What::Scope { device, lines: scope });
        }
        found.extend(ours.into_iter().map(|link| What::Device { name: link.name.clone(), index: link.index }));
        found.extend(Leftover::all(&netlink)?.into_iter().map(What::Rules));
        let file = env_file.filter(|file| file.symlink_metadata().is_ok());
        found.extend(file.map(|file| What::File(file.to_owned())));
        Ok(Self { netlink, traces: found.into_iter().map(Trace).collect() })
    }

    /// What there is, in the order in which it is best removed.
    #[must_use]
    pub fn traces(&self) -> &[Trace] {
        &self.traces
    }

    /// Removes one of them. What has gone meanwhile is removed.
    ///
    /// # Errors
    /// When that is refused.
    pub fn remove(&self, trace: &Trace) -> Result<(), CleanupError> {
        match &trace.0 {
            What::Scope { device, .. } => _ = NodeScope::remove(device, &self.netlink)?,
            What::Device { index, .. } => OverlayDevice::remove(*index, &self.netlink)?,
            What::Rules(leftover) => leftover.remove(&self.netlink)?,
            What::File(path) => match fs::remove_file(path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(CleanupError::File { path: path.clone(), source });
                }
                _ => {}
            },
        }
        Ok(())
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            What::Scope { lines, .. } => write!(f, "rules and routes of policy scope node: {}", lines.join("; ")),
            What::Device { name, .. } => write!(f, "TUN device {name}"),
            What::Rules(leftover) => write!(f, "{leftover}"),
            What::File(path) => write!(f, "subnet file {}", path.display()),
        }
    }
}
