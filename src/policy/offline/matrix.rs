//! The verdict on every ordered pair of ends.

use super::{End, Family, Probe, World};
use crate::policy::Verdict;

/// A verdict in one letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Letter {
    /// `.`: allowed.
    Allowed,
    /// `i`: the destination's ingress refuses.
    Ingress,
    /// `e`: the source's egress refuses.
    Egress,
    /// `b`: both do.
    Both,
    /// `-`: there is no such flow. An end has no address of the family, or neither end is a pod.
    NoFlow,
}

/// The verdicts for one probe in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What was asked.
    pub probe: Probe,
    /// In which family.
    pub family: Family,
    /// A row for each source, in it a letter for each destination.
    pub rows: Vec<Vec<Letter>>,
}

/// Tables for several probes over the same ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Sources and destinations alike.
    pub ends: Vec<End>,
    /// By probe, then by family.
    pub tables: Vec<Table>,
}

impl Letter {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Allowed, Self::Ingress, Self::Egress, Self::Both, Self::NoFlow];

    /// The verdict on one flow.
    #[must_use]
    pub fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allowed => Self::Allowed,
            Verdict::Refused(refused) => match (refused.egress, refused.ingress) {
                (Some(_), Some(_)) => Self::Both,
                (Some(_), None) => Self::Egress,
                // One end refuses, so it is this one.
                (None, _) => Self::Ingress,
            },
        }
    }

    /// The letter.
    #[must_use]
    pub const fn as_char(self) -> char {
        match self {
            Self::Allowed => '.',
            Self::Ingress => 'i',
            Self::Egress => 'e',
            Self::Both => 'b',
            Self::NoFlow => '-',
        }
    }

    /// What it means.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Ingress => "refused by the destination's ingress",
            Self::Egress => "refused by the source's egress",
            Self::Both => "refused by both",
            Self::NoFlow => "no such flow",
        }
    }
}

impl Matrix {
    /// Asks every probe of every pair, in each family of which some pod has an address.
    #[must_use]
    pub fn of(world: &mut World, probes: &[Probe]) -> Self {
        let ends = world.ends().to_vec();
        let is_there = |family: &Family| ends.iter().any(|end| end.is_pod() && end.address(*family).is_some());
        let families: Vec<Family> = Family::ALL.into_iter().filter(is_there).collect();
        let asked = probes.iter().flat_map(|probe| families.iter().map(|family| (*probe, *family)));
        let tables = asked.map(|(probe, family)| Table {
            probe,
            family,
            rows: ends.iter().map(|from| row(world, from, &ends, probe, family)).collect(),
        });
        Self { tables: tables.collect(), ends }
    }
}

impl Table {
    /// How often a letter occurs.
    #[must_use]
    pub fn count(&self, letter: Letter) -> usize {
        self.rows.iter().flatten().filter(|found| **found == letter).count()
    }

    /// A row as its letters.
    #[must_use]
    pub fn letters(row: &[Letter]) -> String {
        row.iter().map(|letter| letter.as_char()).collect()
    }
}

fn row(world: &mut World, from: &End, ends: &[End], probe: Probe, family: Family) -> Vec<Letter> {
    let judge = |to: &End| from.flow(to, probe, family).map_or(Letter::NoFlow, |key| Letter::of(world.verdict(from, to, &key)));
    ends.iter().map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::{Labels, Node, Object};
    use crate::policy::offline::world::tests::pod;
    use crate::policy::{Cause, Refused};

    #[test]
    fn letters_say_who_refuses() {
        let because = Some(Cause::Isolated(0));
        let refused = |egress, ingress| Letter::of(Verdict::Refused(Refused { egress, ingress })).as_char();
        assert_eq!(Letter::of(Verdict::Allowed).as_char(), '.');
        assert_eq!((refused(because, None), refused(None, because), refused(because, because)), ('e', 'i', 'b'));
        assert_eq!(Table::letters(&Letter::ALL), ".ieb-");
    }

    #[test]
    fn families_are_those_of_pods() {
        let node = Node { name: "n1".into(), labels: Labels::new(), addresses: vec!["10.0.0.1".parse().unwrap()] };
        let outside = ("far".to_owned(), vec!["2001:db8::1".parse().unwrap()]);
        let mut world = World::new([pod("web", "10.1.0.2"), Object::Node(node)], [outside]);
        let probes = [Probe::parse("TCP/80").unwrap(), Probe::parse("UDP/53").unwrap()];
        let matrix = Matrix::of(&mut world, &probes);
        let asked: Vec<_> = matrix.tables.iter().map(|table| (table.probe, table.family)).collect();
        assert_eq!(asked, [(probes[0], Family::V4), (probes[1], Family::V4)]);
        let rows: Vec<_> = matrix.tables[0].rows.iter().map(|row| Table::letters(row)).collect();
        assert_eq!(rows, ["..-", ".--", "---"]);
        assert_eq!((matrix.tables[0].count(Letter::Allowed), matrix.tables[0].count(Letter::NoFlow)), (3, 6));
    }
}
