//! Numbers for people: three digits, and thousands where there are many.

/// A value in its unit's way: `14.2`, `0.97`, `457 k`, `1.31 M`, `111`.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 999_500.0 => format!("{} M", digits(value / 1e6)),
        size if size >= 9_995.0 => format!("{} k", digits(value / 1e3)),
        _ => digits(value),
    }
}

/// Two values as a range: `13.9–14.6`; one where they look alike.
pub(super) fn range(min: f64, max: f64) -> String {
    let (min, max) = (figure(min), figure(max));
    if min == max { min } else { format!("{min}–{max}") }
}

/// A ratio: `0.81×`.
pub(super) fn ratio(value: f64) -> String {
    format!("{}×", digits(value))
}

/// Three digits, or all of the whole part if that has more.
fn digits(value: f64) -> String {
    match value.abs() {
        // By what it rounds to, so that 9.996 is 10.0 and not 10.00.
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.0995 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_shown() {
        for (value, text) in [
            (0.0, "0.00"),
            (0.0512, "0.051"),
            (0.967, "0.97"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (14.23, "14.2"),
            (99.96, "100"),
            (111.4, "111"),
            (5_012.0, "5012"),
            (82_400.0, "82.4 k"),
            (457_300.0, "457 k"),
            (999_600.0, "1.00 M"),
            (1_312_000.0, "1.31 M"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!(range(13.91, 14.62), "13.9–14.6");
        assert_eq!(range(13.91, 13.92), "13.9");
        assert_eq!(ratio(2.404), "2.40×");
    }
}
