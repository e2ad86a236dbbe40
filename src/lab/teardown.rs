//! Taking a lab down: from its record if there is one, else from the names and marks of what it left.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use super::process::{self, Identity, ProcessRecord};
use super::state::{self, LabState};
use super::{LabError, LabName, Place};
use crate::sys::netns::Netns;
use crate::sys::process::Signal;

/// A daemon has two seconds to end in good order, and some more on a busy machine.
const POLITE: Duration = Duration::from_secs(4);
/// The kernel may take a while to end a process that was told to.
const FORCED: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(10);

/// What taking a lab down removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Processes that were running.
    pub processes: usize,
    /// Network namespaces.
    pub namespaces: usize,
    /// Whether there was a directory with record, logs and store.
    pub directory: bool,
}

impl Removed {
    /// Whether there was nothing to remove.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Takes the lab called `lab` down, whole, half-built or half-removed: ends its processes, deletes its namespaces with
/// every link in them, removes its directory. Doing it again finds nothing and is no error.
///
/// # Errors
/// [`LabError::LeftBehind`] when something resisted; the rest is removed all the same.
pub fn down(lab: &LabName) -> Result<Removed, LabError> {
    down_reaping(lab, &mut || {})
}

/// [`down`], where `reap` waits for those of the processes that are children of ours.
pub(super) fn down_reaping(lab: &LabName, reap: &mut dyn FnMut()) -> Result<Removed, LabError> {
    // A record that cannot be read is no reason to leave anything: the marks find the processes.
    let records = LabState::load(lab).map(|state| state.processes).unwrap_or_default();
    let mut left = Vec::new();
    let processes = end_processes(lab, &records, reap, &mut left);
    let mut removed = Removed { processes, ..Removed::default() };
    let mut places = places(lab);
    // Pods before nodes before the hub.
    places.sort_by(|one, other| other.cmp(one));
    for place in places {
        match Netns::delete(&lab.namespace(place)) {
            Ok(()) => removed.namespaces += 1,
            Err(error) => left.push(error.to_string()),
        }
    }
    match state::remove(lab) {
        Ok(found) => removed.directory = found,
        Err(error) => left.push(format!("{}: {error}", state::directory(lab).display())),
    }
    if left.is_empty() { Ok(removed) } else { Err(LabError::LeftBehind { lab: lab.to_string(), left: left.join("; ") }) }
}

/// Every place whose namespace exists.
pub(super) fn places(lab: &LabName) -> Vec<Place> {
    let names = Netns::list().unwrap_or_default();
    names.iter().filter_map(|name| lab.place_of(name)).collect()
}

/// Ends every process of the lab, politely first; how many there were.
fn end_processes(lab: &LabName, records: &[ProcessRecord], reap: &mut dyn FnMut(), left: &mut Vec<String>) -> usize {
    let mut seen = BTreeSet::<Identity>::new();
    // A frozen process hears of its end only once it is thawed.
    for (signals, patience) in [([Signal::Terminate, Signal::Continue], POLITE), ([Signal::Kill, Signal::Continue], FORCED)] {
        let deadline = Instant::now() + patience;
        // Each is told once, as a second request to end would be taken as an order; but those that just appeared, too.
        let mut told = BTreeSet::<Identity>::new();
        loop {
            reap();
            let found = alive(lab, records);
            if found.is_empty() {
                return seen.len();
            }
            for process in found.difference(&told) {
                let sent = signals.iter().try_for_each(|signal| process.signal(*signal).map(drop));
                left.extend(sent.err().map(|error| format!("process {}: {error}", process.pid)));
            }
            seen.extend(&found);
            told.extend(&found);
            while told.iter().any(|process| process.is_alive()) && Instant::now() < deadline {
                thread::sleep(GLANCE);
                reap();
            }
            if Instant::now() >= deadline {
                break;
            }
        }
    }
    left.extend(alive(lab, records).into_iter().map(|process| format!("process {} does not end", process.pid)));
    seen.len()
}

/// Those of the record that run, and those in the lab's namespaces that carry its mark.
fn alive(lab: &LabName, records: &[ProcessRecord]) -> BTreeSet<Identity> {
    let mut found: BTreeSet<Identity> =
        records.iter().map(|record| record.identity).filter(|process| process.is_alive()).collect();
    let unrecorded: Vec<Identity> = process::marked(lab).into_iter().filter(|process| !found.contains(process)).collect();
    if !unrecorded.is_empty() {
        let namespaces = places(lab).into_iter().filter_map(|place| Netns::open(&lab.namespace(place)).ok());
        let inside: BTreeSet<u32> = namespaces.flat_map(|netns| netns.processes().unwrap_or_default()).collect();
        found.extend(unrecorded.into_iter().filter(|process| inside.contains(&process.pid)));
    }
    found
}
