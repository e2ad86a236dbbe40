//! Two nodes on a direct link, run with the flags of a test, and what their link carries.

use std::fs;

use felt::lab::{EphemeralLab, Lab, LabPlan, Link, UPLINK};
use felt::sys::ethtool::{Ethtool, Offload};

use crate::datagrams::End;
use crate::support::{Metrics, acquainted, node, plan, pod, pod_address, up};

/// What the link between the nodes carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Underlay {
    /// A train crosses as one packet, as on a veth pair as it is made.
    Super,
    /// Each datagram crosses by itself, as on a real wire.
    Single,
}

/// The plan of such a lab, whose daemons get `flags`.
pub fn direct(test: &str, flags: &[&str]) -> LabPlan {
    let run_args = flags.iter().map(|&flag| flag.to_owned()).collect();
    LabPlan { link: Link::Direct, run_args, ..plan(test, 2) }
}

/// The lab, once both nodes know each other.
pub fn ground(plan: LabPlan) -> EphemeralLab {
    let lab = up(plan);
    acquainted(&lab);
    lab
}

/// Makes both ends of the link carry that.
pub fn carry(lab: &Lab, underlay: Underlay) {
    let segmenting = [Offload::TcpSegmentation, Offload::GenericSegmentation, Offload::UdpSegmentation];
    switch(lab, &segmenting.map(|offload| (offload, underlay == Underlay::Super)));
}

/// Switches offloads of both ends of the link.
pub fn switch(lab: &Lab, wanted: &[(Offload, bool)]) {
    for number in [1, 2] {
        let ethtool = node(lab, number).run_in(Ethtool::open).unwrap().unwrap();
        ethtool.switch(UPLINK, wanted).unwrap();
    }
}

/// Runs `work` between the pods of both nodes: their ends, first node first.
pub fn between<T>(lab: &Lab, work: impl FnOnce(End<'_>, End<'_>) -> T) -> T {
    let (one, two) = (pod(lab, 1), pod(lab, 2));
    let end = |netns, number| End { netns, address: pod_address(lab, number) };
    work(end(&one, 1), end(&two, 2))
}

/// Packets that came in through the uplink of a node.
pub fn uplink_packets(lab: &Lab, number: u16) -> u64 {
    let text = node(lab, number).run_in(|| fs::read_to_string("/proc/thread-self/net/dev")).unwrap().unwrap();
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("eth0:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What a counter with two directions has counted.
#[derive(Clone, Copy, Debug)]
pub struct Both {
    pub egress: u64,
    pub ingress: u64,
}

impl Both {
    /// Of `name` between two scrapes.
    pub fn since(name: &str, before: &Metrics, after: &Metrics) -> Self {
        let of = |direction| {
            let name = format!("felt_{name}_total{{direction=\"{direction}\"}}");
            after.value(&name) - before.value(&name)
        };
        Self { egress: of("egress"), ingress: of("ingress") }
    }
}
