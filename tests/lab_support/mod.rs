//! What lab tests share.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use felt::lab::{Lab, LabName, LabPlan, MARK, Place};
use felt::sys::netns::Netns;

/// A plan whose name is this test's and this process's own.
pub fn plan(test: &str) -> LabPlan {
    let name = format!("t{}-{test}", std::process::id()).parse().unwrap();
    LabPlan { name, ..LabPlan::new(PathBuf::from(env!("CARGO_BIN_EXE_felt"))) }
}

/// The namespaces that belong to a lab.
pub fn namespaces_of(lab: &LabName) -> Vec<String> {
    Netns::list().unwrap().into_iter().filter(|name| lab.place_of(name).is_some()).collect()
}

/// Processes anywhere that carry a lab's mark.
pub fn processes_marked(lab: &LabName) -> Vec<u32> {
    let mark = format!("{MARK}={lab}");
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_mark = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    pids.filter(has_mark).collect()
}

/// A shell script left running in a place, as `felt lab exec` would.
pub fn spawn_in(lab: &Lab, place: Place, script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script]).env(MARK, lab.plan().name.as_str()).stdin(Stdio::null());
    lab.netns(place).unwrap().place(&mut command).unwrap();
    command.spawn().unwrap()
}
