//! Who has an address.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::{AtomSet, RuleSets};
use crate::net::address_bits;
use crate::policy::model::{ObjectId, PodPort};
use crate::policy::{Scope, UnknownPods};

/// Something by address; see [`address_bits`].
pub type Addresses<T> = HashMap<u128, T, BuildHasherDefault<AddressHasher>>;

/// A live pod, as flows see it. All its addresses share one.
#[derive(Debug)]
pub struct PodView {
    /// Which pod.
    pub id: Arc<ObjectId>,
    /// The selectors that match it as a peer.
    pub atoms: Arc<AtomSet>,
    /// Its ports that have names.
    pub ports: Arc<[PodPort]>,
    /// Its node; empty until it is known.
    pub node: Arc<str>,
    /// Its rules, if it is judged here.
    pub rules: Option<Arc<RuleSets>>,
}

/// The nodes that have an address: one, but while a node is being replaced.
#[derive(Debug)]
pub struct NodeView {
    /// The first of them by name.
    pub id: Arc<ObjectId>,
    /// Their names.
    pub names: Box<[Box<str>]>,
    /// The selectors that match any of them.
    pub atoms: AtomSet,
}

/// What is known without any object: the scope, ready to be asked.
#[derive(Clone, Debug, Default)]
pub struct Ours {
    ranges: Box<[(u128, u128)]>,
    host: Box<[u128]>,
    node: Option<Box<str>>,
    /// Whether pods that are not known are refused.
    pub refuse_unknown: bool,
}

/// Spreads addresses. They come from the registry, never from packets, so nobody can choose ones that collide.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddressHasher(u64);

impl Ours {
    /// What `scope` says.
    pub fn new(scope: &Scope) -> Self {
        let four = scope.own4.iter().map(|own| (address_bits(own.base().into()), address_bits(own.last().into())));
        let six = scope.own6.iter().map(|own| (address_bits(own.base().into()), address_bits(own.last().into())));
        let mut host: Vec<u128> = scope.host.iter().map(|address| address_bits(*address)).collect();
        host.sort_unstable();
        Self {
            ranges: four.chain(six).collect(),
            host: host.into(),
            node: scope.node.as_deref().map(Into::into),
            refuse_unknown: scope.unknown_pods == UnknownPods::Refuse,
        }
    }

    /// Whether it lies in a pod subnet of ours.
    #[inline]
    pub fn covers(&self, address: u128) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&address))
    }

    /// Whether the host has it, going by the scope alone.
    #[inline]
    pub fn is_host(&self, address: u128) -> bool {
        self.host.binary_search(&address).is_ok()
    }

    /// The name of our node; empty if there is none.
    #[inline]
    pub fn node(&self) -> &str {
        self.node.as_deref().unwrap_or_default()
    }
}

impl NodeView {
    /// Whether the node of that name is among them.
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        self.names.iter().any(|known| **known == *name)
    }
}

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0, u64::from(*byte));
        }
    }

    fn write_u128(&mut self, bits: u128) {
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let (high, low) = ((bits >> 64) as u64, bits as u64);
        self.0 = mix(mix(self.0, high), low);
    }
}

/// Multiplies to 128 bits and folds them, so that each bit counts everywhere.
const fn mix(state: u64, word: u64) -> u64 {
    let product = (state ^ word ^ 0x9e37_79b9_7f4a_7c15) as u128 * 0xd6e8_feb8_6659_fd93_u128;
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    let folded = (product >> 64) as u64 ^ product as u64;
    folded
}
