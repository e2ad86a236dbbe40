//! Where things are kept in etcd. Source: flannel's key layout; `nodes` is ours and outside of what flannel reads.

use crate::lease::{KeyError, SubnetKey};

/// The keys below one prefix, which has one leading slash, none doubled and none trailing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    /// The keys below `prefix`, however it is spelled: flannel joined it as given and so read another key than was written.
    pub(super) fn below(prefix: &str) -> Self {
        Self { prefix: prefix.split('/').filter(|part| !part.is_empty()).flat_map(|part| ["/", part]).collect() }
    }

    pub(super) fn prefix(&self) -> &str {
        if self.prefix.is_empty() { "/" } else { &self.prefix }
    }

    pub(super) fn config(&self) -> String {
        format!("{}/config", self.prefix)
    }

    /// What all lease keys start with. Ends in a slash, so that `subnets-old/…` is not among them.
    pub(super) fn leases(&self) -> String {
        format!("{}/subnets/", self.prefix)
    }

    pub(super) fn lease(&self, subnet: &SubnetKey) -> String {
        format!("{}/subnets/{subnet}", self.prefix)
    }

    /// What all notes start with.
    pub(super) fn nodes(&self) -> String {
        format!("{}/nodes/", self.prefix)
    }

    /// Where the node that holds a lease is noted.
    pub(super) fn node(&self, subnet: &SubnetKey) -> String {
        format!("{}/nodes/{subnet}", self.prefix)
    }

    /// What all policy objects' keys start with.
    pub(super) fn policies(&self) -> String {
        format!("{}/policy/", self.prefix)
    }

    /// The subnet a lease key names.
    pub(super) fn subnet(&self, key: &[u8]) -> Result<SubnetKey, KeyError> {
        let text = String::from_utf8_lossy(key);
        text.strip_prefix(&self.leases()).unwrap_or(&text).parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_prefix_means_the_same_keys() {
        for prefix in ["coreos.com/network", "/coreos.com/network", "/coreos.com/network/", "//coreos.com//network"] {
            let keys = Keys::below(prefix);
            assert_eq!(keys.prefix(), "/coreos.com/network");
            assert_eq!(keys.config(), "/coreos.com/network/config");
            assert_eq!(keys.leases(), "/coreos.com/network/subnets/");
        }
        assert_eq!((Keys::below("/").prefix(), Keys::below("").config().as_str()), ("/", "/config"));
    }

    #[test]
    fn lease_keys_are_flannels() {
        let keys = Keys::below("/coreos.com/network");
        for name in ["10.1.5.0-24", "10.12.13.0-24&fd00:12:13::-56"] {
            let subnet: SubnetKey = name.parse().unwrap();
            let key = keys.lease(&subnet);
            assert_eq!(key, format!("/coreos.com/network/subnets/{name}"));
            assert_eq!(keys.subnet(key.as_bytes()).unwrap(), subnet);
            assert!(!keys.node(&subnet).starts_with("/coreos.com/network/subnets"));
        }
        for name in ["10.1.5.0-24junk", "10.1.5.7-24", "x/10.1.5.0-24", "", "\u{fffd}"] {
            keys.subnet(format!("/coreos.com/network/subnets/{name}").as_bytes()).unwrap_err();
        }
        keys.subnet(b"/coreos.com/network/subnets/\xff\xfe").unwrap_err();
    }
}
