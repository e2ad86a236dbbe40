//! Distinct selectors of pods, and which of them match a pod without trying all.
//!
//! A selector that asks for one of some values of a label is filed under each of them, that of a namespace and that of a pod. A pod
//! looks under the labels that it and its namespace have; of a thousand selectors it tries those that ask for a label it has.

use std::collections::HashMap;

use super::interned::Interned;
use crate::policy::judge::AtomSet;
use crate::policy::model::{Labels, Requirement, Selector};

/// A selector of pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodSelector {
    /// Of which namespaces.
    pub namespaces: Namespaces,
    /// Which pods of those.
    pub pods: Selector,
}

/// Some namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Namespaces {
    /// The one of this name.
    Named(String),
    /// Those with such labels.
    Labelled(Selector),
}

/// What selectors look at in a pod.
#[derive(Clone, Copy, Debug)]
pub struct Labelled<'a> {
    /// The name of its namespace.
    pub namespace: &'a str,
    /// The labels of its namespace.
    pub namespace_labels: &'a Labels,
    /// Its labels.
    pub labels: &'a Labels,
}

/// Distinct selectors, numbered.
#[derive(Debug, Default)]
pub struct Selectors {
    interned: Interned<PodSelector>,
    all: Files,
    /// Those that came since the pods looked last.
    new: Files,
    new_count: usize,
}

/// Selectors by what they ask for.
#[derive(Debug, Default)]
struct Files {
    named: HashMap<String, ByLabel<Vec<u32>>>,
    labelled: ByLabel<ByLabel<Vec<u32>>>,
}

#[derive(Debug)]
struct ByLabel<T> {
    /// What asks for no value of any label.
    any: T,
    values: HashMap<String, HashMap<String, T>>,
}

impl PodSelector {
    /// Whether it matches.
    pub fn matches(&self, pod: Labelled) -> bool {
        let namespace = match &self.namespaces {
            Namespaces::Named(name) => name == pod.namespace,
            Namespaces::Labelled(selector) => selector.matches(pod.namespace_labels),
        };
        namespace && self.pods.matches(pod.labels)
    }
}

impl Selectors {
    /// The number of `selector`, which is in use once more.
    pub fn take(&mut self, selector: PodSelector) -> u32 {
        let (number, new) = self.interned.take(selector);
        if let Some(selector) = self.interned.value(number).filter(|_| new) {
            self.all.file(number, selector);
            self.new.file(number, selector);
            self.new_count += 1;
        }
        number
    }

    /// This one is in use once less.
    pub fn release(&mut self, number: u32) {
        self.interned.release(number);
    }

    /// Those that match a pod.
    pub fn matching(&self, pod: Labelled) -> AtomSet {
        self.found(&self.all, pod)
    }

    /// Those that match a pod, of those that came since [`all_is_seen`](Self::all_is_seen).
    pub fn new_matching(&self, pod: Labelled) -> AtomSet {
        self.found(&self.new, pod)
    }

    /// Whether any came.
    pub const fn has_new(&self) -> bool {
        self.new_count > 0
    }

    /// Every pod has looked.
    pub fn all_is_seen(&mut self) {
        if self.has_new() {
            (self.new, self.new_count) = (Files::default(), 0);
        }
    }

    /// See [`Interned::is_wasteful`].
    pub fn is_wasteful(&self) -> bool {
        self.interned.is_wasteful()
    }

    fn found(&self, files: &Files, pod: Labelled) -> AtomSet {
        let mut found = Vec::new();
        let mut look = |filed: &Vec<u32>| {
            found.extend(filed.iter().filter(|number| self.interned.value(**number).is_some_and(|one| one.matches(pod))));
        };
        if let Some(own) = files.named.get(pod.namespace) {
            own.each_under(pod.labels, &mut look);
        }
        files.labelled.each_under(pod.namespace_labels, &mut |pods| pods.each_under(pod.labels, &mut look));
        AtomSet::new(found)
    }
}

impl Files {
    fn file(&mut self, number: u32, selector: &PodSelector) {
        match &selector.namespaces {
            Namespaces::Named(name) => {
                self.named.entry(name.clone()).or_default().each_for(&selector.pods, &mut |filed| filed.push(number));
            }
            Namespaces::Labelled(namespaces) => {
                self.labelled.each_for(namespaces, &mut |pods| pods.each_for(&selector.pods, &mut |filed| filed.push(number)));
            }
        }
    }
}

impl<T: Default> Default for ByLabel<T> {
    fn default() -> Self {
        Self { any: T::default(), values: HashMap::new() }
    }
}

impl<T: Default> ByLabel<T> {
    /// Visits where `selector` is to be filed: a pod that it matches looks in exactly one of these places.
    fn each_for(&mut self, selector: &Selector, visit: &mut impl FnMut(&mut T)) {
        let Selector::All(requirements) = selector else { return };
        let asked = requirements.iter().filter_map(|requirement| match requirement {
            Requirement::In(key, values) => Some((key, values)),
            _ => None,
        });
        let Some((key, values)) = asked.min_by_key(|(_, values)| values.len()) else {
            return visit(&mut self.any);
        };
        let by_value = self.values.entry(key.clone()).or_default();
        for value in values {
            visit(by_value.entry(value.clone()).or_default());
        }
    }

    /// Visits where something with these labels looks.
    fn each_under(&self, labels: &Labels, visit: &mut impl FnMut(&T)) {
        visit(&self.any);
        if !self.values.is_empty() {
            labels.iter().filter_map(|(key, value)| self.values.get(key)?.get(value)).for_each(visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn labels() -> impl Strategy<Value = Labels> {
        proptest::collection::btree_map("[ab]", "[xyz]?", 0..3)
    }

    fn selector() -> impl Strategy<Value = Selector> {
        let values = || proptest::collection::btree_set("[xyz]?", 0..3);
        let requirement = prop_oneof![
            ("[ab]", values()).prop_map(|(key, values)| Requirement::In(key, values)),
            ("[ab]", values()).prop_map(|(key, values)| Requirement::NotIn(key, values)),
            "[ab]".prop_map(Requirement::Exists),
            "[ab]".prop_map(Requirement::DoesNotExist),
        ];
        let all = proptest::collection::vec(requirement, 0..3).prop_map(Selector::All);
        prop_oneof![9 => all, 1 => Just(Selector::Nothing)]
    }

    fn pod_selector() -> impl Strategy<Value = PodSelector> {
        let namespaces = prop_oneof!["[mn]".prop_map(Namespaces::Named), selector().prop_map(Namespaces::Labelled)];
        (namespaces, selector()).prop_map(|(namespaces, pods)| PodSelector { namespaces, pods })
    }

    proptest! {
        #[test]
        fn the_files_find_what_trying_all_finds(
            old in proptest::collection::vec(pod_selector(), 0..12),
            new in proptest::collection::vec(pod_selector(), 0..12),
            (namespace, namespace_labels, labels) in ("[mn]", labels(), labels()),
        ) {
            let pod = Labelled { namespace: &namespace, namespace_labels: &namespace_labels, labels: &labels };
            let mut selectors = Selectors::default();
            let mut expected = BTreeSet::new();
            for selector in old {
                let matches = selector.matches(pod);
                let number = selectors.take(selector);
                expected.extend(matches.then_some(number));
            }
            selectors.all_is_seen();
            let seen = selectors.matching(pod);
            for selector in new {
                let matches = selector.matches(pod);
                let number = selectors.take(selector);
                expected.extend(matches.then_some(number));
            }
            let all = selectors.matching(pod);
            prop_assert_eq!(&seen.union(&selectors.new_matching(pod)), &all);
            prop_assert_eq!(all.atoms().collect::<BTreeSet<_>>(), expected);
        }
    }
}
