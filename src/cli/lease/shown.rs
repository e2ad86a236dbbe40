//! How a lease is shown: in words for people, as an object for programs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::control::registry::RegistryAdmin;
use crate::lease::{Lease, NetworkConfig, SubnetKey};

/// Stands for what is not known.
const UNKNOWN: &str = "-";

/// Backends whose leases do not name them. Source: flannel.
const NAMELESS: [&str; 4] = ["udp", "alloc", "aws-vpc", "gce"];

/// The backend of leases that name none: that of the network config, if it is one of those. A registry without a config, or with
/// a strange one, can be listed all the same.
pub async fn unnamed_backend(registry: &dyn RegistryAdmin) -> &'static str {
    let config = registry.config().await.ok().and_then(|text| NetworkConfig::parse(&text).ok());
    config.map(|config| config.backend.kind()).filter(|kind| NAMELESS.contains(kind)).unwrap_or(UNKNOWN)
}

/// The lease in columns: subnet, node, backend, time left, whether it is reserved.
pub fn columns(lease: &Lease, unnamed: &str) -> [String; 5] {
    let backend = if lease.attrs.backend_type.is_empty() { unnamed } else { &lease.attrs.backend_type };
    let reserved = if lease.is_reservation() { "reserved" } else { "" };
    let left = lease.ttl.map_or_else(|| "no end".to_owned(), duration);
    [subnet(&lease.subnet), lease.attrs.public_ip.to_string(), backend.to_owned(), left, reserved.to_owned()]
}

/// The lease as an object. The backend is what the lease names, or null.
pub fn object(lease: &Lease) -> Value {
    let attrs = &lease.attrs;
    json!({
        "subnet": lease.subnet.v4.to_string(),
        "ipv6_subnet": lease.subnet.v6.map(|v6| v6.to_string()),
        "public_ip": attrs.public_ip,
        "public_ipv6": attrs.public_ipv6,
        "backend": (!attrs.backend_type.is_empty()).then_some(&attrs.backend_type),
        "backend_data": &attrs.backend_data,
        "reserved": lease.is_reservation(),
        "seconds_left": lease.ttl.map(|left| left.as_secs()),
    })
}

/// The subnet as people write it.
pub fn subnet(key: &SubnetKey) -> String {
    key.v6.map_or_else(|| key.v4.to_string(), |v6| format!("{}, {v6}", key.v4))
}

/// In the two largest units that say something.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, ..) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::lease::{LeaseAttrs, RawJson};

    #[test]
    fn time_is_told_in_two_units() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m 0s"), (3599, "59m 59s"), (3600, "1h 0m"), (86_399, "23h 59m"), (90_000, "1d 1h")]
        {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn what_a_lease_does_not_name_is_told_from_what_it_names() {
        let named = LeaseAttrs {
            backend_type: "vxlan".into(),
            backend_data: RawJson::parse(r#"{"VNI":1}"#),
            ..LeaseAttrs::udp(Ipv4Addr::new(192, 0, 2, 1))
        };
        let mut lease = Lease { subnet: "10.5.1.0-24".parse().unwrap(), attrs: named, ttl: None, revision: 1 };
        assert_eq!(columns(&lease, "udp"), ["10.5.1.0/24", "192.0.2.1", "vxlan", "no end", "reserved"]);
        assert_eq!(object(&lease)["backend_data"], json!({"VNI": 1}));
        lease.attrs = LeaseAttrs::udp(lease.attrs.public_ip);
        lease.ttl = Some(Duration::from_mins(90));
        assert_eq!(columns(&lease, "udp"), ["10.5.1.0/24", "192.0.2.1", "udp", "1h 30m", ""]);
        let expected = json!({
            "subnet": "10.5.1.0/24", "ipv6_subnet": null, "public_ip": "192.0.2.1", "public_ipv6": null, "backend": null,
            "backend_data": null, "reserved": false, "seconds_left": 5400,
        });
        assert_eq!(object(&lease), expected);
    }
}
