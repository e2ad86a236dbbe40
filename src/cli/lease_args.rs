//! What can be typed after `felt lease`.

use std::net::Ipv4Addr;

use clap::{Args, Subcommand};

use super::registry_args::RegistryArgs;
use crate::lease::{SubnetKey, check_public_ip};
use crate::net::Prefix4;

/// What can be done with leases.
#[derive(Debug, Subcommand)]
pub enum LeaseCommand {
    /// List the leases: who holds which subnet, and for how long
    ///
    /// A registry server may not know how long a lease lasts that it has not granted itself; then the time left is the most it
    /// can be.
    #[command(args_override_self = true)]
    List(ListArgs),
    /// Print the leases there are, and then each change as it comes
    ///
    /// Goes on until it is interrupted, also while the registry is away.
    #[command(args_override_self = true)]
    Watch(ListArgs),
    /// Keep a subnet for a node, without an end
    ///
    /// If the node holds a lease of it already, that becomes the reservation.
    #[command(args_override_self = true)]
    Reserve {
        /// The subnet to keep, such as 10.5.1.0/24
        #[arg(value_parser = subnet)]
        subnet: SubnetKey,
        /// The node to keep it for, by the address it announces
        #[arg(value_parser = node)]
        public_ip: Ipv4Addr,
        /// Where the leases are.
        #[command(flatten)]
        registry: Box<RegistryArgs>,
    },
    /// Let a reservation end: it lasts one lease time more, unless its node renews it
    #[command(args_override_self = true)]
    Unreserve(SubnetArgs),
    /// Take a lease or reservation away
    ///
    /// A node that runs on it stops forwarding and asks for a subnet again, this one first; it gets another if somebody
    /// else was faster. Meant for leases of nodes that are gone.
    #[command(args_override_self = true)]
    Revoke(SubnetArgs),
}

/// What is to be shown.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// As JSON, for programs: a list, or with `watch` one object a line
    #[arg(long)]
    pub json: bool,
    /// Where the leases are.
    #[command(flatten)]
    pub registry: Box<RegistryArgs>,
}

/// One subnet.
#[derive(Debug, Args)]
pub struct SubnetArgs {
    /// The subnet, such as 10.5.1.0/24
    #[arg(value_parser = subnet)]
    pub subnet: SubnetKey,
    /// Where the leases are.
    #[command(flatten)]
    pub registry: Box<RegistryArgs>,
}

/// A subnet as people write it, or as registries do.
fn subnet(text: &str) -> Result<SubnetKey, String> {
    if !text.contains('/') {
        return text.parse().map_err(|error| format!("{error}"));
    }
    let prefix = Prefix4::exact(text).map_err(|error| error.to_string())?;
    // No registry has a name for longer or shorter ones.
    let key = SubnetKey::from(prefix).to_string().parse();
    key.map_err(|_| format!("expected a prefix length from 1 to 31, found {}", prefix.len()))
}

/// The address of a node.
fn node(text: &str) -> Result<Ipv4Addr, String> {
    let address = text.parse().map_err(|_| "expected an IPv4 address such as 192.0.2.1".to_owned())?;
    check_public_ip(address).map_err(|_| "expected the address of one node, found none that a node can have".to_owned())?;
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_is_read_in_either_spelling_and_never_bent_into_one() {
        for text in ["10.5.1.0/24", "10.5.1.0-24"] {
            assert_eq!(subnet(text).unwrap().to_string(), "10.5.1.0-24");
        }
        assert_eq!(subnet("10.5.1.0-24&fd00:5::-64").unwrap().to_string(), "10.5.1.0-24&fd00:5::-64");
        for (text, part) in [
            ("10.5.1.7/24", "expected a subnet such as 10.5.1.0/24"),
            ("10.5.1.0/32", "from 1 to 31"),
            ("0.0.0.0/0", "from 1 to 31"),
            ("10.5.1.0/33", "0 to 32"),
            ("10.5.1.7-24", "host bits"),
            ("10.5.1.0", "no `-LENGTH`"),
            ("x/24", "IPv4 network"),
        ] {
            let error = subnet(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_node_has_an_address_of_its_own() {
        assert_eq!(node("192.0.2.1"), Ok(Ipv4Addr::new(192, 0, 2, 1)));
        for text in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "node1", "fd00::1"] {
            assert!(node(text).unwrap_err().starts_with("expected"), "{text}");
        }
    }
}
