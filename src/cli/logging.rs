//! Logs, on standard error: one line each of time (UTC), level, message and fields; repeats folded.

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::fold::Fold;

/// Variable that replaces the level of `--v` by directives such as `felt=debug,felt::control=trace`.
pub const VARIABLE: &str = "FELT_LOG";

/// The Kubernetes client calls every failed attempt an error. Whoever made the attempt says once what there is to say.
const SILENCED: &str = "kube_client::client::builder=off";

/// Starts logging: `verbosity` 0 shows state changes, 1 details, 2 everything; -1 what needs looking at, -2 errors only.
///
/// # Errors
/// What is wrong with the directives in `FELT_LOG`, if they are given.
pub fn start(verbosity: i64, directives: Option<&str>) -> Result<(), super::Failure> {
    let level = match verbosity {
        ..=-2 => "error",
        -1 => "warn",
        0 => "info",
        1 => "debug",
        2.. => "trace",
    };
    // Libraries speak of their own matters; only their warnings are news to an operator.
    let filter = match directives {
        Some(directives) => EnvFilter::try_new(directives).map_err(|error| {
            super::Failure::Usage(format!("invalid value '{directives}' for the environment variable {VARIABLE}: {error}"))
        })?,
        None if verbosity < -1 => EnvFilter::new(format!("{level},{SILENCED}")),
        None => EnvFilter::new(format!("warn,{SILENCED},felt={level}")),
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .event_format(Lines::default())
        .finish();
    // Fails only if logging has been started before, which leaves things as they should be.
    drop(tracing::subscriber::set_global_default(subscriber));
    Ok(())
}

/// The shape of a line.
#[derive(Debug, Default)]
struct Lines {
    fold: Mutex<Fold>,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut text = String::new();
        context.field_format().format_fields(Writer::new(&mut text), event)?;
        let level = *event.metadata().level();
        let folded = self.fold.lock().unwrap_or_else(PoisonError::into_inner).admit(&format!("{level} {text}"), Instant::now());
        // Nothing written is no line at all.
        let Some(folded) = folded else { return Ok(()) };

        SystemTime.format_time(&mut writer)?;
        if writer.has_ansi_escapes() {
            write!(writer, " \x1b[{}m{level:>5}\x1b[0m {text}", colour(level))?;
        } else {
            write!(writer, " {level:>5} {text}")?;
        }
        if folded > 0 {
            write!(writer, " (and {folded} times since it was last shown)")?;
        }
        writeln!(writer)
    }
}

fn colour(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_time_level_message_and_fields_and_comes_once() {
        let memory = Memory::default();
        let writer = memory.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .event_format(Lines::default())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            for subnet in [1, 1, 2, 1] {
                tracing::info!(subnet, "lease acquired");
            }
            tracing::warn!("etcd is gone");
        });
        let bytes = memory.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap()).collect();
        assert!(lines.iter().all(|(time, _)| time.ends_with('Z') && time.contains('T')), "{text}");
        let rest: Vec<_> = lines.iter().map(|(_, rest)| *rest).collect();
        assert_eq!(rest, [" INFO lease acquired subnet=1", " INFO lease acquired subnet=2", " WARN etcd is gone"]);
    }

    #[test]
    fn directives_that_make_no_sense_are_refused() {
        let error = start(0, Some("felt=loud")).unwrap_err();
        assert!(error.code() == 2 && error.to_string().contains(VARIABLE), "{error}");
    }
}
