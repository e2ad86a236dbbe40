//! Order statistics of small samples.

/// The median: the middle one, or the mean of the middle two. `None` of nothing.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 { Some(upper) } else { Some(f64::midpoint(*sorted.get(middle - 1)?, upper)) }
}

/// The smallest value that at least `percent` of all do not exceed (nearest rank). `None` of nothing.
pub(super) fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let sorted = sorted(values);
    #[expect(clippy::cast_precision_loss, reason = "far fewer values than 2⁵³")]
    let rank = (percent / 100.0 * sorted.len() as f64).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the length")]
    let index = (rank as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(index).copied()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "no arithmetic between what goes in and what comes out")]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 100.0]), Some(3.5));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let hundred: Vec<f64> = (1..=100u8).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 50.0), Some(50.0));
        assert_eq!(percentile(&hundred, 99.0), Some(99.0));
        assert_eq!(percentile(&hundred, 100.0), Some(100.0));
        assert_eq!(percentile(&hundred, 0.0), Some(1.0));
        assert_eq!(percentile(&[7.0, 8.0, 9.0], 99.0), Some(9.0));
        assert_eq!(percentile(&[7.0, 8.0, 9.0], 50.0), Some(8.0));
        assert_eq!(percentile(&[], 50.0), None);
    }
}
