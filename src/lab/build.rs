//! Building a lab, in order: hub, nodes, pods, registry, config, daemons, addresses of the pods.

use super::error::name_option;
use super::{Interrupt, Lab, LabError, LabPlan, Place, RegistryKind, state, teardown, wiring};

/// Hears how building goes.
pub trait Progress {
    /// A step begins, described in a few words for people.
    fn step(&mut self, what: &str);
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&mut self, _what: &str) {}
}

/// Makes sure that there is no lab of the plan's name, nor part of one, and takes the name.
pub(super) fn claim(plan: &LabPlan) -> Result<(), LabError> {
    if let Some(place) = teardown::places(&plan.name).first() {
        let found = format!("network namespace {}", plan.name.namespace(*place));
        return Err(LabError::Exists { lab: plan.name.to_string(), found, option: name_option(&plan.name) });
    }
    state::claim(&plan.name)
}

/// Builds what the plan of a begun lab says.
pub(super) fn build(lab: &Lab, progress: &mut dyn Progress, interrupt: &Interrupt) -> Result<(), LabError> {
    let plan = lab.plan();
    // First of all, so that whoever finds this lab cut short knows what it is.
    lab.change(|_| {})?;
    progress.step(&format!("making namespaces and links for {}", count(plan)));
    wiring::build_hub(plan)?;
    for number in plan.node_numbers() {
        interrupt.check()?;
        wiring::build_node(plan, number)?;
        for pod in plan.pod_numbers() {
            wiring::build_pod(plan, Place::Pod { node: number, pod })?;
        }
    }
    wiring::join_nodes(plan)?;
    // Daemons read it when they start.
    lab.create_policy_dir()?;
    match plan.registry {
        RegistryKind::Absent => {
            for number in plan.node_numbers() {
                wiring::route_to_others(plan, number)?;
            }
        }
        RegistryKind::Embedded | RegistryKind::Etcd => {
            progress.step(&format!("starting the registry ({})", lab.registry().describe()));
            lab.registry().start(interrupt)?;
            lab.registry().put_config(&plan.config)?;
            progress.step("starting the nodes");
            for node in lab.nodes() {
                interrupt.check()?;
                node.start()?;
            }
            progress.step("waiting for their leases");
            for node in lab.nodes() {
                node.wait_ready(interrupt)?;
            }
        }
    }
    progress.step("giving the pods their addresses");
    for node in lab.nodes() {
        interrupt.check()?;
        node.attach()?;
    }
    // Once for all of them: each time the daemons read it anew.
    lab.publish_pods()?;
    lab.change(|state| state.complete = true)
}

fn count(plan: &LabPlan) -> String {
    let plural = |count: u16, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    format!("{} with {} each", plural(plan.nodes, "node"), plural(plan.pods_per_node, "pod"))
}
