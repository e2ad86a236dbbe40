//! The network that named peers make: its config, and which peers fit into it.

use std::io;
use std::path::PathBuf;

use super::peer::{Peer, PeerError};
use crate::lease::NetworkConfig;
use crate::net::Prefix4;

/// A network is larger than a subnet by so many bits at least: it has room for four of them.
const SPARE_BITS: u8 = 2;

/// The shortest prefix that is taken for a network unless somebody says so: larger ones are no block of private addresses.
const WIDEST: u8 = 8;

/// What a node without a store is told. Plain values, not yet held against each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticPlan {
    /// Our own subnet.
    pub subnet: Prefix4,
    /// The overlay network; `None`: the smallest that holds all subnets.
    pub network: Option<Prefix4>,
    /// The port we listen on, and peers that do not say otherwise.
    pub port: u16,
    /// The peers that were typed.
    pub peers: Vec<Peer>,
    /// A file of more of them, to be followed. Takes a `network`, for what it will hold is not known.
    pub file: Option<PathBuf>,
}

/// Why named peers make no network. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum StaticError {
    /// A file of peers may come to hold anything.
    #[error("--peers-file is followed while the node runs, and the network is not: give --network, which all subnets lie in")]
    NoNetwork,
    /// The subnets are too far apart.
    #[error(
        "the smallest network that holds all subnets would be {smallest}, which would take too many addresses from this host; \
         give --network, or subnets of one network"
    )]
    TooWide { smallest: Prefix4 },
    /// The network is none, or our subnet is none of it.
    #[error("--subnet {subnet} in network {network}: {reason}")]
    Network { subnet: Prefix4, network: Prefix4, reason: String },
    /// A peer does not fit.
    #[error("{place}: {reason}")]
    Peer { place: String, reason: String },
    /// A line is none.
    #[error("{place}: {error}")]
    Line { place: String, error: PeerError },
    /// The file cannot be read.
    #[error("peers file {file}: {source}; expected lines of SUBNET ADDRESS[:PORT]")]
    File { file: String, source: io::Error },
}

/// A peer, and where it was named.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub peer: Peer,
    pub place: String,
}

/// The network, as a node goes by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StaticNetwork {
    pub own: Prefix4,
    network: Prefix4,
    port: u16,
}

impl StaticPlan {
    /// The peers that were typed, each with its place.
    pub(super) fn typed(&self) -> impl Iterator<Item = Placed> {
        self.peers.iter().map(|peer| Placed { peer: *peer, place: format!("--peer {peer}") })
    }
}

impl StaticNetwork {
    /// The network of `plan`.
    pub(super) fn new(plan: &StaticPlan) -> Result<Self, StaticError> {
        let network = match plan.network {
            Some(network) => network,
            None if plan.file.is_some() => return Err(StaticError::NoNetwork),
            None => smallest(plan)?,
        };
        let made = Self { own: plan.subnet, network, port: plan.port };
        made.understood().map(|()| made).map_err(|reason| StaticError::Network { subnet: plan.subnet, network, reason })
    }

    /// The network config that says so.
    pub(super) fn config(&self) -> String {
        let (network, base, len) = (self.network, self.own.base(), self.own.len());
        let backend = format!(r#"{{"Type":"udp","Port":{}}}"#, self.port);
        format!(r#"{{"Network":"{network}","SubnetMin":"{base}","SubnetMax":"{base}","SubnetLen":{len},"Backend":{backend}}}"#)
    }

    /// Looks whether `peers` can be peers of one node, all of them.
    pub(super) fn check(&self, peers: &[Placed]) -> Result<(), StaticError> {
        for Placed { peer, place } in peers {
            let refuse = |reason| Err(StaticError::Peer { place: place.clone(), reason });
            if peer.subnet.overlaps(&self.own) {
                return refuse(format!("{} is our own subnet {}, or part of it; leave this node out", peer.subnet, self.own));
            }
            if !self.network.covers(&peer.subnet) {
                return refuse(format!("{} lies outside the network {}; give a larger --network", peer.subnet, self.network));
            }
            if self.network.contains(peer.address) {
                return refuse(format!(
                    "{} lies inside the overlay {}, where packets would loop; give the address of the node on the underlay",
                    peer.address, self.network
                ));
            }
        }
        // In this order, whatever holds or repeats another comes right before one that it shares addresses with.
        let mut sorted: Vec<&Placed> = peers.iter().collect();
        sorted.sort_by_key(|placed| placed.peer.subnet);
        match sorted.iter().zip(sorted.iter().skip(1)).find(|(one, next)| one.peer.subnet.overlaps(&next.peer.subnet)) {
            None => Ok(()),
            Some((one, next)) => Err(StaticError::Peer {
                place: next.place.clone(),
                reason: format!("{} shares addresses with {} of {}; leave one out", next.peer.subnet, one.peer.subnet, one.place),
            }),
        }
    }

    fn understood(&self) -> Result<(), String> {
        if !self.network.covers(&self.own) {
            return Err("expected a subnet of that network".to_owned());
        }
        NetworkConfig::parse(&self.config()).map(drop).map_err(|error| error.to_string())
    }
}

/// The smallest network with room for our subnet and all peers'.
fn smallest(plan: &StaticPlan) -> Result<Prefix4, StaticError> {
    let longest = plan.subnet.len().saturating_sub(SPARE_BITS);
    let around = (0..=longest).rev().filter_map(|len| Prefix4::new(plan.subnet.base(), len).ok());
    let holds_all = |network: &Prefix4| plan.peers.iter().all(|peer| network.covers(&peer.subnet));
    let smallest = around.into_iter().find(holds_all).unwrap_or(plan.subnet);
    if smallest.len() < WIDEST { Err(StaticError::TooWide { smallest }) } else { Ok(smallest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(subnet: &str, network: Option<&str>, peers: &[&str]) -> StaticPlan {
        StaticPlan {
            subnet: subnet.parse().unwrap(),
            network: network.map(|network| network.parse().unwrap()),
            port: 9000,
            peers: peers.iter().map(|peer| peer.parse().unwrap()).collect(),
            file: None,
        }
    }

    fn refusal(plan: &StaticPlan) -> String {
        let placed: Vec<_> = plan.typed().collect();
        StaticNetwork::new(plan).and_then(|network| network.check(&placed)).unwrap_err().to_string()
    }

    #[test]
    fn the_network_is_the_smallest_that_holds_all_unless_told() {
        let network = |plan: &StaticPlan| StaticNetwork::new(plan).unwrap().network.to_string();
        assert_eq!(network(&plan("10.5.1.0/24", None, &["10.5.2.0/24=192.0.2.7"])), "10.5.0.0/22");
        assert_eq!(
            network(&plan("10.5.1.0/24", None, &["10.5.0.0/24=192.0.2.7"])),
            "10.5.0.0/22",
            "never less than four subnets"
        );
        assert_eq!(network(&plan("10.5.1.0/24", None, &["10.5.200.0/25=192.0.2.7", "10.5.9.0/24=192.0.2.8"])), "10.5.0.0/16");
        assert_eq!(network(&plan("10.5.1.0/24", Some("10.4.0.0/14"), &["10.5.2.0/24=192.0.2.7"])), "10.4.0.0/14");
        let far = plan("10.5.1.0/24", None, &["172.16.1.0/24=192.0.2.7"]);
        assert!(refusal(&far).contains("would be 0.0.0.0/0") && refusal(&far).contains("--network"));
        let file = StaticPlan { file: Some("f".into()), ..plan("10.5.1.0/24", None, &[]) };
        assert!(matches!(StaticNetwork::new(&file), Err(StaticError::NoNetwork)));
    }

    #[test]
    fn the_config_offers_our_subnet_and_no_other() {
        let network = StaticNetwork::new(&plan("10.5.1.0/24", None, &["10.5.2.0/24=192.0.2.7"])).unwrap();
        let range = NetworkConfig::parse(&network.config()).unwrap().ipv4.unwrap();
        assert!(range.admits(&"10.5.1.0/24".parse().unwrap()) && !range.admits(&"10.5.2.0/24".parse().unwrap()));
        assert!(network.config().ends_with(r#""SubnetLen":24,"Backend":{"Type":"udp","Port":9000}}"#));
    }

    #[test]
    fn what_does_not_fit_together_is_refused_with_its_place() {
        for (subnet, network, peers, parts) in [
            (
                "10.5.1.0/24",
                Some("10.6.0.0/16"),
                &[][..],
                ["--subnet 10.5.1.0/24 in network 10.6.0.0/16", "subnet of that network"],
            ),
            ("10.5.1.0/24", Some("10.5.0.0/23"), &[], ["10.5.0.0/23", "SubnetLen"]),
            ("10.5.1.0/31", Some("10.5.0.0/16"), &[], ["10.5.1.0/31", "SubnetLen"]),
            ("10.5.1.0/24", None, &["10.5.1.0/24=192.0.2.7"], ["--peer 10.5.1.0/24=192.0.2.7", "our own subnet"]),
            ("10.5.1.0/24", None, &["10.5.1.128/25=192.0.2.7"], ["10.5.1.128/25 is our own subnet 10.5.1.0/24", "part of it"]),
            ("10.5.1.0/24", None, &["10.5.2.0/24=10.5.3.1"], ["10.5.3.1 lies inside the overlay 10.5.0.0/22", "loop"]),
            ("10.5.1.0/24", Some("10.5.0.0/16"), &["10.9.2.0/24=192.0.2.7"], ["outside the network 10.5.0.0/16", "--network"]),
            (
                "10.5.1.0/24",
                None,
                &["10.5.2.0/24=192.0.2.7", "10.5.2.0/24=192.0.2.8"],
                ["--peer 10.5.2.0/24=192.0.2.8", "shares addresses with 10.5.2.0/24 of --peer 10.5.2.0/24=192.0.2.7"],
            ),
            (
                "10.5.1.0/24",
                None,
                &["10.5.2.64/26=192.0.2.9", "10.5.3.0/24=192.0.2.7", "10.5.2.0/24=192.0.2.8"],
                ["--peer 10.5.2.64/26=192.0.2.9", "shares addresses with 10.5.2.0/24"],
            ),
        ] {
            let refusal = refusal(&plan(subnet, network, peers));
            assert!(parts.iter().all(|part| refusal.contains(part)), "{parts:?}: {refusal}");
        }
    }
}
