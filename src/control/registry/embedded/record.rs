//! One lease as the file holds it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::lease::{Lease, LeaseAttrs, SubnetKey};

/// The least time a lease has left after a start of the store (or its whole TTL, if that is less).
pub const GRACE: Duration = Duration::from_mins(10);

/// A lease's record: JSON, so that a file can be read and mended without this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The lease's value.
    pub attrs: LeaseAttrs,
    /// The revision of its last change.
    pub revision: u64,
    /// How long it was given; absent for a reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// When that time ends, in milliseconds since 1970 by this machine's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_ms: Option<u64>,
    /// The node noted beside the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

impl Record {
    /// The record of `lease`, whose TTL starts at `now_unix_ms`.
    pub fn of(lease: &Lease, node: Option<String>, now_unix_ms: u64) -> Self {
        let ttl_ms = lease.ttl.map(millis);
        Self {
            attrs: lease.attrs.clone(),
            revision: lease.revision,
            ttl_ms,
            expires_unix_ms: ttl_ms.map(|ttl| now_unix_ms.saturating_add(ttl)),
            node,
        }
    }

    /// The lease after a start of the store at `now_unix_ms`. See the module story of `embedded` for the clamps.
    pub fn lease(&self, subnet: SubnetKey, now_unix_ms: u64) -> Lease {
        let ttl = self.ttl_ms.map(|ttl| {
            let left = self.expires_unix_ms.unwrap_or(0).saturating_sub(now_unix_ms);
            Duration::from_millis(left.clamp(ttl.min(millis(GRACE)), ttl))
        });
        Lease { subnet, attrs: self.attrs.clone(), ttl, revision: self.revision }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HOUR: u64 = 3_600_000;
    const NOW: u64 = 1_800_000_000_000;

    fn left_after(elapsed_ms: i64, ttl: Option<Duration>) -> Option<Duration> {
        let subnet = "10.1.5.0-24".parse().unwrap();
        let lease = Lease { subnet, attrs: LeaseAttrs::udp(Ipv4Addr::LOCALHOST), ttl, revision: 7 };
        Record::of(&lease, None, NOW).lease(subnet, NOW.checked_add_signed(elapsed_ms).unwrap()).ttl
    }

    #[test]
    fn time_left_follows_the_wall_clock_within_limits() {
        let day = Some(Duration::from_millis(24 * HOUR));
        let hours = |count: i64| count * i64::try_from(HOUR).unwrap();
        assert_eq!(left_after(hours(1), day), Some(Duration::from_millis(23 * HOUR)));
        assert_eq!(left_after(hours(-1), day), day, "clock stepped back");
        assert_eq!(left_after(hours(25), day), Some(GRACE), "ran out while down");
        assert_eq!(left_after(hours(24) - 1, day), Some(GRACE), "about to run out");
        assert_eq!(left_after(hours(500_000), day), Some(GRACE), "clock from another epoch");
        assert_eq!(left_after(hours(1), Some(Duration::from_secs(3))), Some(Duration::from_secs(3)), "TTL below the grace");
        assert_eq!(left_after(hours(1000), None), None, "reservation");
    }

    #[test]
    fn the_text_is_stable() {
        let text = r#"{"attrs":{"PublicIP":"192.0.2.1","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1}},"revision":7,"ttl_ms":86400000,"expires_unix_ms":1800086400000,"node":"n1"}"#;
        let record: Record = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
    }
}
