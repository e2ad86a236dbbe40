//! What kind of error an answer is, for our own clients: a header beside flannel's bare text.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::control::registry::RegistryError;

/// The header's name; its value is an [`ErrorDetail`] as JSON.
pub const ERROR_HEADER: &str = "felt-error";

/// A [`RegistryError`] that survives the journey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the fields are those of RegistryError")]
pub enum ErrorDetail {
    /// The lease to renew is gone.
    Lost,
    /// See [`RegistryError::Unreachable`].
    Unreachable { registry: String, reason: String },
    /// See [`RegistryError::NoConfig`].
    NoConfig { place: String },
    /// See [`RegistryError::BadConfig`].
    BadConfig { reason: String },
    /// See [`RegistryError::OutOfSubnets`].
    OutOfSubnets { range: String },
    /// See [`RegistryError::Taken`].
    Taken { subnet: String, holder: String },
    /// See [`RegistryError::DuplicatePublicIp`].
    DuplicatePublicIp { public_ip: Ipv4Addr, other: String, subnet: String },
    /// See [`RegistryError::Raced`].
    Raced { attempts: u32 },
    /// See [`RegistryError::Unsupported`].
    Unsupported { reason: String },
}

impl ErrorDetail {
    /// The detail of `error`, if its kind means something to the other side.
    pub fn of(error: &RegistryError) -> Option<Self> {
        Some(match error {
            RegistryError::Unreachable { registry, reason } => {
                Self::Unreachable { registry: registry.clone(), reason: reason.clone() }
            }
            RegistryError::NoConfig { place } => Self::NoConfig { place: place.clone() },
            RegistryError::BadConfig(reason) => Self::BadConfig { reason: reason.clone() },
            RegistryError::OutOfSubnets { range } => Self::OutOfSubnets { range: range.clone() },
            RegistryError::Taken { subnet, holder } => Self::Taken { subnet: subnet.clone(), holder: holder.clone() },
            RegistryError::DuplicatePublicIp { public_ip, other, subnet } => {
                Self::DuplicatePublicIp { public_ip: *public_ip, other: other.clone(), subnet: subnet.clone() }
            }
            RegistryError::Raced { attempts } => Self::Raced { attempts: *attempts },
            RegistryError::Unsupported(reason) => Self::Unsupported { reason: reason.clone() },
            // The server's own trouble with its registry: the text says it.
            RegistryError::Denied { .. } | RegistryError::Refused { .. } | RegistryError::Protocol { .. } => return None,
        })
    }

    /// The error again; `None` for [`ErrorDetail::Lost`], which is an answer to a renewal and no error.
    pub fn into_error(self) -> Option<RegistryError> {
        Some(match self {
            Self::Lost => return None,
            Self::Unreachable { registry, reason } => RegistryError::Unreachable { registry, reason },
            Self::NoConfig { place } => RegistryError::NoConfig { place },
            Self::BadConfig { reason } => RegistryError::BadConfig(reason),
            Self::OutOfSubnets { range } => RegistryError::OutOfSubnets { range },
            Self::Taken { subnet, holder } => RegistryError::Taken { subnet, holder },
            Self::DuplicatePublicIp { public_ip, other, subnet } => RegistryError::DuplicatePublicIp { public_ip, other, subnet },
            Self::Raced { attempts } => RegistryError::Raced { attempts },
            Self::Unsupported { reason } => RegistryError::Unsupported(reason),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_the_journey() {
        let error = RegistryError::Taken { subnet: "10.1.5.0-24".into(), holder: "1.1.1.1".into() };
        let text = serde_json::to_string(&ErrorDetail::of(&error).unwrap()).unwrap();
        assert_eq!(text, r#"{"kind":"taken","subnet":"10.1.5.0-24","holder":"1.1.1.1"}"#);
        let back = serde_json::from_str::<ErrorDetail>(&text).unwrap().into_error().unwrap();
        assert_eq!(back.to_string(), error.to_string());
    }
}
