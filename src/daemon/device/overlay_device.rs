//! Making the device, or taking it over, and removing it.

use std::net::Ipv4Addr;

use super::{overlap, settle};
use crate::net::Prefix4;
use crate::sys::netlink::{Link, LinkKind, Netlink, NetlinkError};
use crate::sys::tun::{Multiqueue, TunError, TunQueue};

/// What tells our own devices from ones that were prepared for us.
const ALIAS: &str = "felt overlay";

/// The state the device shall have.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name, or a template with one `%d`.
    pub name: String,
    /// The overlay network: all of it is routed into the device.
    pub network: Prefix4,
    /// Our own subnet; its base address is the device's, as a /32 (R24: a wider one would make the kernel answer for
    /// the network's first subnet as a broadcast address).
    pub subnet: Prefix4,
    /// Largest inner packet, in bytes.
    pub mtu: u32,
    /// Queues wanted, at least one.
    pub queues: usize,
    /// Whether super-packets may pass, where the kernel has them.
    pub offloads: bool,
    /// Index of the external interface.
    pub underlay: u32,
}

/// The device could not be brought into its state.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum DeviceError {
    /// The overlay network is somebody else's here. Nothing was touched.
    #[error(
        "the overlay network {network} overlaps {found} of this host, which would be cut off: choose another Network in the \
         network config, or remove what overlaps"
    )]
    Overlap { network: Prefix4, found: String },
    /// The device was there and is not any more.
    #[error("the overlay's device {name} has been removed")]
    Gone { name: String },
    /// A queue could not be opened.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// The kernel refused a change.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

/// The device, up and routed.
#[derive(Debug)]
pub struct OverlayDevice {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its queues: as many as planned, or one when an existing device cannot have more.
    pub queues: Vec<TunQueue>,
    /// Made by us, now or in an earlier run; not prepared by somebody else.
    pub ours: bool,
}

impl Plan {
    /// The device's address.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.subnet.base()
    }
}

impl OverlayDevice {
    /// Makes the device, or takes over the one left behind, and brings it into the state of `plan`.
    pub fn bring_up(plan: &Plan, netlink: &Netlink) -> Result<Self, DeviceError> {
        let links = netlink.links()?;
        let (name, existing) = existing(plan, &links, netlink)?;
        overlap::check(plan, existing.map(|link| link.index), netlink)?;
        // A device with several queues lets anybody attach one more, and its packets would be shared out.
        if existing.is_some_and(|link| link.carrier && link.kind == Some(LinkKind::Tun)) {
            return Err(TunError::Busy { device: name }.into());
        }
        let queues = open(&name, existing, plan)?;
        let name = queues.first().map(|queue| queue.name().to_owned()).unwrap_or(name);
        let index = netlink.link(&name)?.index;
        let ours = existing.is_none_or(Self::is_ours);
        if existing.is_none() {
            netlink.set_alias(index, ALIAS)?;
        }
        settle::settle(plan, index, &name, netlink)?;
        if ours {
            for queue in &queues {
                queue.set_persistent(true)?;
            }
        }
        Ok(Self { name, index, queues, ours })
    }

    /// Whether a device was made by us, now or in an earlier run.
    #[must_use]
    pub fn is_ours(link: &Link) -> bool {
        link.alias.as_deref() == Some(ALIAS)
    }

    /// Removes the device with its addresses and routes, if it is ours; one that was prepared for us stays as it is.
    pub fn remove(index: u32, netlink: &Netlink) -> Result<(), NetlinkError> {
        match netlink.link_at(index)? {
            Some(link) if Self::is_ours(&link) => netlink.delete_link(index),
            _ => Ok(()),
        }
    }
}

/// Looks whether the overlay network of `plan` is somebody else's on this host, before anything is asked of anybody.
///
/// # Errors
/// [`DeviceError::Overlap`] when it is.
pub fn foresee(plan: &Plan, netlink: &Netlink) -> Result<(), DeviceError> {
    let links = netlink.links()?;
    let (_, existing) = existing(plan, &links, netlink)?;
    overlap::check(plan, existing.map(|link| link.index), netlink)
}

/// The name to open, and the device that has it already.
fn existing<'a>(plan: &Plan, links: &'a [Link], netlink: &Netlink) -> Result<(String, Option<&'a Link>), DeviceError> {
    let name = left_behind(plan, links, netlink)?.unwrap_or_else(|| plan.name.clone());
    let link = links.iter().find(|link| link.name == name);
    Ok((name, link))
}

/// Whether a device called `name` may have been made by `template`, a name or one with `%d` for a number.
#[must_use]
pub fn is_name_by(template: &str, name: &str) -> bool {
    let Some((before, after)) = template.split_once("%d") else { return name == template };
    let number = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// For a template: the name of a device that an earlier run made by it, which nobody holds and which has an address of
/// this overlay network. The kernel would take the next free number instead.
fn left_behind(plan: &Plan, links: &[Link], netlink: &Netlink) -> Result<Option<String>, NetlinkError> {
    if !plan.name.contains("%d") {
        return Ok(None);
    }
    let addresses = netlink.addresses()?;
    let in_overlay = |link: &Link| {
        let own = addresses.iter().filter(|entry| entry.device == link.index);
        own.filter_map(|entry| overlap::prefix4(entry.address)).any(|prefix| plan.network.contains(prefix.base()))
    };
    let found = links
        .iter()
        .find(|link| link.kind == Some(LinkKind::Tun) && !link.carrier && is_name_by(&plan.name, &link.name) && in_overlay(link));
    Ok(found.map(|link| link.name.clone()))
}

/// Opens the queues, with headers for super-packets if there is to be such.
fn open(name: &str, existing: Option<&Link>, plan: &Plan) -> Result<Vec<TunQueue>, TunError> {
    let bare = |mode| move |name: &str| TunQueue::open(name, mode);
    let vnet = |mode| move |name: &str| TunQueue::open_vnet(name, mode);
    let (mode, other) = if plan.queues > 1 { (Multiqueue::Yes, Multiqueue::No) } else { (Multiqueue::No, Multiqueue::Yes) };
    if plan.offloads {
        match open_all(name, existing, plan.queues, vnet(mode), vnet(other)) {
            Err(error @ TunError::NoOffloads { .. }) => tracing::warn!("{error}"),
            opened => return opened,
        }
    }
    open_all(name, existing, plan.queues, bare(mode), bare(other))
}

/// Opens `wanted` queues by `open`. An existing TUN device that was made for one queue, or for several, stays that way and
/// gets one by `other`: it is worth more than the number of queues.
fn open_all(
    name: &str,
    existing: Option<&Link>,
    wanted: usize,
    open: impl Fn(&str) -> Result<TunQueue, TunError>,
    other: impl Fn(&str) -> Result<TunQueue, TunError>,
) -> Result<Vec<TunQueue>, TunError> {
    let first = match open(name) {
        Err(TunError::OtherKind { device }) if existing.is_some_and(|link| link.kind == Some(LinkKind::Tun)) => {
            tracing::info!(device, "the existing device was made for another number of queues: using one");
            return Ok(vec![other(name)?]);
        }
        first => first?,
    };
    let name = first.name().to_owned();
    let mut queues = vec![first];
    while queues.len() < wanted {
        queues.push(open(&name)?);
    }
    Ok(queues)
}
