//! Answers to watches.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lease::LeaseBody;
use crate::lease::{Change, Lease, LeaseEvent, Update};

/// The answer to a watch of leases. Exactly one of `events` and `snapshot` is not null when we write it.
///
/// Flannel 0.6 clients take an empty `events` for a snapshot of nothing: an answer without events is never sent to a waiting client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchBody {
    /// What happened, in order.
    #[serde(default)]
    pub events: Option<Vec<EventBody>>,
    /// Everything there is.
    #[serde(default)]
    pub snapshot: Option<Vec<LeaseBody>>,
    /// Where to go on: `next` of the following watch. A string when we write it; clients must not look inside.
    #[serde(default)]
    pub cursor: Value,
}

/// The answer to a watch of networks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetworkWatchBody {
    /// Always null: networks do not come or go here.
    pub events: Option<Vec<EventBody>>,
    /// The names of all networks.
    pub snapshot: Vec<String>,
    /// As in [`WatchBody`].
    pub cursor: String,
}

/// One change of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventBody {
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// To which lease.
    pub lease: LeaseBody,
}

/// The two kinds of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// Created, renewed or changed.
    Added,
    /// Deleted or expired.
    Removed,
}

impl WatchBody {
    /// The answer that carries `update`; time left is counted from `now`.
    pub fn of(update: &Update, now: SystemTime) -> Self {
        let body = |lease: &Lease| LeaseBody::of(lease, now);
        let (events, snapshot) = match &update.change {
            Change::Snapshot(leases) => (None, Some(leases.iter().map(body).collect())),
            Change::Events(events) => {
                let event = |event: &LeaseEvent| match event {
                    LeaseEvent::Added(lease) => EventBody { kind: EventKind::Added, lease: body(lease) },
                    LeaseEvent::Removed(subnet) => EventBody { kind: EventKind::Removed, lease: LeaseBody::bare(*subnet) },
                };
                (Some(events.iter().map(event).collect()), None)
            }
        };
        Self { events, snapshot, cursor: Value::String(update.revision.to_string()) }
    }

    /// What the answer says. `None`: it may mean "nothing happened" (flannel 0.5) or "nothing is there" (0.6), so the leases
    /// have to be listed. In a listing (`listed`) it means the latter.
    pub fn into_change(self, listed: bool, now: SystemTime) -> Result<Option<Change>, String> {
        let events = self.events.unwrap_or_default();
        if !events.is_empty() {
            let event = |event: EventBody| match event.kind {
                EventKind::Added => event.lease.into_lease(now).map(LeaseEvent::Added),
                EventKind::Removed => Ok(LeaseEvent::Removed(event.lease.subnet())),
            };
            return Ok(Some(Change::Events(events.into_iter().map(event).collect::<Result<_, _>>()?)));
        }
        let snapshot = match self.snapshot {
            Some(snapshot) => snapshot,
            None if listed => Vec::new(),
            None => return Ok(None),
        };
        let leases = snapshot.into_iter().map(|lease| lease.into_lease(now)).collect::<Result<_, _>>()?;
        Ok(Some(Change::Snapshot(leases)))
    }

    /// The cursor as it goes into a request.
    pub fn cursor(&self) -> Option<String> {
        match &self.cursor {
            Value::Null => None,
            Value::String(cursor) => Some(cursor.clone()),
            other => Some(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::lease::LeaseAttrs;

    fn lease() -> Lease {
        let attrs = LeaseAttrs::udp(Ipv4Addr::new(1, 1, 1, 1));
        Lease { subnet: "10.1.5.0-24".parse().unwrap(), attrs, ttl: None, revision: 0 }
    }

    fn text(change: Change) -> String {
        serde_json::to_string(&WatchBody::of(&Update { revision: 1234, change }, SystemTime::UNIX_EPOCH)).unwrap()
    }

    const LEASE: &str = r#"{"Subnet":"10.1.5.0/24","Attrs":{"PublicIP":"1.1.1.1"},"Expiration":"0001-01-01T00:00:00Z"}"#;
    const BARE: &str = r#"{"Subnet":"10.1.5.0/24","Attrs":{"PublicIP":"0.0.0.0"},"Expiration":"0001-01-01T00:00:00Z"}"#;

    #[test]
    fn both_keys_are_always_there_and_the_cursor_is_a_string() {
        assert_eq!(text(Change::Snapshot(vec![])), r#"{"events":null,"snapshot":[],"cursor":"1234"}"#);
        assert_eq!(text(Change::Snapshot(vec![lease()])), format!(r#"{{"events":null,"snapshot":[{LEASE}],"cursor":"1234"}}"#));
        let events = vec![LeaseEvent::Added(lease()), LeaseEvent::Removed(lease().subnet)];
        assert_eq!(
            text(Change::Events(events)),
            format!(
                r#"{{"events":[{{"type":"added","lease":{LEASE}}},{{"type":"removed","lease":{BARE}}}],"snapshot":null,"cursor":"1234"}}"#
            )
        );
    }

    #[test]
    fn every_form_servers_send_is_understood() {
        let change = |text: &str, listed| {
            let body: WatchBody = serde_json::from_str(text).unwrap();
            body.into_change(listed, SystemTime::UNIX_EPOCH).unwrap()
        };
        let snapshot = Some(Change::Snapshot(vec![lease()]));
        assert_eq!(change(&format!(r#"{{"events":null,"snapshot":[{LEASE}],"cursor":"7"}}"#), false), snapshot);
        assert_eq!(change(&format!(r#"{{"events":[],"snapshot":[{LEASE}],"cursor":"7"}}"#), false), snapshot);
        assert_eq!(change(r#"{"events":null,"snapshot":[],"cursor":"7"}"#, false), Some(Change::Snapshot(vec![])));
        assert_eq!(change(r#"{"events":[],"snapshot":null,"cursor":"7"}"#, false), None);
        assert_eq!(change(r#"{"events":null,"snapshot":null,"cursor":"7"}"#, true), Some(Change::Snapshot(vec![])));
        let removed = format!(r#"{{"events":[{{"type":"removed","lease":{BARE}}}],"snapshot":null,"cursor":"7"}}"#);
        assert_eq!(change(&removed, false), Some(Change::Events(vec![LeaseEvent::Removed(lease().subnet)])));
        let body: WatchBody = serde_json::from_str(r#"{"events":[],"snapshot":[],"cursor":7}"#).unwrap();
        assert_eq!(body.cursor().as_deref(), Some("7"));
        assert!(serde_json::from_str::<WatchBody>(r#"{"events":[{"type":"renewed","lease":{}}]}"#).is_err());
    }
}
