//! The figures and where they come from, as they are written to files.

use serde::Serialize;

use super::{Host, Measure, Path, Underlay};

/// What a file that holds a report says it is.
pub const SCHEMA: &str = "felt-bench/v1";

/// What a benchmark came to. Its JSON form is the output of `felt bench --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// On what, and with which settings.
    pub host: Host,
    /// The figures, by underlay, measure and path.
    pub results: Vec<Row>,
    /// How many runs failed, each with a note; no part of the file.
    #[serde(skip)]
    pub failed: usize,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Over which underlay.
    pub underlay: Underlay,
    /// Along which path.
    pub path: Path,
    /// Of what.
    pub measure: Measure,
    /// The unit of the values.
    pub unit: &'static str,
    /// The middle value of all rounds.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many there are.
    pub runs: usize,
    /// The middle of the rounds' ratios to kernel vxlan's value; `None` where that was not measured.
    pub ratio_to_vxlan: Option<f64>,
    /// Of [`Path::FeltPolicy`] only: the middle of the rounds' ratios to Felt's value without policy. Left out of the file where
    /// there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_felt: Option<f64>,
}

impl Report {
    /// As JSON, indented.
    ///
    /// # Errors
    /// None in practice: it holds nothing that JSON lacks.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// A figure, if it was measured.
    #[must_use]
    pub fn row(&self, underlay: Underlay, path: Path, measure: Measure) -> Option<&Row> {
        self.results.iter().find(|row| (row.underlay, row.path, row.measure) == (underlay, path, measure))
    }

    /// Which of `all` occur in the figures, in that order.
    pub(super) fn present<T: PartialEq + Copy>(&self, all: &[T], of: impl Fn(&Row) -> T) -> Vec<T> {
        all.iter().copied().filter(|one| self.results.iter().any(|row| of(row) == *one)).collect()
    }
}

/// To five digits: more were noise.
pub(super) fn round_off(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::show::sample::report;

    #[test]
    #[allow(clippy::float_cmp, reason = "rounding to a decimal is exact by definition")]
    fn values_are_rounded_to_what_they_are_worth() {
        assert_eq!(round_off(14.123_456), 14.123);
        assert_eq!(round_off(457_123.9), 457_120.0);
        assert_eq!(round_off(0.0), 0.0);
        assert_eq!(round_off(0.098_765_4), 0.098_765);
    }

    #[test]
    fn the_file_is_what_the_schema_says() {
        let json: serde_json::Value = serde_json::from_str(&report().to_json().unwrap()).unwrap();
        let keys = |value: &serde_json::Value| {
            let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
            keys.sort();
            keys
        };
        assert_eq!(json["schema"], "felt-bench/v1");
        assert_eq!(keys(&json), ["host", "results", "schema"]);
        let policy = json["results"].as_array().unwrap().iter().find(|row| row["path"] == "felt-policy").unwrap();
        assert_eq!((keys(policy).len(), policy["ratio_to_felt"].as_f64()), (10, Some(0.986)));
        let row = &json["results"][0];
        assert_eq!(keys(row), ["max", "measure", "median", "min", "path", "ratio_to_vxlan", "runs", "underlay", "unit"]);
        assert_eq!(row["underlay"], "super");
        assert_eq!((&row["path"], &row["measure"], &row["unit"]), (&"veth".into(), &"tcp1".into(), &"Gb/s".into()));
        assert!(row["median"].is_f64() && row["runs"] == 3);
        for key in ["kernel", "cpu", "felt", "congestion_control", "date"] {
            assert!(!json["host"][key].as_str().unwrap().is_empty(), "{key}");
        }
        for key in ["cpus", "memory_bytes", "mtu"] {
            assert!(json["host"][key].as_u64().unwrap() > 0, "{key}");
        }
        let without = json["results"].as_array().unwrap().iter().filter(|row| row["ratio_to_vxlan"].is_null()).count();
        assert_eq!(without, 1, "single underlay has no vxlan in the sample");
    }
}
