//! Figures as people read them.

use std::time::Duration;

/// How long something took.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds >= 1.0 { format!("{seconds:.1} s") } else { scaled(seconds * 1e6, &["µs", "ms"]) }
}

/// A round-trip time, in a form that stands in a column of such.
pub(super) fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// An amount of data, in powers of ten.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn bytes(count: u64) -> String {
    scaled(count as f64, &["B", "kB", "MB", "GB", "TB"])
}

/// A rate of payload.
pub(super) fn rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut units = units.iter().peekable();
    while let Some(unit) = units.next() {
        if value < 1000.0 || units.peek().is_none() {
            let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
            return format!("{value:.digits$} {unit}");
        }
        value /= 1000.0;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_or_so() {
        assert_eq!(bytes(0), "0.00 B");
        assert_eq!(bytes(65_536), "65.5 kB");
        assert_eq!(bytes(1_234_567_890), "1.23 GB");
        assert_eq!(rate(3.456e9), "3.46 Gbit/s");
        assert_eq!(rate(3.456e12), "3456 Gbit/s");
        assert_eq!(milliseconds(Duration::from_micros(312)), "0.31 ms");
        assert_eq!(time(Duration::from_millis(1234)), "1.2 s");
        assert_eq!(time(Duration::from_micros(44_440)), "44.4 ms");
        assert_eq!(time(Duration::from_micros(999)), "999 µs");
    }
}
