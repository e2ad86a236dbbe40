//! Signals: the first SIGTERM or SIGINT asks for a clean end, a second one forces it.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code after a forced end: 128 + SIGTERM, as a shell would report the kill.
const FORCED_EXIT_CODE: i32 = 143;

/// A token cancelled by the first SIGTERM or SIGINT; a second one ends the process on the spot.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn stop_on_signals() -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let name = next().await;
        tracing::info!("{name}: shutting down; a second signal forces it");
        token.cancel();
        let name = next().await;
        tracing::warn!("{name} again: ending at once");
        std::process::exit(FORCED_EXIT_CODE);
    });
    Ok(stop)
}
