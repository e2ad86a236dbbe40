//! Waiting until nodes know each other.

use felt::lab::Lab;

use super::http::metrics;
use super::lab::{PATIENCE, eventually, node};

/// Waits until every node of `lab` knows all the others: a node is ready with the leases that there were when it came.
pub fn acquainted(lab: &Lab) {
    let nodes = lab.plan().nodes;
    for number in 1..=nodes {
        let knows = || (metrics(&node(lab, number)).value("felt_peers") == u64::from(nodes - 1)).then_some(());
        eventually("the nodes know each other", PATIENCE, knows);
    }
}
