//! Policies, their peers put as atoms.

use std::collections::BTreeSet;

use super::interned::Interned;
use super::selectors::{Namespaces, PodSelector, Selectors};
use crate::policy::judge::PeerAtoms;
use crate::policy::model::{Action, Block, Peer, Policy, Ports, Rule, Selector, Subject, Tier};

/// All policies, by number, and the atoms that they speak of.
#[derive(Debug, Default)]
pub struct Catalogue {
    entries: Vec<Option<Entry>>,
    /// By the number of the subject's selector.
    by_subject: Vec<BTreeSet<u32>>,
    /// Selectors of subjects.
    pub subjects: Selectors,
    /// Selectors of peers.
    pub peers: Selectors,
    /// Blocks, and selectors of nodes.
    pub addresses: Interned<AddressAtom>,
    /// Whether there are new blocks among those.
    pub new_blocks: bool,
    /// Whether there are new selectors of nodes.
    pub new_nodes: bool,
}

/// What matches addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AddressAtom {
    /// Those of a block.
    Block(Block),
    /// Those of such nodes.
    Nodes(Selector),
}

/// A policy.
#[derive(Debug)]
pub struct Entry {
    /// Its tier.
    pub tier: Tier,
    /// Its place in that.
    pub priority: u16,
    /// Its rules for what comes.
    pub ingress: Option<Vec<FlatRule>>,
    /// Its rules for what leaves.
    pub egress: Option<Vec<FlatRule>>,
    subject: u32,
}

/// A rule.
#[derive(Debug)]
pub struct FlatRule {
    /// What it does.
    pub action: Action,
    /// The other end; `None`: anybody.
    pub peers: Option<PeerAtoms>,
    /// Ports; `None`: any, of any protocol.
    pub ports: Option<Vec<Ports>>,
}

impl Catalogue {
    /// The policy of this number is like that now, or gone. The subjects whose rules are others now go into `touched`.
    pub fn set(&mut self, number: u32, policy: Option<&Policy>, touched: &mut Vec<u32>) {
        // What is new is taken before what is old is let go, so that what stays is in use all the time.
        let entry = policy.map(|policy| self.entry(policy));
        if let Some(entry) = &entry {
            let subject = entry.subject as usize;
            if self.by_subject.len() <= subject {
                self.by_subject.resize_with(subject + 1, BTreeSet::new);
            }
        }
        let index = number as usize;
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
        }
        let Some(slot) = self.entries.get_mut(index) else { return };
        let before = std::mem::replace(slot, entry);
        let now = slot.as_ref().map(|entry| entry.subject);
        if let Some(before) = before {
            self.members(before.subject, |members| _ = members.remove(&number));
            touched.push(before.subject);
            self.release(&before);
        }
        if let Some(now) = now {
            self.members(now, |members| _ = members.insert(number));
            touched.push(now);
        }
    }

    /// The policies whose subjects are among these.
    pub fn of_subjects(&self, subjects: impl Iterator<Item = u32>) -> impl Iterator<Item = (u32, &Entry)> {
        let numbers = subjects.filter_map(|subject| self.by_subject.get(subject as usize)).flatten().copied();
        numbers.filter_map(|number| Some((number, self.entries.get(number as usize)?.as_ref()?)))
    }

    /// Whether so much of it is unused that starting over pays.
    pub fn is_wasteful(&self) -> bool {
        self.subjects.is_wasteful() || self.peers.is_wasteful() || self.addresses.is_wasteful()
    }

    fn entry(&mut self, policy: &Policy) -> Entry {
        let subject = match &policy.subject {
            Subject::Own(pods) => own(policy, pods),
            Subject::Cluster { namespaces, pods } => cluster(namespaces, pods),
        };
        let mut rules = |rules: &Option<Vec<Rule>>| {
            rules.as_ref().map(|rules| rules.iter().map(|rule| self.rule(policy, rule)).collect::<Vec<_>>())
        };
        let (ingress, egress) = (rules(&policy.ingress), rules(&policy.egress));
        let subject = self.subjects.take(subject);
        Entry { tier: policy.tier, priority: policy.priority, ingress, egress, subject }
    }

    fn rule(&mut self, policy: &Policy, rule: &Rule) -> FlatRule {
        if denies_everything(rule) {
            return FlatRule { action: Action::Deny, peers: None, ports: None };
        }
        let peers = rule.peers.as_ref().map(|peers| {
            let mut atoms = PeerAtoms::default();
            for peer in peers {
                match peer {
                    Peer::Own(pods) => atoms.pods.push(self.peers.take(own(policy, pods))),
                    Peer::Pods { namespaces, pods } => atoms.pods.push(self.peers.take(cluster(namespaces, pods))),
                    Peer::Block(block) => atoms.addresses.push(self.address(AddressAtom::Block(block.clone()))),
                    Peer::Nodes(nodes) => atoms.addresses.push(self.address(AddressAtom::Nodes(nodes.clone()))),
                    Peer::Nothing | Peer::Unintelligible => {}
                }
            }
            atoms
        });
        FlatRule { action: rule.action, peers, ports: rule.ports.clone() }
    }

    fn address(&mut self, atom: AddressAtom) -> u32 {
        let is_block = matches!(atom, AddressAtom::Block(_));
        let (number, new) = self.addresses.take(atom);
        self.new_blocks |= new && is_block;
        self.new_nodes |= new && !is_block;
        number
    }

    fn release(&mut self, entry: &Entry) {
        self.subjects.release(entry.subject);
        for peers in [&entry.ingress, &entry.egress].into_iter().flatten().flatten().filter_map(|rule| rule.peers.as_ref()) {
            peers.pods.iter().for_each(|atom| self.peers.release(*atom));
            peers.addresses.iter().for_each(|atom| self.addresses.release(*atom));
        }
    }

    fn members(&mut self, subject: u32, change: impl FnOnce(&mut BTreeSet<u32>)) {
        if let Some(members) = self.by_subject.get_mut(subject as usize) {
            change(members);
        }
    }
}

/// Whether a rule has to be read as a denial of everything: it would not accept, and of whom was not understood.
pub fn denies_everything(rule: &Rule) -> bool {
    rule.action != Action::Accept && rule.peers.iter().flatten().any(|peer| *peer == Peer::Unintelligible)
}

fn own(policy: &Policy, pods: &Selector) -> PodSelector {
    PodSelector { namespaces: Namespaces::Named(policy.namespace.clone()), pods: pods.clone() }
}

fn cluster(namespaces: &Selector, pods: &Selector) -> PodSelector {
    PodSelector { namespaces: Namespaces::Labelled(namespaces.clone()), pods: pods.clone() }
}
