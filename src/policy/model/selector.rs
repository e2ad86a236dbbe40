//! Labels, and what selects by them.

use std::collections::{BTreeMap, BTreeSet};

/// The labels of an object.
pub type Labels = BTreeMap<String, String>;

/// What a label selector asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Selector {
    /// Everything that meets all of these; so everything, if there are none.
    All(Vec<Requirement>),
    /// Nothing at all: it could not be understood.
    Nothing,
}

/// One thing asked of labels. `matchLabels: {k: v}` is `In` with one value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Requirement {
    /// The key is there with one of these values.
    In(String, BTreeSet<String>),
    /// The key is absent or has none of these values.
    NotIn(String, BTreeSet<String>),
    /// The key is there.
    Exists(String),
    /// The key is absent.
    DoesNotExist(String),
}

impl Selector {
    /// Selects everything of its kind.
    #[must_use]
    pub const fn everything() -> Self {
        Self::All(Vec::new())
    }

    /// Whether these labels are selected.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::All(requirements) => requirements.iter().all(|requirement| requirement.holds(labels)),
            Self::Nothing => false,
        }
    }
}

impl Requirement {
    /// Whether these labels meet it.
    #[must_use]
    pub fn holds(&self, labels: &Labels) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_key_meets_what_asks_for_absence_only() {
        let labels = Labels::from([("app".to_owned(), String::new())]);
        let values = || BTreeSet::from([String::new()]);
        let table = [
            (Requirement::In("app".into(), values()), true),
            (Requirement::In("tier".into(), values()), false),
            (Requirement::NotIn("app".into(), values()), false),
            (Requirement::NotIn("tier".into(), values()), true),
            (Requirement::Exists("app".into()), true),
            (Requirement::Exists("tier".into()), false),
            (Requirement::DoesNotExist("app".into()), false),
            (Requirement::DoesNotExist("tier".into()), true),
        ];
        for (requirement, expected) in table {
            assert_eq!(requirement.holds(&labels), expected, "{requirement:?}");
            assert_eq!(Selector::All(vec![requirement]).matches(&labels), expected);
        }
        assert!(Selector::everything().matches(&labels) && !Selector::Nothing.matches(&labels));
    }
}
