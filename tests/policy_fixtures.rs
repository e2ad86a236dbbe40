//! Every case of the fixtures: five folders of small clusters with the verdict for each pair of endpoints. They lie beside the
//! repository or where `FELT_FIXTURES` says; without them there is nothing to do here.

#![allow(clippy::print_stdout, reason = "how much was compared is worth a line")]

mod policy_proof;

use policy_proof::engine::{self, Engine};
use policy_proof::fixture::{self, Cell, Step};
use policy_proof::naive;

const FOLDERS: [&str; 5] = ["cyclonus", "k8s-e2e", "npapi/v1alpha2", "npapi/v1alpha1", "semantics"];

/// Every step of every case; `answers` gets the steps of a case and gives what asks about each.
fn run(who: &str, mut check: impl FnMut(&[Step], &mut dyn FnMut(&Step, &dyn Fn(&Cell) -> char))) {
    let Some(root) = fixture::folder() else {
        println!("no fixtures: set FELT_FIXTURES to their folder");
        return;
    };
    let mut wrong = Vec::new();
    for folder in FOLDERS {
        let cases = fixture::cases(&root.join(folder));
        assert!(!cases.is_empty(), "{folder} is empty");
        let (mut steps, mut cells) = (0, 0);
        for case in &cases {
            check(case, &mut |step, letter| {
                steps += 1;
                cells += step.cells.len();
                for cell in &step.cells {
                    let found = letter(cell);
                    if !cell.right.contains(found) {
                        wrong.push(format!("{}: {cell:?}: {found} found", step.name));
                    }
                }
            });
        }
        println!("{who}: {folder}: {} cases, {steps} steps, {cells} cells", cases.len());
    }
    let some = wrong.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} cells differ, such as\n{some}", wrong.len());
}

/// The engine knows no flows between ends that are no pods: it has no say, and so allows.
fn engine_letter(policies: &felt::policy::Policies, cell: &Cell) -> char {
    match engine::letter(policies, cell.from, cell.to, &cell.protocol, cell.port) {
        '.' if cell.right == "-" => '-',
        letter => letter,
    }
}

#[test]
fn the_engine_from_scratch() {
    run("from scratch", |case, ask| {
        for step in case {
            let mut engine = Engine::new();
            for change in engine.changes(&step.objects) {
                engine.apply(change);
            }
            let policies = engine.compile();
            ask(step, &|cell| engine_letter(&policies, cell));
        }
    });
}

#[test]
fn the_engine_step_by_step() {
    // One engine for all cases: what one leaves behind would show in the next.
    let mut engine = Engine::new();
    run("step by step", |case, ask| {
        for step in case {
            for change in engine.changes(&step.objects) {
                engine.apply(change);
            }
            let policies = engine.compile();
            ask(step, &|cell| engine_letter(&policies, cell));
        }
    });
}

#[test]
fn the_slow_twin() {
    run("slow twin", |case, ask| {
        for step in case {
            ask(step, &|cell| naive::letter(&step.objects, cell.from, cell.to, &cell.protocol, cell.port));
        }
    });
}
