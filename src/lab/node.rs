//! One node of a lab: its daemon, its cable, its pods.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::process::Role;
use super::wiring::{self, PodLink};
use super::{Interrupt, Lab, LabError, Place, RegistryKind, SubnetEnv};
use crate::net::Prefix4;
use crate::sys::netlink::LinkKind;
use crate::sys::process::Signal;

/// How long a daemon may take from its start to a lease, on a busy machine and with many starting at once.
pub const READY_PATIENCE: Duration = Duration::from_mins(1);
/// Where a node's daemon answers health probes, inside its namespace.
pub const HEALTH_PORT: u16 = 8286;
/// How long a daemon may take from SIGTERM to its end before that is called a failure.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// How long the kernel may take to end a process.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of IP and UDP header that flannel's udp encapsulation adds.
const UDP_OVERHEAD: u32 = 28;

/// One node of a lab.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    lab: &'a Lab,
    number: u16,
}

impl<'a> Node<'a> {
    pub(super) fn new(lab: &'a Lab, number: u16) -> Self {
        Self { lab, number }
    }

    /// Its number, from 1.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Its place.
    #[must_use]
    pub fn place(&self) -> Place {
        Place::Node(self.number)
    }

    /// Its pods.
    pub fn pods(&self) -> impl Iterator<Item = Place> + use<> {
        let node = self.number;
        self.lab.plan().pod_numbers().map(move |pod| Place::Pod { node, pod })
    }

    /// Where its daemon writes subnet.env.
    #[must_use]
    pub fn subnet_file(&self) -> PathBuf {
        self.directory().join("subnet.env")
    }

    /// What its daemon writes to stdout and stderr; grows over restarts.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.lab.directory().join(format!("{}.log", self.role()))
    }

    /// The subnet it has, by its subnet.env; `None` before its first lease.
    ///
    /// # Errors
    /// When subnet.env cannot be understood.
    pub fn subnet(&self) -> Result<Option<SubnetEnv>, LabError> {
        let plan = self.lab.plan();
        if plan.registry == RegistryKind::Absent {
            let (network, subnet) = (plan.network()?, plan.fixed_subnet(self.number)?);
            return Ok(Some(SubnetEnv { network, subnet, mtu: plan.underlay_mtu - UDP_OVERHEAD }));
        }
        SubnetEnv::read(&self.subnet_file())
    }

    /// The process id of its daemon, if that runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.lab.running(self.role()).map(|process| process.identity.pid)
    }

    /// The process id of its daemon.
    ///
    /// # Errors
    /// With the end of its log, when it does not run.
    pub fn running_pid(&self) -> Result<u32, LabError> {
        self.lab.require_running(self.role()).map(|process| process.identity.pid)
    }

    /// Starts its daemon and does not wait for it to get ready.
    ///
    /// # Errors
    /// When it runs already, cannot be started, or the lab has no registry.
    pub fn start(&self) -> Result<(), LabError> {
        self.start_with(&[])
    }

    /// [`start`](Self::start) with further arguments for `felt run`.
    ///
    /// # Errors
    /// See [`start`](Self::start).
    pub fn start_with(&self, args: &[String]) -> Result<(), LabError> {
        let plan = self.lab.plan();
        if plan.registry == RegistryKind::Absent {
            return Err(LabError::BadPlan("this lab has no registry, so its nodes run no daemon".to_owned()));
        }
        let directory = self.directory();
        fs::create_dir_all(&directory).map_err(LabError::step(format!("create {}", directory.display())))?;
        let mut command = Command::new(&plan.felt);
        command.arg("run").args(plan.registry_args());
        command.args(["--iface", wiring::UPLINK, "--healthz-ip", "127.0.0.1", "--healthz-port", &HEALTH_PORT.to_string()]);
        // All nodes of a lab share this machine's id.
        command.args(["--node-id", &format!("{}-{}", plan.name, self.place())]);
        command.arg("--subnet-file").arg(self.subnet_file()).args(self.lab.policy_args(&self.place().to_string()));
        command.args(&plan.run_args).args(args);
        self.lab.start(self.role(), command)
    }

    /// Waits until its daemon says it is ready, and so has a lease; how long that took.
    ///
    /// # Errors
    /// With the end of its log, when it ends before or is not ready within [`READY_PATIENCE`].
    pub fn wait_ready(&self, interrupt: &Interrupt) -> Result<Duration, LabError> {
        let begin = Instant::now();
        let netns = self.lab.netns(self.place())?;
        let ready = interrupt.wait(READY_PATIENCE, || {
            self.lab.require_running(self.role())?;
            let is_ready = self.subnet_file().exists() && super::probe::is_ready(&netns, HEALTH_PORT)?;
            Ok(is_ready.then(|| begin.elapsed()))
        })?;
        match ready {
            Some(took) => Ok(took),
            None => Err(self.lab.require_running(self.role())?.failed(format!("was not ready within {READY_PATIENCE:?}"))),
        }
    }

    /// Whether its daemon says it is ready now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let netns = self.lab.netns(self.place());
        self.pid().is_some() && netns.and_then(|netns| super::probe::is_ready(&netns, HEALTH_PORT)).unwrap_or(false)
    }

    /// Asks its daemon to end (SIGTERM) and waits; how long that took.
    ///
    /// # Errors
    /// When it does not run, or does not end.
    pub fn stop(&self) -> Result<Duration, LabError> {
        let begin = Instant::now();
        self.lab.end(self.role(), Signal::Terminate, STOP_PATIENCE)?;
        Ok(begin.elapsed())
    }

    /// Ends its daemon without warning (SIGKILL).
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&self) -> Result<(), LabError> {
        self.lab.end(self.role(), Signal::Kill, KILL_PATIENCE)
    }

    /// Halts its daemon (SIGSTOP) until [`thaw`](Self::thaw).
    ///
    /// # Errors
    /// When it does not run.
    pub fn freeze(&self) -> Result<(), LabError> {
        self.lab.require_running(self.role())?.signal(Signal::Stop).map(drop)
    }

    /// Lets its daemon go on (SIGCONT).
    ///
    /// # Errors
    /// When it does not run.
    pub fn thaw(&self) -> Result<(), LabError> {
        self.lab.require_running(self.role())?.signal(Signal::Continue).map(drop)
    }

    /// Cuts the node off from the registry and from every other node.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn cut(&self) -> Result<(), LabError> {
        wiring::set_cable(self.lab.plan(), self.number, false)
    }

    /// Ends what [`cut`](Self::cut) began.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn heal(&self) -> Result<(), LabError> {
        wiring::set_cable(self.lab.plan(), self.number, true)
    }

    /// Gives its pods addresses of the subnet it has now; connections of theirs from before are lost. With
    /// policy, the daemons are told of them.
    ///
    /// # Errors
    /// When it has no subnet, or too small a one.
    pub fn attach_pods(&self) -> Result<(), LabError> {
        self.attach()?;
        self.lab.publish_pods()
    }

    /// [`attach_pods`](Self::attach_pods) with another MTU than that of its subnet.env, in bytes.
    ///
    /// # Errors
    /// See [`attach_pods`](Self::attach_pods).
    pub fn attach_pods_with(&self, mtu: u32) -> Result<(), LabError> {
        self.attach_to(self.require_subnet()?.subnet, mtu)?;
        self.lab.publish_pods()
    }

    /// The TUN device of its daemon; `None` if there is none.
    ///
    /// # Errors
    /// When the kernel refuses to list the devices.
    pub fn tun(&self) -> Result<Option<String>, LabError> {
        let links = wiring::netlink(self.lab.plan(), self.place())?.links().map_err(wiring::refused)?;
        Ok(links.into_iter().find(|link| link.kind == Some(LinkKind::Tun)).map(|link| link.name))
    }

    fn require_subnet(&self) -> Result<SubnetEnv, LabError> {
        self.subnet()?.ok_or_else(|| LabError::Probe(format!("{} has no subnet yet", self.place())))
    }

    /// [`attach_pods`](Self::attach_pods), and the daemons are not told yet.
    pub(super) fn attach(&self) -> Result<(), LabError> {
        let env = self.require_subnet()?;
        self.attach_to(env.subnet, env.mtu)
    }

    fn attach_to(&self, subnet: Prefix4, mtu: u32) -> Result<(), LabError> {
        for pod in self.lab.plan().pod_numbers() {
            let address = wiring::attach_pod(self.lab.plan(), self.number, PodLink { pod, subnet, mtu })?;
            self.lab.change(|state| state.put_pod(Place::Pod { node: self.number, pod }, address))?;
        }
        Ok(())
    }

    fn role(&self) -> Role {
        Role::Node(self.number)
    }

    fn directory(&self) -> PathBuf {
        self.lab.directory().join(self.role().to_string())
    }
}
