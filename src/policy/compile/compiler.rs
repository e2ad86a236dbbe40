//! Follows changes to what they touch.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::catalogue::{AddressAtom, Catalogue};
use super::classes::Classes;
use super::identities::Identities;
use super::objects::{News, Numbered, Objects};
use crate::net::address_bits;
use crate::policy::Scope;
use crate::policy::judge::{Addresses, AtomSet, Blocks, NodeView, PodView};
use crate::policy::model::{ObjectId, Pod, PodPort, Policy, Selector};

/// What has been compiled, and what is needed to compile a change.
#[derive(Debug, Default)]
pub struct Compiler {
    catalogue: Catalogue,
    identities: Identities,
    classes: Classes,
    /// By the numbers of pods.
    slots: Vec<Slot>,
    /// Live pods by address.
    pub pods: Arc<Addresses<Arc<PodView>>>,
    /// Nodes by address.
    pub nodes: Arc<Addresses<Arc<NodeView>>>,
    /// What covers addresses.
    pub blocks: Arc<Blocks>,
    /// The policies' numbers.
    pub numbers: Arc<Numbers>,
}

/// What a pod has.
#[derive(Debug, Default)]
struct Slot {
    identity: Option<u32>,
    view: Option<Arc<PodView>>,
}

/// Policies in the order of their names, which is their number for the outside: it does not depend on what came when.
#[derive(Debug, Default)]
pub struct Numbers {
    names: Vec<Arc<ObjectId>>,
    /// By the number inside.
    ranks: Vec<u32>,
}

impl Numbers {
    /// The number for the outside.
    #[inline]
    pub fn rank(&self, number: u32) -> u32 {
        self.ranks.get(number as usize).copied().unwrap_or(u32::MAX)
    }

    /// The policy of a number for the outside.
    pub fn name(&self, rank: u32) -> Option<&ObjectId> {
        self.names.get(rank as usize).map(|name| &**name)
    }

    fn new(policies: &Numbered<Policy>) -> Self {
        let mut ranks = vec![u32::MAX; policies.limit()];
        let mut names = Vec::new();
        for (rank, number) in (0..).zip(policies.numbers()) {
            if let (Some(slot), Some((name, _))) = (ranks.get_mut(number as usize), policies.get(number)) {
                *slot = rank;
                names.push(Arc::clone(name));
            }
        }
        Self { names, ranks }
    }
}

impl Compiler {
    /// Compiles what is new.
    pub fn refresh(&mut self, objects: &Objects, scope: &Scope, news: &News) {
        if news.policy_names {
            self.numbers = Arc::new(Numbers::new(&objects.policies));
        }
        let mut touched = Vec::new();
        for &number in &news.policies {
            let policy = objects.policies.get(number).map(|(_, policy)| &**policy);
            self.catalogue.set(number, policy, &mut touched);
        }
        let touched = AtomSet::new(touched);
        self.classes.forget(&news.policies, &touched);
        self.refresh_blocks();
        self.refresh_nodes(objects, news);
        let identities = self.refresh_identities(objects, news, &touched);
        self.refresh_pods(objects, scope, news, identities);
        self.classes.tidy(self.pods.len());
    }

    /// Whether so much is unused that starting over pays.
    pub fn is_wasteful(&self) -> bool {
        self.catalogue.is_wasteful()
    }

    fn refresh_blocks(&mut self) {
        if std::mem::take(&mut self.catalogue.new_blocks) {
            self.blocks = Arc::new(Blocks::new(self.catalogue.addresses.iter().filter_map(|(number, atom)| match atom {
                AddressAtom::Block(block) => Some((number, block)),
                AddressAtom::Nodes(_) => None,
            })));
        }
    }

    fn refresh_nodes(&mut self, objects: &Objects, news: &News) {
        if !std::mem::take(&mut self.catalogue.new_nodes) && !news.nodes {
            return;
        }
        let selectors = self.catalogue.addresses.iter().filter_map(|(number, atom)| match atom {
            AddressAtom::Nodes(selector) => Some((number, selector)),
            AddressAtom::Block(_) => None,
        });
        let selectors: Vec<(u32, &Selector)> = selectors.collect();
        let mut found: BTreeMap<u128, (Vec<Box<str>>, Vec<u32>)> = BTreeMap::new();
        for node in objects.nodes.values() {
            let matching = selectors.iter().filter(|(_, selector)| selector.matches(&node.labels)).map(|(number, _)| *number);
            let matching: Vec<u32> = matching.collect();
            for address in node.addresses.iter().map(|address| address_bits(*address)).collect::<BTreeSet<_>>() {
                let (names, atoms) = found.entry(address).or_default();
                names.push(node.name.as_str().into());
                atoms.extend(&matching);
            }
        }
        let views = found.into_iter().map(|(address, (names, atoms))| {
            let first = names.first().map_or_else(String::new, ToString::to_string);
            let id = Arc::new(ObjectId::Node(first));
            (address, Arc::new(NodeView { id, names: names.into(), atoms: AtomSet::new(atoms) }))
        });
        self.nodes = Arc::new(views.collect());
    }

    /// Gives pods that are new their identities, and brings all up to date. Whether any has changed for its pods.
    fn refresh_identities(&mut self, objects: &Objects, news: &News, touched: &AtomSet) -> bool {
        for identity in self.identities.iter_mut().filter(|identity| news.namespaces.contains(identity.namespace())) {
            identity.forget();
        }
        if self.slots.len() < objects.pods.limit() {
            self.slots.resize_with(objects.pods.limit(), Slot::default);
        }
        for &number in &news.pods {
            let Some(slot) = self.slots.get_mut(number as usize) else { continue };
            // The new one is taken before the old one is let go: it is the same more often than not.
            let pod = objects.pods.get(number).filter(|(_, pod)| pod.has_identity());
            let identity = pod.map(|(_, pod)| self.identities.take(&pod.namespace, &pod.labels));
            if let Some(before) = std::mem::replace(&mut slot.identity, identity) {
                self.identities.release(before);
            }
        }
        let mut changed = false;
        for identity in self.identities.iter_mut() {
            let namespace = objects.namespaces.get(identity.namespace());
            identity.look(namespace, &self.catalogue.peers, &self.catalogue.subjects);
            identity.changed |= identity.subjects.meets(touched);
            changed |= identity.changed;
        }
        self.catalogue.peers.all_is_seen();
        self.catalogue.subjects.all_is_seen();
        changed
    }

    /// Makes new views of the pods that are touched, and puts them where they belong.
    fn refresh_pods(&mut self, objects: &Objects, scope: &Scope, news: &News, identities: bool) {
        let mut addresses = news.addresses.clone();
        for (number, slot) in (0..).zip(&mut self.slots) {
            let identity = slot.identity.and_then(|identity| self.identities.get(identity));
            let changed = identities && identity.is_some_and(|identity| identity.changed);
            if !changed && !news.scope && !news.pods.contains(&number) {
                continue;
            }
            let pod = objects.pods.get(number);
            slot.view = pod.zip(identity).map(|((id, pod), identity)| {
                addresses.extend(pod.addresses.iter().map(|address| address_bits(*address)));
                let ports = ports_of(pod);
                let rules =
                    is_judged(pod, scope).then(|| self.classes.rules(&identity.subjects, &ports, &self.catalogue, &self.numbers));
                let (atoms, node) = (Arc::clone(&identity.peers), pod.node.as_str().into());
                Arc::new(PodView { id: Arc::clone(id), atoms, ports, node, rules })
            });
        }
        if identities {
            self.identities.iter_mut().for_each(|identity| identity.changed = false);
        }
        if addresses.is_empty() {
            return;
        }
        let pods = Arc::make_mut(&mut self.pods);
        for address in addresses {
            let owner = objects.owner(address).and_then(|number| self.slots.get(number as usize));
            match owner.and_then(|slot| slot.view.as_ref()) {
                Some(view) => _ = pods.insert(address, Arc::clone(view)),
                None => _ = pods.remove(&address),
            }
        }
    }
}

/// Whether a pod's flows are judged here: it runs on our node, or has an address of ours. Then it is here whatever it says:
/// its node may have another name there than here, or have lost its subnet to us.
fn is_judged(pod: &Pod, scope: &Scope) -> bool {
    let Some(node) = &scope.node else { return true };
    let is_ours = |address: &IpAddr| match address {
        IpAddr::V4(address) => scope.own4.iter().any(|own| own.contains(*address)),
        IpAddr::V6(address) => scope.own6.iter().any(|own| own.contains(*address)),
    };
    pod.node == *node || pod.addresses.iter().any(is_ours)
}

fn ports_of(pod: &Pod) -> Arc<[PodPort]> {
    let mut ports = pod.ports.clone();
    ports.sort_unstable();
    ports.dedup();
    ports.into()
}
