//! What the acts ask of the network, and what they say where it does not hold.

use std::time::Duration;

use super::figures::time;
use crate::lab::probe::ping;
use crate::lab::{Interrupt, Lab, LabError, Place};

/// How long an answer may take before it counts as none.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// How long silence is listened to before it is believed.
pub(super) const SILENCE: Duration = Duration::from_millis(500);

/// Whether one of several pings within `patience` is answered.
pub(super) fn reaches(lab: &Lab, from: Place, to: Place, patience: Duration, interrupt: &Interrupt) -> Result<bool, LabError> {
    const EACH: Duration = Duration::from_millis(100);
    let (netns, address) = (lab.netns(from)?, lab.address(to)?);
    Ok(interrupt.wait(patience, || ping(&netns, address, EACH, interrupt))?.is_some())
}

pub(super) fn require_reach(
    lab: &Lab,
    from: Place,
    to: Place,
    patience: Duration,
    interrupt: &Interrupt,
) -> Result<(), LabError> {
    let reached = reaches(lab, from, to, patience, interrupt)?;
    if reached { Ok(()) } else { Err(claim(format!("{from} gets no answer from {to} within {}", time(patience)))) }
}

/// The pod that stands for its node.
pub(super) fn pod_of(node: u16) -> Place {
    Place::Pod { node, pod: 1 }
}

/// Something the demo says did not hold.
pub(super) fn claim(what: String) -> LabError {
    LabError::Probe(what)
}
