//! Leases, their attributes, and reservations.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::json::{optional_text, text};
use super::moment::{expiration, remaining};
use crate::control::registry::Reservation;
use crate::lease::{Lease, LeaseAttrs, RawJson, SubnetKey};
use crate::net::{Prefix4, Prefix6};

/// A lease's attributes: like its value in a store, but without `PublicIPv6` where there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttrsBody {
    /// Flannel takes a missing address for 0.0.0.0.
    #[serde(rename = "PublicIP", default = "unspecified")]
    public_ip: Ipv4Addr,
    #[serde(rename = "PublicIPv6", default, skip_serializing_if = "Option::is_none")]
    public_ipv6: Option<Ipv6Addr>,
    #[serde(rename = "BackendType", default, skip_serializing_if = "String::is_empty")]
    backend_type: String,
    #[serde(rename = "BackendData", default, skip_serializing_if = "Option::is_none")]
    backend_data: Option<RawJson>,
    #[serde(rename = "BackendV6Data", default, skip_serializing_if = "Option::is_none")]
    backend_v6_data: Option<RawJson>,
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseBody {
    #[serde(rename = "Subnet", with = "text")]
    v4: Prefix4,
    #[serde(rename = "IPv6Subnet", default, with = "optional_text", skip_serializing_if = "Option::is_none")]
    v6: Option<Prefix6>,
    #[serde(rename = "Attrs")]
    attrs: AttrsBody,
    #[serde(rename = "Expiration", default)]
    expiration: String,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationBody {
    #[serde(rename = "Subnet", with = "text")]
    v4: Prefix4,
    #[serde(rename = "IPv6Subnet", default, with = "optional_text", skip_serializing_if = "Option::is_none")]
    v6: Option<Prefix6>,
    #[serde(rename = "PublicIP", default = "unspecified")]
    public_ip: Ipv4Addr,
}

impl From<&LeaseAttrs> for AttrsBody {
    fn from(attrs: &LeaseAttrs) -> Self {
        Self {
            public_ip: attrs.public_ip,
            public_ipv6: attrs.public_ipv6,
            backend_type: attrs.backend_type.clone(),
            backend_data: attrs.backend_data.clone(),
            backend_v6_data: attrs.backend_v6_data.clone(),
        }
    }
}

impl From<AttrsBody> for LeaseAttrs {
    fn from(body: AttrsBody) -> Self {
        Self {
            public_ip: body.public_ip,
            public_ipv6: body.public_ipv6,
            backend_type: body.backend_type,
            backend_data: body.backend_data,
            backend_v6_data: body.backend_v6_data,
            port: None,
        }
    }
}

impl LeaseBody {
    /// The body of `lease`, whose time left is counted from `now`.
    pub fn of(lease: &Lease, now: SystemTime) -> Self {
        let SubnetKey { v4, v6 } = lease.subnet;
        Self { v4, v6, attrs: AttrsBody::from(&lease.attrs), expiration: expiration(lease.ttl, now) }
    }

    /// What stands for the lease when only its subnet is known: in removals, for one.
    pub fn bare(subnet: SubnetKey) -> Self {
        let attrs = AttrsBody::from(&LeaseAttrs::udp(Ipv4Addr::UNSPECIFIED));
        Self { v4: subnet.v4, v6: subnet.v6, attrs, expiration: expiration(None, SystemTime::UNIX_EPOCH) }
    }

    /// The subnet.
    pub fn subnet(&self) -> SubnetKey {
        SubnetKey { v4: self.v4, v6: self.v6 }
    }

    /// The lease, where `now` is the time by the writer's clock. The API carries no revisions.
    pub fn into_lease(self, now: SystemTime) -> Result<Lease, String> {
        let ttl = remaining(&self.expiration, now).map_err(|error| format!("Expiration `{}`: {error}", self.expiration))?;
        Ok(Lease { subnet: self.subnet(), attrs: self.attrs.into(), ttl, revision: 0 })
    }
}

impl From<&Reservation> for ReservationBody {
    fn from(reservation: &Reservation) -> Self {
        let SubnetKey { v4, v6 } = reservation.subnet;
        Self { v4, v6, public_ip: reservation.public_ip }
    }
}

impl From<ReservationBody> for Reservation {
    fn from(body: ReservationBody) -> Self {
        Self { subnet: SubnetKey { v4: body.v4, v6: body.v6 }, public_ip: body.public_ip }
    }
}

fn unspecified() -> Ipv4Addr {
    Ipv4Addr::UNSPECIFIED
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// 2016-08-23T12:00:00Z.
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_hours(408_876)
    }

    fn round_trip(text: &str) -> Lease {
        let body: LeaseBody = serde_json::from_str(text).unwrap();
        let lease = body.into_lease(now()).unwrap();
        assert_eq!(serde_json::to_string(&LeaseBody::of(&lease, now())).unwrap(), text);
        lease
    }

    #[test]
    fn leases_as_flannel_writes_them() {
        let udp = round_trip(r#"{"Subnet":"10.1.5.0/24","Attrs":{"PublicIP":"1.1.1.1"},"Expiration":"2016-08-24T12:00:00Z"}"#);
        assert_eq!(udp.ttl, Some(Duration::from_hours(24)));
        let vxlan = r#"{"Subnet":"10.1.5.0/24","Attrs":{"PublicIP":"1.1.1.1","BackendType":"vxlan","BackendData":{"VtepMAC":"82:4b:b6:2f:54:4e"}},"Expiration":"0001-01-01T00:00:00Z"}"#;
        assert!(round_trip(vxlan).is_reservation());
        let dual = round_trip(
            r#"{"Subnet":"10.1.5.0/24","IPv6Subnet":"fd00:5::/64","Attrs":{"PublicIP":"1.1.1.1","PublicIPv6":"2001:db8::1"},"Expiration":"2016-08-24T12:00:00Z"}"#,
        );
        assert_eq!(dual.subnet.to_string(), "10.1.5.0-24&fd00:5::-64");
    }

    #[test]
    fn raw_data_is_written_compact() {
        let attrs: LeaseAttrs =
            serde_json::from_str(r#"{"PublicIP":"1.1.1.1","BackendType":"vxlan","BackendData":{ "VNI": 1 }}"#).unwrap();
        let text = serde_json::to_string(&AttrsBody::from(&attrs)).unwrap();
        assert_eq!(text, r#"{"PublicIP":"1.1.1.1","BackendType":"vxlan","BackendData":{"VNI":1}}"#);
    }

    #[test]
    fn missing_parts_are_read_as_flannel_reads_them() {
        let attrs: AttrsBody = serde_json::from_str("{}").unwrap();
        assert_eq!(LeaseAttrs::from(attrs), LeaseAttrs::udp(Ipv4Addr::UNSPECIFIED));
        assert!(serde_json::from_str::<LeaseBody>(r#"{"Subnet":"10.1.5.0","Attrs":{}}"#).is_err());
        let bare = serde_json::to_string(&LeaseBody::bare("10.1.5.0-24".parse().unwrap())).unwrap();
        assert_eq!(bare, r#"{"Subnet":"10.1.5.0/24","Attrs":{"PublicIP":"0.0.0.0"},"Expiration":"0001-01-01T00:00:00Z"}"#);
    }
}
