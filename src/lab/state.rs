//! What a lab remembers on disk: its plan, the processes it started, the addresses of its pods.
//!
//! One directory per lab under [`ROOT`]: `state.json`, logs, the registry's store, and a directory per node with its
//! subnet.env. The state is rewritten whole and atomically after every change, so that whoever takes the lab down finds
//! each process by its id *and* the moment it started, and never ends a stranger that got the id later.

use std::fs;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::name_option;
use super::process::{ProcessRecord, Role};
use super::{LabError, LabName, LabPlan, Place};

/// Where labs keep their directories.
pub const ROOT: &str = "/run/felt/lab";
/// Version of the record's form; one of another version is not read.
const VERSION: u32 = 1;
const FILE: &str = "state.json";

/// The record of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LabState {
    version: u32,
    pub(super) plan: LabPlan,
    /// Whether building has come to its end.
    pub(super) complete: bool,
    pub(super) processes: Vec<ProcessRecord>,
    pub(super) pods: Vec<PodRecord>,
}

/// A pod that has an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PodRecord {
    pub(super) place: Place,
    pub(super) address: Ipv4Addr,
}

impl LabState {
    pub(super) fn new(plan: LabPlan) -> Self {
        Self { version: VERSION, plan, complete: false, processes: Vec::new(), pods: Vec::new() }
    }

    /// Reads the record of a lab.
    ///
    /// # Errors
    /// [`LabError::Absent`] when there is none, [`LabError::BadState`] when it cannot be used.
    pub(super) fn load(lab: &LabName) -> Result<Self, LabError> {
        let path = directory(lab).join(FILE);
        let bad = |reason: String| LabError::BadState { path: path.clone(), reason, option: name_option(lab) };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LabError::Absent { lab: lab.to_string(), option: name_option(lab) });
            }
            Err(error) => return Err(bad(error.to_string())),
        };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(found) if found == u64::from(VERSION) => {}
            found => {
                let found = found.map_or_else(|| "none".to_owned(), |found| found.to_string());
                return Err(bad(format!("expected a lab record of version {VERSION}, found {found}")));
            }
        }
        serde_json::from_value(value).map_err(|error| bad(error.to_string()))
    }

    /// Writes the record: whole or not at all.
    pub(super) fn store(&self) -> Result<(), LabError> {
        let path = directory(&self.plan.name).join(FILE);
        let write = || -> io::Result<()> {
            let next = path.with_extension("json.next");
            let mut file = fs::File::create(&next)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            fs::rename(&next, &path)
        };
        write().map_err(LabError::step(format!("write {}", path.display())))
    }

    pub(super) fn process(&self, role: Role) -> Option<&ProcessRecord> {
        self.processes.iter().find(|process| process.role == role)
    }

    /// Notes a process in place of the one that had its role before.
    pub(super) fn put_process(&mut self, record: ProcessRecord) {
        self.processes.retain(|process| process.role != record.role);
        self.processes.push(record);
    }

    pub(super) fn address(&self, place: Place) -> Option<Ipv4Addr> {
        self.pods.iter().find(|pod| pod.place == place).map(|pod| pod.address)
    }

    /// Notes a pod's address in place of the one it had before.
    pub(super) fn put_pod(&mut self, place: Place, address: Ipv4Addr) {
        self.pods.retain(|pod| pod.place != place);
        self.pods.push(PodRecord { place, address });
        self.pods.sort_by_key(|pod| pod.place);
    }
}

/// The directory of a lab.
pub(super) fn directory(lab: &LabName) -> PathBuf {
    Path::new(ROOT).join(lab.as_str())
}

/// Makes the directory of a lab, which must not be there yet: the one who succeeds may build the lab.
pub(super) fn claim(lab: &LabName) -> Result<(), LabError> {
    const TRIES: u32 = 10;
    let path = directory(lab);
    for attempt in 1.. {
        // The end of another lab may remove the empty root between these two steps.
        match fs::create_dir_all(ROOT).and_then(|()| fs::create_dir(&path)) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < TRIES => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let found = path.display().to_string();
                return Err(LabError::Exists { lab: lab.to_string(), found, option: name_option(lab) });
            }
            Err(error) => return Err(LabError::step(format!("create {}", path.display()))(error)),
        }
    }
    Ok(())
}

/// Removes the directory of a lab, and the root when it was the last. Absence is no error.
pub(super) fn remove(lab: &LabName) -> io::Result<bool> {
    let found = match fs::remove_dir_all(directory(lab)) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    // Refused while anything else is in there, and that is fine.
    let root = Path::new(ROOT);
    let _ = fs::remove_dir(root).and_then(|()| root.parent().map_or(Ok(()), fs::remove_dir));
    Ok(found)
}

/// The names of all labs that have a directory, sorted.
pub(super) fn names() -> Vec<LabName> {
    let entries = fs::read_dir(ROOT).into_iter().flatten().flatten();
    let mut names: Vec<LabName> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    names.sort();
    names
}
