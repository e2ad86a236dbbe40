//! The checked-in counts.

use std::fmt::Write as _;
use std::fs;

/// From the package's root.
pub const PATH: &str = "benches/icount.baseline";

/// Percent a count may lie above its baseline.
pub const TOLERANCE: f64 = 3.0;

/// What was counted, and with what.
#[derive(Default)]
pub struct Baseline {
    pub settings: Settings,
    /// Instructions per run, by the body's name.
    pub counts: Vec<(String, u64)>,
}

/// What counts depend on.
#[derive(Default)]
pub struct Settings {
    pub rustc: String,
    pub valgrind: String,
    pub vectors: String,
}

impl Baseline {
    /// The one that is checked in.
    pub fn read() -> Result<Self, String> {
        let text = fs::read_to_string(file()).map_err(|error| format!("{PATH} cannot be read ({error}); --update writes it"))?;
        let mut baseline = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let wrong = || format!("expected `NAME COUNT` or a comment in {PATH}, found `{line}`");
            if let Some(comment) = line.strip_prefix('#') {
                baseline.settings.read(comment.trim());
            } else {
                let (name, count) = line.split_once(' ').ok_or_else(wrong)?;
                baseline.counts.push((name.to_owned(), count.trim().parse().map_err(|_| wrong())?));
            }
        }
        Ok(baseline)
    }

    /// Checks it in, as far as this program can.
    pub fn write(&self) -> Result<(), String> {
        let Settings { rustc, valgrind, vectors } = &self.settings;
        let mut text = String::from("# Instructions per run of each body, by `scripts/icount --update`.\n");
        for (what, value) in [("rustc", rustc), ("valgrind", valgrind), ("vectors", vectors)] {
            _ = writeln!(text, "# {what}: {value}");
        }
        for (name, count) in &self.counts {
            _ = writeln!(text, "{name} {count}");
        }
        fs::write(file(), text).map_err(|error| format!("{PATH} cannot be written: {error}"))
    }

    /// The count of the body `name`.
    pub fn of(&self, name: &str) -> Option<u64> {
        self.counts.iter().find(|(known, _)| known == name).map(|(_, count)| *count)
    }
}

impl Settings {
    fn read(&mut self, comment: &str) {
        match comment.split_once(": ") {
            Some(("rustc", value)) => value.clone_into(&mut self.rustc),
            Some(("valgrind", value)) => value.clone_into(&mut self.valgrind),
            Some(("vectors", value)) => value.clone_into(&mut self.vectors),
            _ => {}
        }
    }

    /// What of these is not as in `now`, in words.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let pairs = [(&self.rustc, &now.rustc), (&self.valgrind, &now.valgrind), (&self.vectors, &now.vectors)];
        pairs.into_iter().filter(|(then, now)| then != now).map(|(then, now)| format!("{then}, this is {now}")).collect()
    }
}

/// Percent from `before` to `found`.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub fn change(before: u64, found: u64) -> f64 {
    (found as f64 / before.max(1) as f64 - 1.0) * 100.0
}

fn file() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(PATH)
}
