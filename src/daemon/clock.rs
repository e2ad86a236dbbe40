//! The one clock of a node: monotonic, counted from the process's first look at it.

use std::sync::OnceLock;
use std::time::Instant;

use crate::net::Moment;

static ORIGIN: OnceLock<Instant> = OnceLock::new();

/// Now, on the monotonic clock.
pub fn now() -> Moment {
    Moment::from_origin(ORIGIN.get_or_init(Instant::now).elapsed())
}

/// `moment` as the runtime's timers understand it.
pub fn instant(moment: Moment) -> tokio::time::Instant {
    let origin = *ORIGIN.get_or_init(Instant::now);
    let far = std::time::Duration::from_hours(365 * 24);
    (origin + moment.since_origin().min(now().since_origin() + far)).into()
}
