//! The registry of a lab: `felt serve` or etcd, as a process that can be stopped, frozen and started again.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::process::{self, Role};
use super::{HUB_ADDRESS, Interrupt, Lab, LabError, Place, RegistryKind, probe, requirements};
use crate::sys::process::Signal;

/// How long a registry may take from its start to its first answer.
const START_PATIENCE: Duration = Duration::from_secs(30);
const STOP_PATIENCE: Duration = Duration::from_secs(10);
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// Where etcd would talk to other members.
const ETCD_PEER_PORT: u16 = 2380;

/// The registry of a lab.
#[derive(Clone, Copy, Debug)]
pub struct RegistryHandle<'a> {
    lab: &'a Lab,
}

impl<'a> RegistryHandle<'a> {
    pub(super) fn new(lab: &'a Lab) -> Self {
        Self { lab }
    }

    /// What it is and where it listens.
    #[must_use]
    pub fn describe(&self) -> String {
        let plan = self.lab.plan();
        match (plan.registry, plan.registry_endpoint()) {
            (RegistryKind::Embedded, Some(endpoint)) => format!("embedded, {endpoint}"),
            (RegistryKind::Etcd, Some(endpoint)) => format!("etcd, {endpoint}"),
            _ => "none".to_owned(),
        }
    }

    /// Its process id, if it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.lab.running(Role::Registry).map(|process| process.identity.pid)
    }

    /// Starts it, with the data it had before, and waits until it listens.
    ///
    /// # Errors
    /// With the end of its log, when it ends or does not listen in time.
    pub fn start(&self, interrupt: &Interrupt) -> Result<(), LabError> {
        self.lab.start(Role::Registry, self.command()?)?;
        let Some(endpoint) = self.lab.plan().registry_endpoint() else { return Ok(()) };
        let netns = self.lab.netns(Place::Hub)?;
        let listens = interrupt.wait(START_PATIENCE, || {
            self.lab.require_running(Role::Registry)?;
            Ok(probe::is_listening(&netns, endpoint.into())?.then_some(()))
        })?;
        if listens.is_some() {
            return Ok(());
        }
        let process = self.lab.require_running(Role::Registry)?;
        Err(process.failed(format!("did not listen on {endpoint} within {START_PATIENCE:?}")))
    }

    /// Puts the network config, as `felt config set` does.
    ///
    /// # Errors
    /// With what that command said, when it failed.
    pub fn put_config(&self, config: &str) -> Result<(), LabError> {
        let plan = self.lab.plan();
        let mut command = Command::new(&plan.felt);
        command.args(["config", "set", "-"]).args(self.admin_args());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        process::mark(&mut command, &plan.name);
        self.lab.netns(Place::Hub)?.place(&mut command).map_err(process::netns_step)?;
        let mut run = || {
            let mut child = command.spawn()?;
            if let Some(mut input) = child.stdin.take() {
                // A command that fails before it reads tells why by its exit.
                let _ = input.write_all(config.as_bytes());
            }
            child.wait_with_output()
        };
        let output = run().map_err(LabError::step(format!("run {} config set", plan.felt.display())))?;
        if output.status.success() {
            return Ok(());
        }
        let log = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        Err(LabError::Process { process: "felt config set".to_owned(), reason: format!("failed ({})", output.status), log })
    }

    /// Asks it to end (SIGTERM) and waits.
    ///
    /// # Errors
    /// When it does not run, or does not end.
    pub fn stop(&self) -> Result<(), LabError> {
        self.lab.end(Role::Registry, Signal::Terminate, STOP_PATIENCE)
    }

    /// Ends it without warning (SIGKILL).
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&self) -> Result<(), LabError> {
        self.lab.end(Role::Registry, Signal::Kill, KILL_PATIENCE)
    }

    /// Halts it (SIGSTOP): connections stay open and nothing answers.
    ///
    /// # Errors
    /// When it does not run.
    pub fn freeze(&self) -> Result<(), LabError> {
        self.lab.require_running(Role::Registry)?.signal(Signal::Stop).map(drop)
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// When it does not run.
    pub fn thaw(&self) -> Result<(), LabError> {
        self.lab.require_running(Role::Registry)?.signal(Signal::Continue).map(drop)
    }

    /// The flags by which `felt` in the hub may change what nodes may not: `felt serve` takes the config from its own
    /// machine only, and knows that by the loopback address.
    fn admin_args(self) -> Vec<String> {
        let plan = self.lab.plan();
        match (plan.registry, plan.registry_endpoint()) {
            (RegistryKind::Embedded, Some(endpoint)) => {
                vec!["--remote".to_owned(), SocketAddrV4::new(Ipv4Addr::LOCALHOST, endpoint.port()).to_string()]
            }
            _ => plan.registry_args(),
        }
    }

    fn command(self) -> Result<Command, LabError> {
        let (plan, directory) = (self.lab.plan(), self.lab.directory());
        match (plan.registry, plan.registry_endpoint()) {
            (RegistryKind::Embedded, Some(endpoint)) => {
                let mut command = Command::new(&plan.felt);
                let everywhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, endpoint.port()).to_string();
                command.args(["serve", "--listen", &everywhere, "--store"]).arg(directory.join("registry.redb"));
                Ok(command)
            }
            (RegistryKind::Etcd, Some(endpoint)) => {
                let (client, peer) = (format!("http://{endpoint}"), format!("http://{HUB_ADDRESS}:{ETCD_PEER_PORT}"));
                let mut command = Command::new(requirements::etcd()?);
                command.args(["--name", "lab", "--data-dir"]).arg(directory.join("etcd"));
                command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
                command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
                command.args(["--initial-cluster", &format!("lab={peer}")]);
                Ok(command)
            }
            _ => Err(LabError::BadPlan("this lab has no registry".to_owned())),
        }
    }
}
