//! What is known, object by object, and which live pod has an address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use super::slab::Slab;
use crate::net::address_bits;
use crate::policy::Change;
use crate::policy::model::{Namespace, Node, Object, ObjectId, Pod, Policy};

/// Everything known. Pods and policies have numbers, which are given again when they are gone.
#[derive(Debug, Default)]
pub struct Objects {
    /// Namespaces by name.
    pub namespaces: HashMap<String, Namespace>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Node>,
    /// Pods.
    pub pods: Numbered<Pod>,
    /// Policies.
    pub policies: Numbered<Policy>,
    /// The pods that claim an address, in the order in which they came to it.
    claims: HashMap<u128, Vec<u32>>,
}

/// What has changed since it was compiled last.
#[derive(Debug, Default)]
pub struct News {
    /// Names of namespaces.
    pub namespaces: BTreeSet<String>,
    /// Whether any node has.
    pub nodes: bool,
    /// Numbers of pods.
    pub pods: BTreeSet<u32>,
    /// Numbers of policies.
    pub policies: BTreeSet<u32>,
    /// Whether policies have come or gone.
    pub policy_names: bool,
    /// Addresses that may have another owner.
    pub addresses: BTreeSet<u128>,
    /// Whether it is judged by another scope.
    pub scope: bool,
}

/// Objects with numbers.
#[derive(Debug)]
pub struct Numbered<T> {
    numbers: BTreeMap<Arc<ObjectId>, u32>,
    slots: Slab<(Arc<ObjectId>, Arc<T>)>,
}

impl Objects {
    /// Takes in what is new, and notes it down.
    pub fn apply(&mut self, change: Change, news: &mut News) {
        match change {
            Change::Put(Object::Namespace(namespace)) => {
                if self.namespaces.get(&namespace.name) != Some(&namespace) {
                    news.namespaces.insert(namespace.name.clone());
                    self.namespaces.insert(namespace.name.clone(), namespace);
                }
            }
            Change::Put(Object::Node(node)) => {
                if self.nodes.get(&node.name) != Some(&node) {
                    news.nodes = true;
                    self.nodes.insert(node.name.clone(), node);
                }
            }
            Change::Put(object) => self.put_numbered(object, news),
            Change::Delete(ObjectId::Namespace(name)) => {
                if self.namespaces.remove(&name).is_some() {
                    news.namespaces.insert(name);
                }
            }
            Change::Delete(ObjectId::Node(name)) => news.nodes |= self.nodes.remove(&name).is_some(),
            Change::Delete(id @ ObjectId::Pod { .. }) => {
                if let Some((number, pod)) = self.pods.remove(&id) {
                    news.pods.insert(number);
                    live_addresses(&pod).for_each(|address| self.unclaim(address, number, news));
                }
            }
            Change::Delete(id @ ObjectId::Policy { .. }) => {
                if let Some((number, _)) = self.policies.remove(&id) {
                    news.policies.insert(number);
                    news.policy_names = true;
                }
            }
        }
    }

    /// The pod that has this address: never one that is finished or on its host's network. Of several, one that runs, else the one
    /// that came to it last.
    pub fn owner(&self, address: u128) -> Option<u32> {
        let claims = self.claims.get(&address)?;
        let running = claims.iter().rev().find(|number| self.pods.get(**number).is_some_and(|(_, pod)| pod.running));
        running.or(claims.last()).copied()
    }

    /// Everything, as if it were all new.
    pub fn everything(&self) -> News {
        News {
            namespaces: self.namespaces.keys().cloned().collect(),
            nodes: true,
            pods: self.pods.numbers().collect(),
            policies: self.policies.numbers().collect(),
            policy_names: true,
            addresses: self.claims.keys().copied().collect(),
            scope: true,
        }
    }

    fn put_numbered(&mut self, object: Object, news: &mut News) {
        let id = object.id();
        match object {
            Object::Pod(pod) => {
                let now: BTreeSet<u128> = live_addresses(&pod).collect();
                let (number, before) = self.pods.put(id, pod);
                if before.as_deref() == self.pods.get(number).map(|(_, pod)| &**pod) {
                    return;
                }
                news.pods.insert(number);
                let before: BTreeSet<u128> = before.iter().flat_map(|pod| live_addresses(pod)).collect();
                for address in before.difference(&now) {
                    self.unclaim(*address, number, news);
                }
                for address in now.difference(&before) {
                    self.claims.entry(*address).or_default().push(number);
                }
                news.addresses.extend(now);
            }
            Object::Policy(policy) => {
                let (number, before) = self.policies.put(id, policy);
                if before.as_deref() != self.policies.get(number).map(|(_, policy)| &**policy) {
                    news.policies.insert(number);
                    news.policy_names |= before.is_none();
                }
            }
            Object::Namespace(_) | Object::Node(_) => {}
        }
    }

    fn unclaim(&mut self, address: u128, number: u32, news: &mut News) {
        news.addresses.insert(address);
        if let Some(claims) = self.claims.get_mut(&address) {
            claims.retain(|claim| *claim != number);
            if claims.is_empty() {
                self.claims.remove(&address);
            }
        }
    }
}

impl News {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        let policies = self.policies.is_empty() && !self.policy_names;
        let others = self.namespaces.is_empty() && !self.nodes && !self.scope;
        policies && others && self.pods.is_empty() && self.addresses.is_empty()
    }
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), slots: Slab::default() }
    }
}

impl<T> Numbered<T> {
    /// The object of this number, and what names it.
    pub fn get(&self, number: u32) -> Option<(&Arc<ObjectId>, &Arc<T>)> {
        self.slots.get(number).map(|(id, object)| (id, object))
    }

    /// All numbers, in the order of what they name.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.numbers.values().copied()
    }

    /// One more than the highest number that was given.
    pub fn limit(&self) -> usize {
        self.slots.limit()
    }

    /// The number of `id` and what it was before, if it is not new.
    fn put(&mut self, id: ObjectId, object: T) -> (u32, Option<Arc<T>>) {
        let object = Arc::new(object);
        if let Some(&number) = self.numbers.get(&id) {
            return (number, self.slots.get_mut(number).map(|(_, known)| std::mem::replace(known, object)));
        }
        let id = Arc::new(id);
        let number = self.slots.insert((Arc::clone(&id), object));
        self.numbers.insert(id, number);
        (number, None)
    }

    fn remove(&mut self, id: &ObjectId) -> Option<(u32, Arc<T>)> {
        let number = self.numbers.remove(id)?;
        self.slots.remove(number).map(|(_, object)| (number, object))
    }
}

/// The addresses by which a pod is known.
fn live_addresses(pod: &Pod) -> impl Iterator<Item = u128> {
    let addresses: &[IpAddr] = if pod.has_identity() { &pod.addresses } else { &[] };
    addresses.iter().map(|address| address_bits(*address))
}
