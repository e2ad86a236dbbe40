//! Addresses that several live pods claim.
//!
//! Whoever judges packets can know one owner of an address only. Of files one may still ask what would hold for each claimant: it is
//! judged in a cluster of its own, in which its rivals do not have the address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use super::{End, EndKind};
use crate::policy::model::{Object, ObjectId};
use crate::policy::{Change, Cluster, Scope};

/// Claimants that get clusters of their own; more are a sign that addresses were made up, and are judged by the one owner.
const MOST: usize = 16;

/// Who claims what others claim too, and the clusters they are judged in.
#[derive(Debug, Default)]
pub struct Contest {
    /// Rivals, by address; at least two each.
    claims: BTreeMap<IpAddr, Vec<ObjectId>>,
    clusters: HashMap<BTreeSet<ObjectId>, Cluster>,
}

impl Contest {
    /// Looks for rivals among what is known.
    #[must_use]
    pub fn of(objects: &BTreeMap<ObjectId, Object>) -> Self {
        let mut claims: BTreeMap<IpAddr, Vec<ObjectId>> = BTreeMap::new();
        for (id, object) in objects {
            let Object::Pod(pod) = object else { continue };
            if End::of_pod(pod).is_some() {
                let addresses: BTreeSet<IpAddr> = pod.addresses.iter().copied().collect();
                for address in addresses {
                    claims.entry(address).or_default().push(id.clone());
                }
            }
        }
        claims.retain(|_, pods| pods.len() > 1);
        Self { claims, clusters: HashMap::new() }
    }

    /// Addresses and the pods that claim them, more than one each.
    pub fn claims(&self) -> impl Iterator<Item = (IpAddr, &[ObjectId])> {
        self.claims.iter().map(|(address, pods)| (*address, pods.as_slice()))
    }

    /// The cluster in which these two have their addresses; `None`: that of everybody.
    pub fn cluster(&mut self, objects: &BTreeMap<ObjectId, Object>, from: &End, to: &End) -> Option<&mut Cluster> {
        let ends: BTreeSet<ObjectId> = [from, to].into_iter().filter_map(id).collect();
        let is_claimed = |pods: &&Vec<ObjectId>| pods.iter().any(|pod| ends.contains(pod));
        let contested: BTreeSet<&ObjectId> = self.claims.values().filter(is_claimed).flatten().collect();
        let all: usize = self.claims.values().map(Vec::len).sum();
        if contested.is_empty() || all > MOST {
            return None;
        }
        let owners: BTreeSet<ObjectId> = ends.into_iter().filter(|end| contested.contains(end)).collect();
        let claims = &self.claims;
        let build = |owners: &BTreeSet<ObjectId>| {
            let mut cluster = Cluster::new(Scope::default());
            for (id, object) in objects {
                cluster.apply(Change::Put(without_claims(id, object, owners, claims)));
            }
            cluster
        };
        Some(self.clusters.entry(owners).or_insert_with_key(build))
    }
}

/// An object as it is; a rival of `owners` without what they claim.
fn without_claims(
    id: &ObjectId,
    object: &Object,
    owners: &BTreeSet<ObjectId>,
    claims: &BTreeMap<IpAddr, Vec<ObjectId>>,
) -> Object {
    let mut object = object.clone();
    if let Object::Pod(pod) = &mut object
        && !owners.contains(id)
    {
        let is_lost = |address: &IpAddr| {
            claims.get(address).is_some_and(|pods| pods.contains(id) && pods.iter().any(|pod| owners.contains(pod)))
        };
        pod.addresses.retain(|address| !is_lost(address));
    }
    object
}

fn id(end: &End) -> Option<ObjectId> {
    match &end.kind {
        EndKind::Pod { namespace, name } => Some(ObjectId::Pod { namespace: namespace.clone(), name: name.clone() }),
        _ => None,
    }
}
