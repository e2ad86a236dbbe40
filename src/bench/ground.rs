//! Where measurements take place: the seam between what is measured and how it is built.

use std::net::IpAddr;

use super::{Host, Path, Underlay};
use crate::lab::LabError;
use crate::sys::netns::Netns;

/// Two containers and the paths between them.
pub trait Ground {
    /// The ends of `path` over `underlay`, ready for traffic.
    ///
    /// Asked before every run of a load generator, so cheap while nothing changes. The answer holds until the next question.
    ///
    /// # Errors
    /// [`Absent::Missing`] where this machine has no such path, told once and then left out; [`Absent::Lab`] where it
    /// should be there and is not, which ends the whole.
    fn ends(&mut self, underlay: Underlay, path: Path) -> Result<Ends, Absent>;

    /// The machine, and what the ground set on it: MTU, offloads, options of the daemons. Begin with
    /// [`Host::of_this_machine`].
    fn host(&self) -> Host;
}

/// The two ends of a path.
#[derive(Debug)]
pub struct Ends {
    /// Sends, but for reverse runs.
    pub client: End,
    /// Receives.
    pub server: End,
    /// The processes that carry the path's packets, whose processor time is charged to it; none where the kernel does.
    pub daemons: Vec<u32>,
}

/// One end of a path.
#[derive(Debug)]
pub struct End {
    /// Where sockets are opened.
    pub netns: Netns,
    /// Its address on this path: what it sends from, and what the other end sends to.
    pub address: IpAddr,
}

/// Why there are no ends.
#[derive(Debug, thiserror::Error)]
pub enum Absent {
    /// This machine has no such path, and why: a kernel without vxlan, for one.
    #[error("{0}")]
    Missing(String),
    /// Building or keeping it failed.
    #[error(transparent)]
    Lab(#[from] LabError),
}
