//! The processes of a lab: started in its namespaces, known by id and start, ended only if they are ours.
//!
//! A process is ours if the lab's record names its id and the moment it started, or if it lives in a namespace of the lab
//! and carries the lab's mark in its environment. The mark finds what the record missed: a process whose record was not
//! yet written when its lab was cut short, and what `felt lab exec` started.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};

use super::{LabError, LabName, Place};
use crate::sys::netns::Netns;
use crate::sys::process::{ProcessFd, Signal, is_no_process};

/// Environment variable that marks every process of a lab with the lab's name.
pub const MARK: &str = "FELT_LAB";
/// Variables of a shell that would change what a daemon does are kept from it if they start like this.
const FOREIGN_SETTINGS: [&str; 3] = ["FLANNELD_", "FELT_", "ETCD_"];
/// How many lines of a log an error shows.
const TAIL_LINES: usize = 20;
/// How many bytes of a log are looked at for them.
const TAIL_BYTES: usize = 16 * 1024;

/// What a process is in its lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Role {
    /// The registry, in the hub.
    Registry,
    /// The daemon of a node.
    Node(u16),
}

impl Role {
    /// Where it runs.
    pub(super) fn place(self) -> Place {
        match self {
            Self::Registry => Place::Hub,
            Self::Node(node) => Place::Node(node),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry => f.write_str("registry"),
            Self::Node(node) => write!(f, "node{node}"),
        }
    }
}

/// A process, told apart from any other that ever had its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) pid: u32,
    /// When it started, in clock ticks since boot: `starttime` of proc(5).
    started: u64,
}

impl Identity {
    /// The process that has this id now.
    fn of(pid: u32) -> Option<Self> {
        read_stat(pid).map(|stat| Self { pid, started: stat.started })
    }

    /// Whether it still runs. A zombie does not, once all its threads are gone: those may outlive the first one by a moment,
    /// and with them its sockets.
    pub(super) fn is_alive(self) -> bool {
        read_stat(self.pid).is_some_and(|stat| stat.started == self.started && !stat.ended)
    }

    /// Sends a signal, to this process only. Whether it was there to get it.
    pub(super) fn signal(self, signal: Signal) -> io::Result<bool> {
        // Opened first and looked at then: whatever gets the id from here on does not get the signal.
        let sent = ProcessFd::open(self.pid)
            .and_then(|process| if self.is_alive() { process.signal(signal).map(|()| true) } else { Ok(false) });
        match sent {
            Err(error) if is_no_process(&error) => Ok(false),
            other => other,
        }
    }
}

/// A process of a lab's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessRecord {
    pub(super) role: Role,
    pub(super) identity: Identity,
    pub(super) log: PathBuf,
}

impl ProcessRecord {
    /// Sends a signal. Whether the process was there to get it.
    pub(super) fn signal(&self, signal: Signal) -> Result<bool, LabError> {
        self.identity.signal(signal).map_err(LabError::step(format!("signal {}", self.role)))
    }

    /// The error of this process having failed, with the end of its log.
    pub(super) fn failed(&self, reason: impl Into<String>) -> LabError {
        let place = self.log.display();
        let log = match tail(&self.log) {
            lines if lines.is_empty() => format!("({place} is empty)"),
            lines => format!("last lines of {place}:\n{lines}"),
        };
        LabError::Process { process: self.role.to_string(), reason: reason.into(), log }
    }
}

/// Starts `command` in `netns`, apart from our terminal, with output to `log`.
pub(super) fn spawn(
    mut command: Command,
    lab: &LabName,
    role: Role,
    netns: &Netns,
    log: PathBuf,
) -> Result<(ProcessRecord, Child), LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let step = || LabError::step(format!("start {role} ({program})"));
    let output = OpenOptions::new().create(true).append(true).open(&log).map_err(step())?;
    let errors = output.try_clone().map_err(step())?;
    // Its own process group: Ctrl-C at the terminal is for us, who take the lab down in good order.
    command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
    mark(&mut command, lab);
    netns.place(&mut command).map_err(netns_step)?;
    let child = command.spawn().map_err(step())?;
    let pid = child.id();
    // A child not yet waited for keeps its id, so this cannot be somebody else's start.
    let identity = Identity::of(pid).unwrap_or(Identity { pid, started: 0 });
    Ok((ProcessRecord { role, identity, log }, child))
}

/// Marks a command as the lab's, and keeps settings from it that are meant for other daemons.
pub(super) fn mark(command: &mut Command, lab: &LabName) {
    for (key, _) in std::env::vars_os() {
        let is_foreign = key.to_str().is_some_and(|key| FOREIGN_SETTINGS.iter().any(|prefix| key.starts_with(prefix)));
        if is_foreign {
            command.env_remove(key);
        }
    }
    command.env(MARK, lab.as_str());
}

/// Running processes that carry the lab's mark, ourselves excepted.
pub(super) fn marked(lab: &LabName) -> Vec<Identity> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let theirs = pids.filter(|pid| *pid != std::process::id());
    // Its start is read first, so that a mark seen afterwards is this process's or a later one's with the same id, which
    // a signal to this identity then does not reach.
    theirs.filter_map(Identity::of).filter(|process| has_mark(process.pid, lab) && process.is_alive()).collect()
}

fn has_mark(pid: u32, lab: &LabName) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let mark = format!("{MARK}={lab}");
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

struct Stat {
    started: u64,
    ended: bool,
}

fn read_stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads proc(5) `stat`. The second field is the program's name in parentheses and may hold anything.
fn parse_stat(text: &str) -> Option<Stat> {
    /// Fields between the name and `num_threads`, and `starttime`, the state being the first.
    const THREADS: usize = 17;
    const STARTED: usize = 19;
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let threads: u32 = fields.get(THREADS)?.parse().ok()?;
    Some(Stat { started: fields.get(STARTED)?.parse().ok()?, ended: matches!(*fields.first()?, "Z" | "X") && threads <= 1 })
}

/// The last lines of a log.
pub(super) fn tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default());
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default().join("\n")
}

pub(super) fn netns_step(error: crate::sys::netns::NetnsError) -> LabError {
    LabError::Step { step: "use a network namespace".to_owned(), reason: io::Error::new(error.kind(), error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_any_program_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 18 4242 20";
        assert_eq!(parse_stat(&format!("7 (a) Z (b c)) {rest}")).unwrap().started, 4242);
        assert!(!parse_stat(&format!("7 (Z) {rest}")).unwrap().ended);
        let zombie = rest.replacen('S', "Z", 1);
        assert!(parse_stat(&format!("7 (x) {zombie}")).unwrap().ended);
        assert!(!parse_stat(&format!("7 (x) {}", zombie.replacen("16 1 ", "16 2 ", 1))).unwrap().ended);
        assert!(parse_stat("7 (x) S 1").is_none() && parse_stat("").is_none());
    }

    #[test]
    fn a_reused_id_is_not_our_process() {
        let own = std::process::id();
        let started = read_stat(own).unwrap().started;
        let identity = |started| Identity { pid: own, started };
        assert!(identity(started).is_alive());
        assert!(!identity(started + 1).is_alive());
        // Were it sent, this test would not live to say so.
        assert!(!identity(started + 1).signal(Signal::Kill).unwrap());
    }

    #[test]
    fn a_tail_is_the_last_lines() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let lines: Vec<String> = (1..=100).map(|line| format!("line {line}")).collect();
        fs::write(log.path(), lines.join("\n")).unwrap();
        assert_eq!(tail(log.path()), lines[80..].join("\n"));
        assert_eq!(tail(Path::new("/nowhere/at/all")), "");
    }
}
