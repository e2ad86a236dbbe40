//! A matrix as one page for a browser, which needs nothing else: no network, no other file.
//!
//! Verdicts and reasons are in it as JSON, drawn by the page's own script. Cells whose reasons read alike share them, and the page has
//! no more than [`MOST_CELLS`] of them, so that it stays a page that one can open.

use std::collections::HashMap;

use serde::Serialize;

use super::words::{Words, words};
use crate::cli::Failure;
use crate::policy::model::Object;
use crate::policy::offline::{End, EndKind, Letter, Matrix, Table, World};

/// Cells in all tables of a page, at most: some megabytes.
const MOST_CELLS: usize = 250_000;

/// Ends on a page, at most: browsers take about a second to draw a table of so many rows and columns.
const MOST_ENDS: usize = 250;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

#[derive(Serialize)]
struct Data<'a> {
    ends: Vec<Label>,
    tables: Vec<Sheet>,
    sides: &'a [Words],
    meanings: HashMap<char, &'static str>,
    policies: usize,
    note: String,
}

#[derive(Serialize)]
struct Label {
    name: String,
    short: String,
    group: String,
    kind: &'static str,
    addresses: String,
}

#[derive(Serialize)]
struct Sheet {
    probe: String,
    family: &'static str,
    rows: Vec<String>,
    /// Numbers of sides, -1 where an end has no say.
    egress: Vec<Vec<i64>>,
    ingress: Vec<Vec<i64>>,
}

/// The page, and how many ends it leaves out.
pub fn page(world: &mut World, matrix: &Matrix) -> Result<(String, usize), Failure> {
    let shown = fitting(matrix.ends.len(), matrix.tables.len());
    let (ends, left_out) = (&matrix.ends[..shown], matrix.ends.len() - shown);
    let mut sides = Sides::default();
    let tables = matrix.tables.iter().map(|table| sheet(world, table, ends, &mut sides)).collect();
    let note = match left_out {
        0 => String::new(),
        _ => format!("{left_out} of {} ends are not on this page: it would be too large to open.", matrix.ends.len()),
    };
    let data = Data {
        ends: ends.iter().map(label).collect(),
        tables,
        sides: &sides.known,
        meanings: Letter::ALL.into_iter().map(|letter| (letter.as_char(), letter.meaning())).collect(),
        policies: world.objects().filter(|object| matches!(object, Object::Policy(_))).count(),
        note,
    };
    let json = serde_json::to_string(&data).map_err(|error| Failure::Internal(error.into()))?;
    // Within a script element only `<` could end it.
    let json = json.replace('<', "\\u003c");
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + json.len());
    let mut rest = PAGE;
    for (mark, part) in [("{{STYLE}}", STYLE), ("{{DATA}}", json.as_str()), ("{{SCRIPT}}", SCRIPT)] {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(part);
        rest = after;
    }
    page.push_str(rest);
    Ok((page, left_out))
}

/// How many of `ends` fit on a page with so many tables.
fn fitting(ends: usize, tables: usize) -> usize {
    let fits = |count: &usize| count * count * tables <= MOST_CELLS;
    (0..=ends.min(MOST_ENDS)).rev().find(fits).unwrap_or_default()
}

fn label(end: &End) -> Label {
    let (kind, group, short) = match &end.kind {
        EndKind::Pod { namespace, name } => ("pod", namespace.clone(), name.clone()),
        EndKind::Node(name) => ("node", "nodes".to_owned(), name.clone()),
        EndKind::External(name) => ("external", "outside".to_owned(), name.clone()),
        EndKind::Address(address) => ("external", "outside".to_owned(), address.to_string()),
    };
    let addresses = end.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    Label { name: end.to_string(), short, group, kind, addresses }
}

fn sheet(world: &mut World, table: &Table, ends: &[End], sides: &mut Sides) -> Sheet {
    let rows = table.rows.iter().take(ends.len()).map(|row| Table::letters(&row[..ends.len()])).collect();
    let (mut egress, mut ingress) = (Vec::with_capacity(ends.len()), Vec::with_capacity(ends.len()));
    for from in ends {
        let (mut out, mut into) = (Vec::with_capacity(ends.len()), Vec::with_capacity(ends.len()));
        for to in ends {
            let why = from.flow(to, table.probe, table.family).map(|key| world.explain(from, to, &key));
            out.push(sides.number(why.as_ref().and_then(|why| words(&why.egress, world))));
            into.push(sides.number(why.as_ref().and_then(|why| words(&why.ingress, world))));
        }
        egress.push(out);
        ingress.push(into);
    }
    Sheet { probe: table.probe.to_string(), family: table.family.as_str(), rows, egress, ingress }
}

/// Sides that were said already.
#[derive(Default)]
struct Sides {
    known: Vec<Words>,
    numbers: HashMap<Words, i64>,
}

impl Sides {
    fn number(&mut self, side: Option<Words>) -> i64 {
        let Some(side) = side else { return -1 };
        let next = i64::try_from(self.known.len()).unwrap_or(-1);
        *self.numbers.entry(side).or_insert_with_key(|side| {
            self.known.push(side.clone());
            next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_bounded() {
        assert_eq!((fitting(200, 6), fitting(250, 1), fitting(10_000, 1), fitting(10_000, 16)), (200, 250, 250, 125));
        assert_eq!(fitting(0, 0), 0);
    }
}
