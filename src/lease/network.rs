//! One family's share of a network: the range that subnets are cut from, and the rules of cutting.
//!
//! Source of the rules: flannel 0.20 and later (`CheckNetworkConfig`), plus refusals of networks that would harm the host.

use super::config::ConfigError;
use crate::net::{Address, Prefix};

/// A network cut into equal subnets, of which those from `min` to `max` may be leased.
///
/// Invariants (kept by the config's validation): `min` and `max` lie inside `network` and on subnet borders, `min <= max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubnetRange<A> {
    /// The whole overlay network.
    pub network: Prefix<A>,
    /// Prefix length of each subnet.
    pub subnet_len: u8,
    /// Base address of the first subnet that may be leased.
    pub min: A,
    /// Base address of the last subnet that may be leased.
    pub max: A,
}

/// What a config says of one family, read but not yet checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeRequest<A> {
    pub network: Option<Prefix<A>>,
    pub subnet_len: Option<u64>,
    pub min: Option<A>,
    pub max: Option<A>,
}

/// The config's keys of one family and what is particular to it.
#[derive(Debug)]
pub(super) struct RangeRules {
    pub network_key: &'static str,
    pub len_key: &'static str,
    pub min_key: &'static str,
    pub max_key: &'static str,
    /// Subnet length where the network has room for it.
    pub usual_len: u8,
    /// Longest subnet there may be: four addresses.
    pub longest_len: u8,
    /// A network to show in messages.
    pub example: &'static str,
    /// Blocks whose routes a host cannot give away.
    pub untouchable: &'static [&'static str],
}

/// The keys `Network`, `SubnetLen`, `SubnetMin`, `SubnetMax`.
pub(super) const IPV4_RULES: RangeRules = RangeRules {
    network_key: "Network",
    len_key: "SubnetLen",
    min_key: "SubnetMin",
    max_key: "SubnetMax",
    usual_len: 24,
    longest_len: 30,
    example: "10.5.0.0/16",
    untouchable: &["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4"],
};

/// The same with `IPv6` before.
pub(super) const IPV6_RULES: RangeRules = RangeRules {
    network_key: "IPv6Network",
    len_key: "IPv6SubnetLen",
    min_key: "IPv6SubnetMin",
    max_key: "IPv6SubnetMax",
    usual_len: 64,
    longest_len: 126,
    example: "fd00:5::/48",
    untouchable: &["::/96", "fe80::/10", "ff00::/8"],
};

/// A network has room for four subnets at least.
const SPARE_BITS: u8 = 2;

impl<A: Address> SubnetRange<A> {
    /// Whether `subnet` is one that this network may lease out.
    #[must_use]
    pub fn admits(&self, subnet: &Prefix<A>) -> bool {
        subnet.len() == self.subnet_len && self.min <= subnet.base() && subnet.base() <= self.max
    }

    /// Whether `prefix` has addresses of any subnet that may be leased out.
    #[must_use]
    pub fn touches(&self, prefix: &Prefix<A>) -> bool {
        let last = Prefix::new(self.max, self.subnet_len).map_or(self.max, |subnet| subnet.last());
        self.min <= prefix.last() && prefix.base() <= last
    }

    /// Fills in what `request` leaves open and checks the whole; the first fault found is the error.
    pub(super) fn cut(request: RangeRequest<A>, rules: &RangeRules) -> Result<Self, ConfigError> {
        let network = usable_network(request.network, rules)?;
        let subnet_len = subnet_len(network, request.subnet_len, rules)?;
        let size = 1u128 << (A::BITS - subnet_len);
        // The first subnet stays unused unless asked for: older nodes put its base address on their device.
        let min = match request.min {
            Some(min) => border(min, network, subnet_len, rules.min_key)?,
            None => A::from_number(network.base().to_number() + size),
        };
        let max = match request.max {
            Some(max) => border(max, network, subnet_len, rules.max_key)?,
            None => A::from_number(network.last().to_number() - (size - 1)),
        };
        if min > max {
            return Err(ConfigError::Value {
                key: rules.min_key,
                expected: format!("an address not above {}, which is {max}", rules.max_key),
                found: min.to_string(),
                remedy: "swap them or leave both out".into(),
            });
        }
        Ok(Self { network, subnet_len, min, max })
    }
}

fn usable_network<A: Address>(network: Option<Prefix<A>>, rules: &RangeRules) -> Result<Prefix<A>, ConfigError> {
    // Flannel takes the whole address space for "not set".
    let network = network.filter(|network| network.len() > 0).ok_or(ConfigError::Missing {
        key: rules.network_key,
        remedy: format!("add the overlay's network, such as \"{}\":\"{}\"", rules.network_key, rules.example),
    })?;
    let taken = rules.untouchable.iter().filter_map(|block| block.parse::<Prefix<A>>().ok());
    match taken.into_iter().find(|block| block.overlaps(&network)) {
        None => Ok(network),
        Some(block) => Err(ConfigError::Value {
            key: rules.network_key,
            expected: "a network of ordinary unicast addresses".into(),
            found: format!("{network}, which overlaps {block}"),
            remedy: format!("use private addresses, such as {}", rules.example),
        }),
    }
}

fn subnet_len<A: Address>(network: Prefix<A>, given: Option<u64>, rules: &RangeRules) -> Result<u8, ConfigError> {
    let shortest = network.len() + SPARE_BITS;
    if shortest > rules.longest_len {
        return Err(ConfigError::Value {
            key: rules.network_key,
            expected: format!("a network of /{} or larger, which has room for four subnets", rules.longest_len - SPARE_BITS),
            found: network.to_string(),
            remedy: format!("use a larger network, such as {}", rules.example),
        });
    }
    match given {
        None => Ok(shortest.max(rules.usual_len.min(rules.longest_len))),
        Some(len) => {
            u8::try_from(len).ok().filter(|len| (shortest..=rules.longest_len).contains(len)).ok_or_else(|| ConfigError::Value {
                key: rules.len_key,
                expected: format!("a length from {shortest} (four subnets in {network}) to {}", rules.longest_len),
                found: len.to_string(),
                remedy: format!("leave `{}` out for {}", rules.len_key, shortest.max(rules.usual_len)),
            })
        }
    }
}

fn border<A: Address>(address: A, network: Prefix<A>, subnet_len: u8, key: &'static str) -> Result<A, ConfigError> {
    let wrong = |expected: String| ConfigError::Value {
        key,
        expected,
        found: address.to_string(),
        remedy: format!("leave `{key}` out to take what the network gives"),
    };
    if !network.contains(address) {
        return Err(wrong(format!("an address inside the network {network}")));
    }
    match Prefix::new(address, subnet_len) {
        Ok(subnet) if subnet.base() == address => Ok(address),
        Ok(subnet) => Err(wrong(format!("the first address of a /{subnet_len} subnet, such as {}", subnet.base()))),
        Err(_) => Err(wrong(format!("the first address of a /{subnet_len} subnet"))),
    }
}
