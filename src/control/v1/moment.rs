//! Expirations on the wire: points of wall-clock time, which only mean something beside the clock of who wrote them.

use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::control::registry::LEASE_TTL;

/// Go's zero time, by which the API says "never".
const NEVER: &str = "0001-01-01T00:00:00Z";

/// The least a lease is said to last: so a renewal is due, not overdue without end.
const LEAST: Duration = Duration::from_secs(1);

/// When a lease with this much time left ends, in whole seconds.
pub fn expiration(ttl: Option<Duration>, now: SystemTime) -> String {
    let Some(end) = ttl.and_then(|ttl| now.checked_add(ttl)) else { return NEVER.into() };
    let end = OffsetDateTime::from(end).truncate_to_second();
    end.format(&Rfc3339).unwrap_or_else(|_| NEVER.into())
}

/// The time left of a lease that ends at `expiration`, seen at `now` by the clock that wrote it; `None` for "never".
///
/// Clamped to one second and [`LEASE_TTL`]: with a clock that lies the lease is renewed too early, not never.
pub fn remaining(expiration: &str, now: SystemTime) -> Result<Option<Duration>, time::error::Parse> {
    if expiration.is_empty() {
        return Ok(None);
    }
    let end = OffsetDateTime::parse(expiration, &Rfc3339)?;
    if end.year() <= 1 {
        return Ok(None);
    }
    let left = Duration::try_from(end - OffsetDateTime::from(now)).unwrap_or_default();
    Ok(Some(left.clamp(LEAST, LEASE_TTL)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SystemTime {
        OffsetDateTime::parse(text, &Rfc3339).unwrap().into()
    }

    #[test]
    fn whole_seconds_and_never() {
        let now = at("2016-08-23T12:00:00.75Z");
        assert_eq!(expiration(Some(LEASE_TTL), now), "2016-08-24T12:00:00Z");
        assert_eq!(expiration(None, now), NEVER);
    }

    #[test]
    fn any_spelling_of_go_and_any_clock() {
        let now = at("2016-08-24T11:00:00Z");
        let hour = Some(Duration::from_hours(1));
        assert_eq!(remaining("2016-08-24T12:00:00Z", now).unwrap(), hour);
        assert_eq!(remaining("2016-08-24T14:00:00.000000000+02:00", now).unwrap(), hour);
        assert_eq!(remaining(NEVER, now).unwrap(), None);
        assert_eq!(remaining("", now).unwrap(), None);
        assert_eq!(remaining("1999-01-01T00:00:00Z", now).unwrap(), Some(LEAST));
        assert_eq!(remaining("2999-01-01T00:00:00Z", now).unwrap(), Some(LEASE_TTL));
        assert!(remaining("tomorrow", now).is_err());
    }
}
