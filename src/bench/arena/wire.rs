//! The wire between two nodes: a veth pair that carries super-packets, or single segments only.

use super::stand::refused;
use crate::bench::Underlay;
use crate::lab::{Lab, LabError, UPLINK};
use crate::sys::ethtool::{Ethtool, Offload};

/// What lets several segments of a sender cross as one packet. Of a new veth pair all are on.
///
/// Checksums stay with the device in both modes, as a real network card completes them too.
const SEGMENTING: [Offload; 3] = [Offload::TcpSegmentation, Offload::GenericSegmentation, Offload::UdpSegmentation];

/// Both ends of a wire.
#[derive(Debug)]
pub(super) struct Wire {
    ends: Vec<Ethtool>,
}

impl Wire {
    /// The wire of a lab with a direct link.
    pub(super) fn of(lab: &Lab) -> Result<Self, LabError> {
        let open =
            |place| -> Result<Ethtool, LabError> { lab.netns(place)?.run_in(Ethtool::open).map_err(refused)?.map_err(refused) };
        Ok(Self { ends: lab.nodes().map(|node| open(node.place())).collect::<Result<_, _>>()? })
    }

    /// Makes it carry what `underlay` says. Costs a few system calls when it does already.
    pub(super) fn carry(&self, underlay: Underlay) -> Result<(), LabError> {
        let wanted = SEGMENTING.map(|offload| (offload, underlay == Underlay::Super));
        self.ends.iter().try_for_each(|end| end.switch(UPLINK, &wanted)).map_err(refused)
    }
}

/// How the wire is set for each underlay, for people.
pub(super) fn describe(underlay: Underlay) -> &'static str {
    match underlay {
        Underlay::Super => "veth as made: tso, gso, tx-udp-segmentation on",
        Underlay::Single => "veth with tso, gso, tx-udp-segmentation off at both ends",
    }
}
