//! `felt lab demo`: a network made, used, broken and mended before one's eyes, and nothing left behind.
//!
//! Every line with a tick is a claim that was checked just then. The first that does not hold ends the demo, which then
//! takes down what it built and fails.

mod acts;
mod claims;
mod figures;
mod policy;
mod stage;

use std::time::Instant;

pub use stage::Stage;

use super::{EphemeralLab, Interrupt, LabError, LabPlan, teardown};

/// Builds the lab of `plan`, with policy enforced in it, shows what it can do on `stage`, and takes it down, also when interrupted.
///
/// # Errors
/// The first claim that does not hold, or whatever kept a step from being taken.
pub fn demo(mut plan: LabPlan, stage: &mut Stage<'_>, interrupt: &Interrupt) -> Result<(), LabError> {
    if plan.nodes < 2 || plan.pods_per_node < 1 {
        return Err(LabError::BadPlan("a demo needs two nodes with a pod each at least".to_owned()));
    }
    plan.policy.get_or_insert_default();
    let (begin, name) = (Instant::now(), plan.name.clone());
    stage.title(&format!("Felt: {} nodes, {} pods on each, one overlay in user space", plan.nodes, plan.pods_per_node));
    stage.act("Building the network");
    let lab = match EphemeralLab::up(plan, stage, interrupt) {
        Ok(lab) => lab,
        Err(error) => {
            stage.failed(&error);
            stage.note("what had been built is taken down again");
            return Err(error);
        }
    };
    stage.settled();
    let shown = acts::play(&lab, stage, interrupt);
    if let Err(error) = &shown {
        stage.failed(error);
    }

    stage.act("Taking it down");
    let directory = lab.directory();
    let removed = lab.down().inspect_err(|error| stage.failed(error))?;
    stage.done(&format!("{} processes ended, {} namespaces deleted", removed.processes, removed.namespaces));
    if !teardown::places(&name).is_empty() || directory.exists() {
        let left = "namespaces or files that appeared meanwhile".to_owned();
        return Err(LabError::LeftBehind { lab: name.to_string(), left });
    }
    stage.done("nothing is left: no process, no namespace, no file");
    shown?;
    stage.title(&format!("All of it held, in {}.", figures::time(begin.elapsed())));
    Ok(())
}
