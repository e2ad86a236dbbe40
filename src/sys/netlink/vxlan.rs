//! The kernel's own vxlan devices.
//!
//! What is not said here is the kernel's default: the UDP checksum of the outer IPv4 packet is filled in, source ports come from
//! the flow's hash, TTL is the host's.

use std::net::Ipv4Addr;

use netlink_packet_route::link::{InfoData, InfoKind, InfoVxlan};

use super::{Link, Netlink, NetlinkError};

/// A vxlan device over IPv4, to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VxlanDevice {
    /// The virtual network's number, 24 bits.
    pub vni: u32,
    /// Index of the device that the outer packets leave by; the new device's MTU is this one's less 50 bytes.
    pub underlay: u32,
    /// Source address of the outer packets.
    pub local: Ipv4Addr,
    /// UDP port, of both ends.
    pub port: u16,
    /// Whether it learns from what comes in where hardware addresses are; without, only the entries count that are put there.
    pub learning: bool,
}

impl Netlink {
    /// Creates a vxlan device with a random, locally administered hardware address.
    ///
    /// # Errors
    /// On a kernel without vxlan, one that [is unsupported](NetlinkError::is_unsupported).
    pub fn create_vxlan(&self, name: &str, device: VxlanDevice) -> Result<Link, NetlinkError> {
        let data = vec![
            InfoVxlan::Id(device.vni),
            InfoVxlan::Link(device.underlay),
            InfoVxlan::Local(device.local),
            InfoVxlan::Learning(device.learning),
            InfoVxlan::Port(device.port),
        ];
        self.create(name, InfoKind::Vxlan, Some(InfoData::Vxlan(data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_the_kernel_lacks_is_told_from_other_refusals() {
        let netlink = Netlink::open().unwrap();
        let error = netlink.create("felt-none", InfoKind::Other("no-such-kind".to_owned()), None).unwrap_err();
        assert!(error.is_unsupported(), "{error}");
        let error = netlink.create("a/b", InfoKind::Vxlan, None).unwrap_err();
        assert!(!error.is_unsupported(), "{error}");
    }
}
