//! What the rounds brought, and the figures that come of it.

use std::collections::BTreeMap;

use super::report::{Row, round_off};
use super::stats::median;
use super::{Measure, Path, Underlay};

/// Values by what they are of and the round they are from.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(BTreeMap<(Underlay, Measure, Path), BTreeMap<u32, f64>>);

impl Samples {
    /// Takes down a value; a second one of the same round replaces the first.
    pub(super) fn put(&mut self, round: u32, underlay: Underlay, path: Path, measure: Measure, value: f64) {
        self.0.entry((underlay, measure, path)).or_default().insert(round, value);
    }

    /// The figures, by underlay, measure and path.
    ///
    /// A ratio is the median of the ratios of single rounds. Within a round the two values were measured seconds apart, so
    /// what changes slowly, the machine's mood, divides out.
    pub(super) fn rows(&self) -> Vec<Row> {
        let rows = self.0.iter().filter_map(|((underlay, measure, path), by_round)| {
            let values: Vec<f64> = by_round.values().copied().collect();
            let ratio_to = |other| {
                let other = self.0.get(&(*underlay, *measure, other))?;
                let ratios = by_round.iter();
                let ratios = ratios.filter_map(|(round, value)| Some(value / other.get(round).filter(|other| **other > 0.0)?));
                median(&ratios.collect::<Vec<_>>()).map(round_off)
            };
            Some(Row {
                underlay: *underlay,
                path: *path,
                measure: *measure,
                unit: measure.unit(),
                median: round_off(median(&values)?),
                min: round_off(values.iter().copied().reduce(f64::min)?),
                max: round_off(values.iter().copied().reduce(f64::max)?),
                runs: values.len(),
                ratio_to_vxlan: ratio_to(Path::Vxlan),
                ratio_to_felt: if *path == Path::FeltPolicy { ratio_to(Path::Felt) } else { None },
            })
        });
        rows.collect()
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "values chosen to be exact")]
mod tests {
    use super::*;

    fn samples(values: &[(Path, &[f64])]) -> Samples {
        let mut samples = Samples::default();
        for (path, values) in values {
            for (round, value) in (0..).zip(*values) {
                samples.put(round, Underlay::Super, *path, Measure::Tcp1, *value);
            }
        }
        samples
    }

    #[test]
    fn a_row_tells_middle_and_ends() {
        let rows = samples(&[(Path::Felt, &[14.0, 10.0, 12.0])]).rows();
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.median, row.min, row.max, row.runs, row.ratio_to_vxlan), (12.0, 10.0, 14.0, 3, None));
        assert_eq!((row.underlay, row.path, row.unit), (Underlay::Super, Path::Felt, "Gb/s"));
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The machine got slower from round to round; the ratio did not.
        let rows = samples(&[(Path::Felt, &[8.0, 4.0, 2.0]), (Path::Vxlan, &[16.0, 8.0, 4.0])]).rows();
        let ratio = |path| rows.iter().find(|row| row.path == path).unwrap().ratio_to_vxlan;
        assert_eq!((ratio(Path::Felt), ratio(Path::Vxlan)), (Some(0.5), Some(1.0)));
        // A round in which one of them failed gives no ratio.
        let mut samples = samples(&[(Path::Felt, &[8.0, 4.0]), (Path::Vxlan, &[16.0])]);
        samples.put(1, Underlay::Single, Path::Vxlan, Measure::Tcp1, 100.0);
        let rows = samples.rows();
        assert_eq!(rows.iter().find(|row| row.path == Path::Felt).unwrap().ratio_to_vxlan, Some(0.5));
    }

    #[test]
    fn what_policy_costs_is_a_ratio_within_rounds_too() {
        let rows = samples(&[(Path::Felt, &[8.0, 4.0, 2.0]), (Path::FeltPolicy, &[6.0, 4.0, 1.0])]).rows();
        let ratios: Vec<_> = rows.iter().map(|row| (row.path, row.ratio_to_felt, row.ratio_to_vxlan)).collect();
        assert_eq!(ratios, [(Path::Felt, None, None), (Path::FeltPolicy, Some(0.75), None)]);
    }

    #[test]
    fn nothing_divides_by_zero() {
        let rows = samples(&[(Path::Felt, &[8.0]), (Path::Vxlan, &[0.0])]).rows();
        assert!(rows.iter().all(|row| row.ratio_to_vxlan.is_none()));
        assert!(Samples::default().rows().is_empty());
    }
}
