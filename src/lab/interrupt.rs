//! Asking a lab to stop: every wait in a lab looks at an [`Interrupt`], so that Ctrl-C ends in a clean tear-down.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use super::LabError;

/// How long any wait sleeps before it looks again.
const GLANCE: Duration = Duration::from_millis(20);

/// A wish to stop, shared by whoever may utter it and whoever has to hear it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// An interrupt nobody has raised yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An interrupt raised by SIGINT, SIGTERM and SIGHUP. From now on these do not end this process: tear-down takes a
    /// few seconds at most and ends it anyway.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn on_signals() -> io::Result<Self> {
        let interrupt = Self::new();
        let raised = interrupt.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (mut terminate, mut int, mut hangup) = {
            let _context = runtime.enter();
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?)
        };
        thread::Builder::new().name("lab-signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = terminate.recv() => {}
                        _ = int.recv() => {}
                        _ = hangup.recv() => {}
                    }
                    raised.raise();
                }
            });
        })?;
        Ok(interrupt)
    }

    /// Asks everybody who listens to stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether stopping was asked for.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`LabError::Interrupted`] once raised.
    pub fn check(&self) -> Result<(), LabError> {
        if self.is_raised() { Err(LabError::Interrupted) } else { Ok(()) }
    }

    /// Sleeps for `time`, or until raised.
    ///
    /// # Errors
    /// [`LabError::Interrupted`] once raised.
    pub fn sleep(&self, time: Duration) -> Result<(), LabError> {
        self.wait(time, || Ok::<_, LabError>(None::<()>)).map(|_| ())
    }

    /// Asks `look` again and again until it has an answer; `None` after `patience`.
    ///
    /// # Errors
    /// What `look` fails with, and [`LabError::Interrupted`] once raised.
    pub fn wait<T>(
        &self,
        patience: Duration,
        mut look: impl FnMut() -> Result<Option<T>, LabError>,
    ) -> Result<Option<T>, LabError> {
        let end = Instant::now() + patience;
        loop {
            self.check()?;
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(left.min(GLANCE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_interrupt_ends_every_wait() {
        let interrupt = Interrupt::new();
        assert!(interrupt.check().is_ok());
        let raised = interrupt.clone();
        let mut looks = 0;
        let answer = interrupt.wait(Duration::from_hours(1), || {
            looks += 1;
            if looks == 3 {
                raised.raise();
            }
            Ok(None::<()>)
        });
        assert!(matches!(answer, Err(LabError::Interrupted)));
        assert_eq!(looks, 3);
        assert!(matches!(interrupt.sleep(Duration::from_hours(1)), Err(LabError::Interrupted)));
    }

    #[test]
    fn a_wait_gives_what_was_found_or_nothing() {
        let interrupt = Interrupt::new();
        assert_eq!(interrupt.wait(Duration::ZERO, || Ok(Some(7))).unwrap(), Some(7));
        assert_eq!(interrupt.wait(Duration::ZERO, || Ok(None::<u8>)).unwrap(), None);
        let failed = interrupt.wait::<u8>(Duration::from_hours(1), || Err(LabError::BadPlan("no".to_owned())));
        assert!(matches!(failed, Err(LabError::BadPlan(_))));
    }
}
