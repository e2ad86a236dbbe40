//! A report beside an older one.

use std::fs;
use std::io;
use std::path::{Path as FilePath, PathBuf};

use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;

use super::figures::figure;
use crate::bench::measure::more_is_better;
use crate::bench::{Report, Row, SCHEMA};

/// Why a file is no report to compare with.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum OldReportError {
    /// It cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: io::Error },
    /// It is no JSON, or JSON of another shape.
    #[error("{}: expected a report as `felt bench --json` writes it: {reason}", path.display())]
    Broken { path: PathBuf, reason: String },
    /// It is a report of a kind that is not known here.
    #[error("{}: expected schema {SCHEMA}, found {found}; measure again with this version", path.display())]
    Schema { path: PathBuf, found: String },
}

/// An older report, as far as a comparison needs it. Paths and measures it has and we do not know are no error.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OldReport {
    #[serde(default)]
    host: OldHost,
    results: Vec<OldRow>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct OldHost {
    kernel: String,
    cpu: String,
    cpus: usize,
    felt: String,
    congestion_control: String,
    mtu: u32,
    date: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct OldRow {
    underlay: String,
    path: String,
    measure: String,
    unit: String,
    median: f64,
    min: f64,
    max: f64,
    runs: usize,
}

impl OldReport {
    /// Reads a report that `felt bench --json` wrote.
    ///
    /// # Errors
    /// When the file is no such report.
    pub fn read(path: &FilePath) -> Result<Self, OldReportError> {
        let text = fs::read_to_string(path).map_err(|reason| OldReportError::Unreadable { path: path.to_owned(), reason })?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &FilePath) -> Result<Self, OldReportError> {
        let broken = |reason: String| OldReportError::Broken { path: path.to_owned(), reason };
        let value: serde_json::Value = serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
        match value.get("schema") {
            Some(serde_json::Value::String(schema)) if schema == SCHEMA => {}
            Some(found) => return Err(OldReportError::Schema { path: path.to_owned(), found: found.to_string() }),
            None => return Err(broken("it has no `schema`".to_owned())),
        }
        let report: Self = serde_json::from_value(value).map_err(|error| broken(error.to_string()))?;
        match report.results.iter().find(|row| !row.is_sound()) {
            Some(row) => Err(broken(format!("{} {} {} is out of order", row.underlay, row.path, row.measure))),
            None if report.results.is_empty() => Err(broken("it has no results".to_owned())),
            None => Ok(report),
        }
    }

    fn row(&self, new: &Row) -> Option<&OldRow> {
        let name = |row: &&OldRow| {
            (row.underlay.as_str(), row.path.as_str(), row.measure.as_str(), row.unit.as_str())
                == (new.underlay.as_str(), new.path.as_str(), new.measure.as_str(), new.unit)
        };
        self.results.iter().find(name)
    }
}

impl OldRow {
    fn is_sound(&self) -> bool {
        self.min <= self.median && self.median <= self.max && self.min >= 0.0 && self.runs > 0
    }
}

/// Old and new side by side, for people: the change in percent, and `better` or `worse` where the two's ranges do not overlap.
///
/// A single run has no range, so it is never marked.
#[must_use]
pub fn compare(old: &OldReport, new: &Report) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["UNDERLAY", "PATH", "MEASURE", "UNIT", "OLD", "NEW", "CHANGE", ""]);
    let mut unknown = 0;
    for row in &new.results {
        let Some(before) = old.row(row) else {
            unknown += 1;
            continue;
        };
        table.add_row([
            row.underlay.to_string(),
            row.path.to_string(),
            row.measure.to_string(),
            row.unit.to_owned(),
            figure(before.median),
            figure(row.median),
            change(before.median, row.median),
            mark(before, row).to_owned(),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
        if (4..=6).contains(&column.index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.push(String::new());
    lines.push("better, worse: the two's ranges do not overlap; all else may be noise.".to_owned());
    if unknown > 0 {
        lines.push(format!("{unknown} figures are not in the old report."));
    }
    lines.push(format!("old: {}", old.host.date));
    lines.push(format!("new: {}", new.host.date));
    lines.extend(differences(&old.host, new));
    lines.join("\n")
}

fn change(old: f64, new: f64) -> String {
    if old > 0.0 { format!("{:+.1} %", (new / old - 1.0) * 100.0) } else { "-".to_owned() }
}

fn mark(old: &OldRow, new: &Row) -> &'static str {
    let (rose, fell) = (new.min > old.max, new.max < old.min);
    match (rose, fell) {
        _ if old.runs < 2 || new.runs < 2 => "",
        (false, false) => "",
        (rose, _) if rose == more_is_better(new.unit) => "better",
        _ => "worse",
    }
}

/// What else than Felt may have changed the figures.
fn differences(old: &OldHost, new: &Report) -> Vec<String> {
    let host = &new.host;
    let pairs = [
        ("kernel", old.kernel.clone(), host.kernel.clone()),
        ("CPU", old.cpu.clone(), host.cpu.clone()),
        ("number of CPUs", old.cpus.to_string(), host.cpus.to_string()),
        ("felt", old.felt.clone(), host.felt.clone()),
        ("congestion control", old.congestion_control.clone(), host.congestion_control.clone()),
        ("underlay MTU", old.mtu.to_string(), host.mtu.to_string()),
    ];
    let differ = pairs.into_iter().filter(|(_, old, new)| old != new);
    differ.map(|(what, old, new)| format!("note: {what} differs: `{old}` then, `{new}` now")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::show::sample::report;

    fn parse(text: &str) -> Result<OldReport, OldReportError> {
        OldReport::parse(text, FilePath::new("old.json"))
    }

    #[test]
    fn our_own_json_is_read_and_nothing_has_changed() {
        let report = report();
        let old = parse(&report.to_json().unwrap()).unwrap();
        let text = compare(&old, &report);
        let data = |line: &&str| line.starts_with("super") || line.starts_with("single");
        assert_eq!(text.lines().filter(data).count(), report.results.len());
        assert!(text.lines().filter(data).all(|line| line.ends_with("+0.0 %")), "{text}");
        assert!(!text.contains("differs"), "{text}");
    }

    #[test]
    fn the_comparison_is_this() {
        let old = parse(&report().to_json().unwrap()).unwrap();
        let mut new = report();
        new.host.kernel = "6.19.0".to_owned();
        for row in &mut new.results {
            // Up by a third, beyond the range of all but none.
            row.median *= 1.33;
            row.min *= 1.33;
            row.max *= 1.33;
        }
        new.results[1].min = 17.0;
        new.results[2].runs = 1;
        new.results.swap_remove(0);
        insta::assert_snapshot!(compare(&old, &new), @r"
        UNDERLAY   PATH          MEASURE        UNIT          OLD     NEW    CHANGE
        single     felt          tcp1           Gb/s         10.1    13.4   +33.0 %   better
        super      vxlan         tcp1           Gb/s         17.5    23.3   +33.0 %
        super      felt          tcp1           Gb/s         14.2    18.9   +33.0 %
        super      felt-policy   tcp1           Gb/s         14.0    18.6   +33.0 %   better
        super      felt-plain    tcp1           Gb/s         0.97    1.29   +33.0 %   better
        super      vxlan         udp64          packets/s   175 k   233 k   +33.0 %   better
        super      felt          udp64          packets/s   457 k   608 k   +33.0 %   better
        super      vxlan         rtt_p50        us           68.0    90.4   +33.0 %   worse
        super      felt          rtt_p50        us            111     148   +33.0 %   worse
        super      felt-policy   rtt_p50        us            112     149   +33.0 %   worse
        super      vxlan         cpu_s_per_gb   s/GB         0.78    1.04   +33.0 %   worse
        super      felt          cpu_s_per_gb   s/GB         1.10    1.46   +33.0 %   worse

        better, worse: the two's ranges do not overlap; all else may be noise.
        old: 2026-03-01T12:00:00Z
        new: 2026-03-01T12:00:00Z
        note: kernel differs: `6.18.44` then, `6.19.0` now
        ");
    }

    #[test]
    fn what_is_no_report_is_told_before_anything_is_measured() {
        let cases = [
            ("", "EOF"),
            ("[1]", "no `schema`"),
            ("{}", "no `schema`"),
            (r#"{"schema":"felt-bench/v2","results":[]}"#, r#"found "felt-bench/v2""#),
            (r#"{"schema":7}"#, "found 7"),
            (r#"{"schema":"felt-bench/v1"}"#, "results"),
            (r#"{"schema":"felt-bench/v1","results":[]}"#, "no results"),
            (r#"{"schema":"felt-bench/v1","results":[{"underlay":"super"}]}"#, "missing field"),
            (
                r#"{"schema":"felt-bench/v1","results":[{"underlay":"super","path":"felt","measure":"tcp1","unit":"Gb/s",
                    "median":3.0,"min":4.0,"max":5.0,"runs":1}]}"#,
                "super felt tcp1 is out of order",
            ),
        ];
        for (text, part) in cases {
            let told = parse(text).unwrap_err().to_string();
            assert!(told.starts_with("old.json: ") && told.contains(part), "{text}: {told}");
        }
        let told = OldReport::read(FilePath::new("/nowhere/old.json")).unwrap_err().to_string();
        assert!(told.starts_with("cannot read /nowhere/old.json: "), "{told}");
    }

    #[test]
    fn paths_and_measures_to_come_are_no_error() {
        let text = r#"{"schema":"felt-bench/v1","host":{"new":1},"results":[{"underlay":"super","path":"wireguard",
            "measure":"tcp9","unit":"Gb/s","median":3.0,"min":3.0,"max":5.0,"runs":1,"ratio_to_vxlan":null}]}"#;
        let text = compare(&parse(text).unwrap(), &report());
        assert!(text.contains("13 figures are not in the old report."), "{text}");
    }
}
