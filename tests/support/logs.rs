//! What was logged, by all tests of this binary together: told apart by what only one of them can have said.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::Write;
use std::sync::{Mutex, Once};

static LINES: Mutex<String> = Mutex::new(String::new());
static START: Once = Once::new();

struct Collector;

impl Write for Collector {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Starts collecting, if nobody did.
pub fn collect() {
    START.call_once(|| {
        let filter = tracing_subscriber::EnvFilter::new("info");
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(|| Collector).init();
    });
}

/// The lines with `mark` in them.
pub fn with(mark: &str) -> Vec<String> {
    LINES.lock().unwrap().lines().filter(|line| line.contains(mark)).map(str::to_owned).collect()
}

/// The lines about the etcd at `url`, and only there: another test may have had the port before, as one of several members.
pub fn about(url: &str) -> Vec<String> {
    with(&format!("etcd at {url}: "))
}
