//! One path: its lab, its wire, its two ends.

use std::error::Error;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::wire::Wire;
use super::{ArenaPlan, EndKind, policies, vxlan};
use crate::bench::{Absent, End, Ends, Path, Underlay};
use crate::lab::probe::ping;
use crate::lab::{EphemeralLab, Interrupt, LabError, Place, Progress, RegistryKind};

/// How long the nodes may take to know each other once both have a lease.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one echo request may take.
const ECHO: Duration = Duration::from_millis(200);

/// One path, standing.
#[derive(Debug)]
pub(super) struct Stand {
    lab: EphemeralLab,
    wire: Wire,
    client: (Place, Ipv4Addr),
    server: (Place, Ipv4Addr),
}

impl Stand {
    /// Builds the lab of a path, and what the path needs beyond it; waits until one end reaches the other.
    ///
    /// # Errors
    /// [`Absent::Missing`] where the machine cannot have this path.
    pub(super) fn raise(
        plan: &ArenaPlan,
        path: Path,
        progress: &mut dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<Self, Absent> {
        let lab = EphemeralLab::up(plan.lab(path)?, progress, interrupt)?;
        // Labs without daemons know nothing of headers that an overlay may add.
        let mtu = match path {
            Path::Veth => Some(plan.underlay_mtu),
            Path::Vxlan => Some(plan.underlay_mtu - vxlan::OVERHEAD),
            Path::Felt | Path::FeltPolicy | Path::FeltPlain => None,
        };
        if path == Path::Vxlan {
            vxlan::join(&lab)?;
        }
        if let Some(mtu) = mtu {
            lab.nodes().try_for_each(|node| node.attach_pods_with(mtu))?;
        }
        let end = |number| -> Result<(Place, Ipv4Addr), LabError> {
            let place = match plan.ends {
                EndKind::Nodes => Place::Node(number),
                EndKind::Pods => Place::Pod { node: number, pod: 1 },
            };
            Ok((place, address(&lab, path, number, place)?))
        };
        let (client, server, wire) = (end(1)?, end(2)?, Wire::of(&lab)?);
        let stand = Self { lab, wire, client, server };
        stand.wait_joined(path, interrupt)?;
        if path == Path::FeltPolicy {
            policies::enforce(&stand.lab, plan.policies, interrupt)?;
        }
        Ok(stand)
    }

    /// Sets the wire for `underlay`, and names the ends.
    ///
    /// # Errors
    /// When a daemon has ended, with the end of its log.
    pub(super) fn ends(&self, underlay: Underlay) -> Result<Ends, LabError> {
        self.wire.carry(underlay)?;
        let end = |(place, address): (Place, Ipv4Addr)| -> Result<End, LabError> {
            Ok(End { netns: self.lab.netns(place)?, address: address.into() })
        };
        let has_daemons = self.lab.plan().registry != RegistryKind::Absent;
        let nodes = self.lab.nodes().filter(|_| has_daemons);
        let daemons = nodes.map(|node| node.running_pid()).collect::<Result<_, _>>()?;
        Ok(Ends { client: end(self.client)?, server: end(self.server)?, daemons })
    }

    /// Takes it down now.
    pub(super) fn down(self) -> Result<(), LabError> {
        self.lab.down().map(drop)
    }

    fn wait_joined(&self, path: Path, interrupt: &Interrupt) -> Result<(), LabError> {
        let ((from, _), (_, to)) = (self.client, self.server);
        let netns = self.lab.netns(from)?;
        let answered = interrupt.wait(PATIENCE, || ping(&netns, to, ECHO, interrupt).map(|answer| answer.map(drop)))?;
        answered.ok_or_else(|| LabError::Probe(format!("{path}: {from} got no echo from {to} within {PATIENCE:?}")))
    }
}

/// The address of an end on its path.
fn address(lab: &EphemeralLab, path: Path, number: u16, place: Place) -> Result<Ipv4Addr, LabError> {
    match (path, place) {
        (Path::Vxlan | Path::Felt | Path::FeltPolicy | Path::FeltPlain, Place::Node(_)) => {
            let subnet = lab.node(number)?.subnet()?;
            // A node's own overlay address is the first of its subnet.
            subnet.map(|env| env.subnet.base()).ok_or_else(|| LabError::Probe(format!("{place} has no subnet")))
        }
        _ => lab.address(place),
    }
}

/// What the kernel refused, as a failed step.
pub(super) fn refused<E: Error + Send + Sync + 'static>(error: E) -> LabError {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let kind = source.map_or(io::ErrorKind::Other, io::Error::kind);
    LabError::Step { step: "set up a path to measure".to_owned(), reason: io::Error::new(kind, error) }
}
