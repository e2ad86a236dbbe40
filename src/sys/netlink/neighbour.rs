//! Who is behind which hardware address: neighbour entries, and the forwarding entries of vxlan devices.

use std::fmt;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::address::family_of;
use super::{Netlink, NetlinkError};

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HardwareAddress(pub [u8; 6]);

impl fmt::Display for HardwareAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.map(|byte| format!("{byte:02x}"));
        f.write_str(&bytes.join(":"))
    }
}

impl Netlink {
    /// The Ethernet address of a device; `None` for devices without one, such as TUN devices, or if there is no such device.
    pub fn hardware_address(&self, device: u32) -> Result<Option<HardwareAddress>, NetlinkError> {
        let mut request = LinkMessage::default();
        request.header.index = device;
        let answer = self.ask(RouteNetlinkMessage::GetLink(request), || format!("read the hardware address of device {device}"));
        let message = match answer {
            Ok(Some(RouteNetlinkMessage::NewLink(message))) => message,
            Ok(_) => return Ok(None),
            Err(error) if error.is_no_device() => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(message.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Address(bytes) => bytes.as_slice().try_into().ok().map(HardwareAddress),
            _ => None,
        }))
    }

    /// Notes for good that `address`, on the link of `device`, has this hardware address: no ARP asks for it any more.
    pub fn set_neighbour(&self, device: u32, address: IpAddr, hardware: HardwareAddress) -> Result<(), NetlinkError> {
        let mut entry = permanent(device, hardware);
        entry.header.family = family_of(address);
        entry.attributes.push(NeighbourAttribute::Destination(address.into()));
        self.put(entry, || format!("note that {address} is {hardware} on {}", self.device_name(device)))
    }

    /// Notes for good that frames to this hardware address leave the vxlan device `device` in datagrams to `destination`, as
    /// `bridge fdb replace HARDWARE dev DEVICE dst DESTINATION` does.
    pub fn set_forwarding(&self, device: u32, hardware: HardwareAddress, destination: IpAddr) -> Result<(), NetlinkError> {
        let mut entry = permanent(device, hardware);
        entry.header.family = AddressFamily::Bridge;
        // The device's own table, not that of a bridge it may be a port of.
        entry.header.flags = NeighbourFlags::Own;
        entry.attributes.push(NeighbourAttribute::Destination(destination.into()));
        self.put(entry, || format!("forward {hardware} to {destination} on {}", self.device_name(device)))
    }

    fn put(&self, entry: NeighbourMessage, attempt: impl FnOnce() -> String) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::NewNeighbour(entry), NLM_F_CREATE | NLM_F_REPLACE, attempt)
    }
}

fn permanent(device: u32, hardware: HardwareAddress) -> NeighbourMessage {
    let mut entry = NeighbourMessage::default();
    entry.header.ifindex = device;
    entry.header.state = NeighbourState::Permanent;
    entry.attributes.push(NeighbourAttribute::LinkLayerAddress(hardware.0.to_vec()));
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_written_as_flannel_writes_them() {
        assert_eq!(HardwareAddress([0xc6, 0xd2, 0x32, 0x6f, 0x8f, 4]).to_string(), "c6:d2:32:6f:8f:04");
    }
}
