//! What selectors see of pods: pods that look the same share it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::selectors::{Labelled, Selectors};
use super::slab::Slab;
use crate::policy::judge::AtomSet;
use crate::policy::model::{Labels, Namespace};

/// Distinct combinations of namespace and labels, numbered. Numbers are given again when no pod has them.
#[derive(Debug, Default)]
pub struct Identities {
    numbers: HashMap<(String, Labels), u32>,
    slots: Slab<Identity>,
}

/// What pods of one namespace with the same labels have in common.
#[derive(Debug)]
pub struct Identity {
    key: (String, Labels),
    pods: usize,
    /// The selectors of peers that match them.
    pub peers: Arc<AtomSet>,
    /// The selectors of subjects that match them.
    pub subjects: Arc<AtomSet>,
    state: State,
    /// Whether what pods have of it is old.
    pub changed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// All selectors have to be looked at.
    Unknown,
    /// Only those that are new.
    Known,
}

/// The label by which a namespace can be selected by its name.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

impl Identities {
    /// The number of what a pod of this namespace with these labels looks like; one more pod does.
    pub fn take(&mut self, namespace: &str, labels: &Labels) -> u32 {
        let key = (namespace.to_owned(), labels.clone());
        if let Some(&number) = self.numbers.get(&key) {
            if let Some(identity) = self.slots.get_mut(number) {
                identity.pods += 1;
            }
            return number;
        }
        let number = self.slots.insert(Identity {
            key: key.clone(),
            pods: 1,
            peers: Arc::default(),
            subjects: Arc::default(),
            state: State::Unknown,
            changed: true,
        });
        self.numbers.insert(key, number);
        number
    }

    /// One pod less looks like this.
    pub fn release(&mut self, number: u32) {
        let Some(identity) = self.slots.get_mut(number) else { return };
        identity.pods -= 1;
        if identity.pods == 0
            && let Some(identity) = self.slots.remove(number)
        {
            self.numbers.remove(&identity.key);
        }
    }

    /// The identity of this number.
    pub fn get(&self, number: u32) -> Option<&Identity> {
        self.slots.get(number)
    }

    /// All of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Identity> {
        self.slots.iter_mut()
    }
}

impl Identity {
    /// The name of their namespace.
    pub fn namespace(&self) -> &str {
        &self.key.0
    }

    /// Its namespace has other labels now.
    pub fn forget(&mut self) {
        self.state = State::Unknown;
    }

    /// Looks at selectors it has not seen. Of a namespace that is not known only the name is.
    pub fn look(&mut self, namespace: Option<&Namespace>, peers: &Selectors, subjects: &Selectors) {
        if self.state == State::Known && !peers.has_new() && !subjects.has_new() {
            return;
        }
        let named = || Labels::from([(NAME_LABEL.to_owned(), self.key.0.clone())]);
        let namespace_labels = namespace.map_or_else(|| Cow::Owned(named()), |namespace| Cow::Borrowed(&namespace.labels));
        let pod = Labelled { namespace: &self.key.0, namespace_labels: &namespace_labels, labels: &self.key.1 };
        for (selectors, matching) in [(peers, &mut self.peers), (subjects, &mut self.subjects)] {
            let now = match self.state {
                State::Unknown => selectors.matching(pod),
                State::Known if selectors.has_new() => {
                    let new = selectors.new_matching(pod);
                    if new.is_empty() {
                        continue;
                    }
                    matching.union(&new)
                }
                State::Known => continue,
            };
            if **matching != now {
                *matching = Arc::new(now);
                self.changed = true;
            }
        }
        self.state = State::Known;
    }
}
