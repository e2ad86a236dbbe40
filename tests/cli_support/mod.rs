//! The real binary, run with an environment of our own.
#![allow(dead_code, reason = "each test file uses what it needs")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

/// What a run of `felt` gave.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `felt` with the words of `line` and nothing else.
pub fn felt(line: &str) -> Ran {
    felt_with(line, &[], "")
}

/// Runs `felt` with the words of `line`, with `variables` as its whole environment and `input` on standard input.
pub fn felt_with(line: &str, variables: &[(&str, &str)], input: &str) -> Ran {
    let mut child = command(line).envs(variables.iter().copied()).spawn().expect("felt starts");
    // A command that does not read its input has closed it by now, which is fine.
    drop(child.stdin.take().expect("standard input is piped").write_all(input.as_bytes()));
    Ran::from(child.wait_with_output().expect("felt ends"))
}

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_felt"));
    command.args(line.split_whitespace());
    isolated(command)
}

fn isolated(mut command: Command) -> Command {
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("felt speaks UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// A `felt serve` on a port of the kernel's choice; killed when dropped.
pub struct Running {
    child: Child,
    log: String,
    rest: BufReader<ChildStderr>,
    address: String,
}

impl Running {
    /// Starts a server with the words of `line` and waits until it says where it listens.
    pub fn serve(line: &str) -> Self {
        Self::start(command(&format!("serve --listen 127.0.0.1:0 {line}")))
    }

    /// The same, with a soft limit on open files.
    pub fn serve_with_few_files(line: &str, limit: u32) -> Self {
        let felt = env!("CARGO_BIN_EXE_felt");
        let script = format!("ulimit -Sn {limit} && exec {felt} serve --listen 127.0.0.1:0 {line}");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script]);
        Self::start(isolated(shell))
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("felt starts");
        let rest = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let mut running = Self { child, log: String::new(), rest, address: String::new() };
        while running.address.is_empty() {
            let before = running.log.len();
            let read = running.rest.read_line(&mut running.log).expect("felt logs UTF-8");
            assert!(read > 0, "felt serve ended: {}", running.log);
            if let Some((_, address)) = running.log[before..].split_once(" address=") {
                running.address = address.split_whitespace().next().expect("an address").to_owned();
            }
        }
        running
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How many files it may have open: the soft and the hard limit.
    pub fn file_limits(&self) -> Vec<u64> {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", self.child.id())).expect("it lives");
        let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit on files");
        line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    }

    /// What it logged until it listened.
    pub fn log(&self) -> &str {
        &self.log
    }

    /// Asks it to end and asserts that it ends well.
    pub fn end(mut self) {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
        assert!(asked.success());
        let status = self.child.wait().expect("felt ends");
        self.rest.read_to_string(&mut self.log).expect("felt logs UTF-8");
        assert!(status.success(), "{status}: {}", self.log);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already ended, most often.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
