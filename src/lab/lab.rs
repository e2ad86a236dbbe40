//! A lab that stands: its places, its nodes, its registry.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::process::{self, ProcessRecord, Role};
use super::state::{self, LabState};
use super::teardown::{self, Removed};
use super::{EphemeralLab, Interrupt, LabError, LabName, LabPlan, Node, Place, Progress, RegistryHandle, build, wiring};
use crate::sys::netns::Netns;
use crate::sys::process::Signal;

/// A lab, whole and standing. It goes on standing when this value goes: see [`EphemeralLab`] for one that does not.
///
/// Its methods take `&self` and may be called from several threads; a process of its own should be the only one to change
/// it, as the last of two writers of the record wins.
#[derive(Debug)]
pub struct Lab {
    plan: LabPlan,
    state: Mutex<LabState>,
    /// Those of its processes that are children of this one, and so have to be waited for.
    children: Mutex<HashMap<Role, Child>>,
}

impl Lab {
    /// Builds a lab and waits until every node has a lease and every pod an address.
    ///
    /// # Errors
    /// [`LabError::Exists`] when there is one of that name, or part of one. On any other error, and once `interrupt` is
    /// raised, what was built is taken down again first.
    pub fn up(plan: LabPlan, progress: &mut dyn Progress, interrupt: &Interrupt) -> Result<Self, LabError> {
        EphemeralLab::up(plan, progress, interrupt).map(EphemeralLab::keep)
    }

    /// Opens a lab that stands, built by this process or another.
    ///
    /// # Errors
    /// [`LabError::Absent`] when there is none.
    pub fn open(name: &LabName) -> Result<Self, LabError> {
        let state = LabState::load(name)?;
        Ok(Self { plan: state.plan.clone(), state: Mutex::new(state), children: Mutex::default() })
    }

    /// The names of all labs on this machine, sorted.
    #[must_use]
    pub fn names() -> Vec<LabName> {
        state::names()
    }

    /// Begins a lab: nothing of it stands yet but its directory.
    pub(super) fn begin(plan: LabPlan) -> Result<Self, LabError> {
        build::claim(&plan)?;
        let state = LabState::new(plan.clone());
        Ok(Self { plan, state: Mutex::new(state), children: Mutex::default() })
    }

    /// Takes it down. See [`super::down`].
    pub fn down(self) -> Result<Removed, LabError> {
        self.take_down()
    }

    pub(super) fn take_down(&self) -> Result<Removed, LabError> {
        teardown::down_reaping(&self.plan.name, &mut || self.reap())
    }

    /// What it was asked to look like.
    #[must_use]
    pub fn plan(&self) -> &LabPlan {
        &self.plan
    }

    /// Where its logs, the registry's store and each node's subnet.env are.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        state::directory(&self.plan.name)
    }

    /// Node `number`, from 1.
    ///
    /// # Errors
    /// [`LabError::NoSuchPlace`] when there is no such node.
    pub fn node(&self, number: u16) -> Result<Node<'_>, LabError> {
        self.require(Place::Node(number))?;
        Ok(Node::new(self, number))
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.plan.node_numbers().map(|number| Node::new(self, number))
    }

    /// The registry, as something to be stopped and frozen.
    #[must_use]
    pub fn registry(&self) -> RegistryHandle<'_> {
        RegistryHandle::new(self)
    }

    /// All pods, by node and number.
    pub fn pods(&self) -> impl Iterator<Item = Place> + use<> {
        let pods = self.plan.pods_per_node;
        self.plan.node_numbers().flat_map(move |node| (1..=pods).map(move |pod| Place::Pod { node, pod }))
    }

    /// The address of a place: of a pod in the overlay, of a node or the hub in the underlay.
    ///
    /// # Errors
    /// When there is no such place, or the pod's node never had a lease.
    pub fn address(&self, place: Place) -> Result<Ipv4Addr, LabError> {
        self.require(place)?;
        match place {
            Place::Hub => Ok(super::HUB_ADDRESS),
            Place::Node(node) => Ok(self.plan.underlay(node)),
            Place::Pod { .. } => self
                .state()
                .address(place)
                .ok_or_else(|| LabError::Probe(format!("{place} has no address: its node has had no lease yet"))),
        }
    }

    /// The network namespace of a place.
    ///
    /// # Errors
    /// When there is no such place, or its namespace has gone.
    pub fn netns(&self, place: Place) -> Result<Netns, LabError> {
        self.require(place)?;
        wiring::netns(&self.plan, place)
    }

    pub(super) fn require(&self, place: Place) -> Result<(), LabError> {
        let plan = &self.plan;
        let is_node = |node: u16| (1..=plan.nodes).contains(&node);
        let is_there = match place {
            Place::Hub => true,
            Place::Node(node) => is_node(node),
            Place::Pod { node, pod } => is_node(node) && (1..=plan.pods_per_node).contains(&pod),
        };
        if is_there {
            return Ok(());
        }
        let pods = match plan.pods_per_node {
            0 => "no pods".to_owned(),
            1 => "pod1 on each".to_owned(),
            pods => format!("pod1 to pod{pods} on each"),
        };
        let known = format!("hub, node1 to node{}, {pods}", plan.nodes);
        Err(LabError::NoSuchPlace { lab: plan.name.to_string(), place: place.to_string(), known })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, LabState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the record, in memory and on disk.
    pub(super) fn change(&self, change: impl FnOnce(&mut LabState)) -> Result<(), LabError> {
        let mut state = self.state();
        change(&mut state);
        state.store()
    }

    /// Starts a process of the lab, unless the one that has this role is still there.
    pub(super) fn start(&self, role: Role, command: Command) -> Result<(), LabError> {
        self.reap();
        if let Some(running) = self.running(role) {
            return Err(running.failed("is running already"));
        }
        let netns = wiring::netns(&self.plan, role.place())?;
        let log = self.directory().join(format!("{role}.log"));
        let (record, child) = process::spawn(command, &self.plan.name, role, &netns, log)?;
        self.children.lock().unwrap_or_else(PoisonError::into_inner).insert(role, child);
        self.change(|state| state.put_process(record))
    }

    /// The process that has this role, if it runs.
    pub(super) fn running(&self, role: Role) -> Option<ProcessRecord> {
        self.state().process(role).filter(|process| process.identity.is_alive()).cloned()
    }

    /// # Errors
    /// When no process of this role runs, with the end of the last one's log.
    pub(super) fn require_running(&self, role: Role) -> Result<ProcessRecord, LabError> {
        self.reap();
        let state = self.state();
        match state.process(role) {
            Some(process) if process.identity.is_alive() => Ok(process.clone()),
            Some(process) => Err(process.failed("is not running")),
            None => Err(LabError::Probe(format!("{role} was never started"))),
        }
    }

    /// Sends a signal to the process of this role, and waits up to `patience` for its end.
    pub(super) fn end(&self, role: Role, signal: Signal, patience: Duration) -> Result<(), LabError> {
        let process = self.require_running(role)?;
        process.signal(signal)?;
        // A stop once begun is seen to its end: no interrupt here.
        let gone = Interrupt::new().wait(patience, || {
            self.reap();
            Ok((!process.identity.is_alive()).then_some(()))
        })?;
        gone.ok_or_else(|| process.failed(format!("did not end within {patience:?} of {signal:?}")))
    }

    /// Waits for those children that have ended, so that none stays a zombie.
    fn reap(&self) {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain(|_, child| matches!(child.try_wait(), Ok(None)));
    }
}
