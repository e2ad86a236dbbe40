//! A `felt` run by hand, outside a lab's own book-keeping: its exit code, its log, its signals.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use felt::lab::{Lab, MARK};
use felt::sys::netns::Netns;
use felt::sys::process::{ProcessFd, Signal};
use tempfile::TempDir;

/// A process of ours, ended with this value.
pub struct Daemon {
    child: Child,
    directory: TempDir,
}

impl Daemon {
    /// Starts `command` in `netns`, with its output in a log of its own.
    pub fn start(lab: &Lab, netns: &Netns, mut command: Command) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let log = File::create(directory.path().join("log")).unwrap();
        command.env(MARK, lab.plan().name.as_str()).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        netns.place(&mut command).unwrap();
        Self { child: command.spawn().unwrap(), directory }
    }

    /// Starts `felt run` as the lab does, with a subnet file in `directory`.
    pub fn run(lab: &Lab, netns: &Netns, directory: &Path, args: &[&str]) -> Self {
        Self::start(lab, netns, Self::run_command(lab, netns, directory, args))
    }

    /// The command of [`run`](Self::run).
    pub fn run_command(lab: &Lab, netns: &Netns, directory: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(&lab.plan().felt);
        command.args(Self::run_words(lab, netns, directory)).args(args);
        command
    }

    /// What comes after `felt` in it. The node is the one whose namespace this is, also to the registry.
    pub fn run_words(lab: &Lab, netns: &Netns, directory: &Path) -> Vec<String> {
        let mut words = vec!["run".to_owned()];
        words.extend(lab.plan().registry_args());
        let file = directory.join("subnet.env").display().to_string();
        words.extend(["--iface", felt::lab::UPLINK, "--node-id", netns.name(), "--subnet-file", &file].map(str::to_owned));
        words
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        ProcessFd::open(self.pid()).unwrap().signal(signal).unwrap();
    }

    /// How it ended; fails the test if it has not within `patience`.
    pub fn ended(&mut self, patience: Duration) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < patience, "still running after {patience:?}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// What it has said so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap()
    }

    /// Where it says it.
    pub fn log_file(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time a process has used, user and system, all threads.
pub fn cpu_time(pid: u32) -> Duration {
    /// Ticks a second, on every Linux of today (`USER_HZ`).
    const MILLISECONDS_A_TICK: u64 = 10;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * MILLISECONDS_A_TICK)
}
