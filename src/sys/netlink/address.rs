//! Addresses of devices.

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{Netlink, NetlinkError};

/// An address on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "the kernel's own flags, told apart by name")]
pub struct LinkAddress {
    /// Index of the device.
    pub device: u32,
    /// The address itself, host bits and all, and the length of the prefix that is on the link.
    pub address: IpNetwork,
    /// Valid no further than this link (169.254/16, `fe80::/10`).
    pub link_scope: bool,
    /// Valid no further than this host (127/8).
    pub host_scope: bool,
    /// Has no lifetime.
    pub permanent: bool,
    /// To be avoided for new connections.
    pub deprecated: bool,
    /// IPv4: not the first of its prefix on this device. IPv6: a privacy address.
    pub secondary: bool,
    /// IPv6: not yet known to be unique.
    pub tentative: bool,
}

impl Netlink {
    /// Every address of every device, IPv4 first, in the kernel's order within each device.
    pub fn addresses(&self) -> Result<Vec<LinkAddress>, NetlinkError> {
        let mut all = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = AddressMessage::default();
            request.header.family = family;
            match self.dump(&RouteNetlinkMessage::GetAddress(request), "list addresses") {
                Ok(found) => all.extend(found.iter().filter_map(as_address)),
                // A kernel without IPv6.
                Err(error) if family == AddressFamily::Inet6 && error.errno() == Some(libc::EOPNOTSUPP) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Puts `address` on the device.
    pub fn add_address(&self, device: u32, address: IpNetwork) -> Result<(), NetlinkError> {
        let request = RouteNetlinkMessage::NewAddress(message(device, address));
        self.change(request, NLM_F_CREATE | NLM_F_EXCL, || format!("add address {address} to {}", self.device_name(device)))
    }

    /// Takes `address` off the device.
    pub fn delete_address(&self, device: u32, address: IpNetwork) -> Result<(), NetlinkError> {
        let request = RouteNetlinkMessage::DelAddress(message(device, address));
        self.change(request, 0, || format!("delete address {address} from {}", self.device_name(device)))
    }
}

/// The address a message tells of.
pub(super) fn as_address(message: &RouteNetlinkMessage) -> Option<LinkAddress> {
    let (RouteNetlinkMessage::NewAddress(message) | RouteNetlinkMessage::DelAddress(message)) = message else { return None };
    let (mut address, mut local) = (None, None);
    let mut flags = AddressFlags::from_bits_retain(u32::from(message.header.flags.bits()));
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Address(found) => address = Some(*found),
            AddressAttribute::Local(found) => local = Some(*found),
            AddressAttribute::Flags(found) => flags = *found,
            _ => {}
        }
    }
    // On a point-to-point link IFA_ADDRESS is the other end; IPv6 leaves IFA_LOCAL out otherwise.
    let address = IpNetwork::new(local.or(address)?, message.header.prefix_len).ok()?;
    Some(LinkAddress {
        device: message.header.index,
        address,
        link_scope: message.header.scope == AddressScope::Link,
        host_scope: message.header.scope == AddressScope::Host,
        permanent: flags.contains(AddressFlags::Permanent),
        deprecated: flags.contains(AddressFlags::Deprecated),
        secondary: flags.contains(AddressFlags::Secondary),
        tentative: flags.contains(AddressFlags::Tentative),
    })
}

fn message(device: u32, address: IpNetwork) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.index = device;
    message.header.prefix_len = address.prefix();
    message.header.family = family_of(address.ip());
    message.attributes.extend([AddressAttribute::Local(address.ip()), AddressAttribute::Address(address.ip())]);
    message
}

pub(super) fn family_of(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}
