//! Network devices.

use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    AfSpecInet, AfSpecUnspec, InetDevConf, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};

use super::{Netlink, NetlinkError};

/// A network device, as the kernel last described it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "the kernel's own flags, told apart by name")]
pub struct Link {
    /// Number within the namespace; never reused while the namespace lives, in practice.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Largest packet, in bytes, without the link header.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Up and able to carry packets.
    pub running: bool,
    /// Something is at the other end: of a TUN device, a process that holds a queue. Told at once, where `running` may lag
    /// by a second.
    pub carrier: bool,
    /// The loopback device.
    pub loopback: bool,
    /// What kind of software device it is; `None` for hardware and loopback.
    pub kind: Option<InfoKind>,
    /// State by RFC 2863.
    pub state: State,
    /// Transmit queue length, in packets.
    pub txqlen: u32,
    /// Index of the bridge or bond it is a port of.
    pub master: Option<u32>,
    /// Free text that an administrator or a program put on it.
    pub alias: Option<String>,
    /// Its own reverse-path filter, as in the sysctl `rp_filter`: 0 none, 1 strict, 2 loose. What is in force is the greater of
    /// this and the host's. `None` when the device has no IPv4.
    pub reverse_path: Option<u8>,
}

/// The reverse-path filter that lets in what could be answered by any device.
pub const LOOSE: u8 = 2;

impl Netlink {
    /// Every device of the namespace.
    pub fn links(&self) -> Result<Vec<Link>, NetlinkError> {
        let found = self.dump(&RouteNetlinkMessage::GetLink(LinkMessage::default()), "list devices")?;
        Ok(found.iter().filter_map(as_link).collect())
    }

    /// The device of this name, if there is one.
    pub fn find_link(&self, name: &str) -> Result<Option<Link>, NetlinkError> {
        let mut request = LinkMessage::default();
        request.attributes.push(LinkAttribute::IfName(name.to_owned()));
        present(self.ask(RouteNetlinkMessage::GetLink(request), || format!("look for device {name}")))
    }

    /// The device of this name.
    ///
    /// # Errors
    /// [`NetlinkError::NoLink`] when there is none.
    pub fn link(&self, name: &str) -> Result<Link, NetlinkError> {
        self.find_link(name)?.ok_or_else(|| NetlinkError::NoLink { name: name.to_owned() })
    }

    /// The device of this index, if there is one.
    pub fn link_at(&self, index: u32) -> Result<Option<Link>, NetlinkError> {
        present(self.ask(RouteNetlinkMessage::GetLink(message(index)), || format!("look for device {index}")))
    }

    /// Sets the device up.
    pub fn set_up(&self, index: u32) -> Result<(), NetlinkError> {
        self.set_flag_up(index, true)
    }

    /// Sets the device down.
    pub fn set_down(&self, index: u32) -> Result<(), NetlinkError> {
        self.set_flag_up(index, false)
    }

    /// Sets the largest packet, in bytes.
    pub fn set_mtu(&self, index: u32, mtu: u32) -> Result<(), NetlinkError> {
        self.set(index, LinkAttribute::Mtu(mtu), &format!("set mtu {mtu} on"))
    }

    /// Sets the transmit queue length, in packets.
    pub fn set_txqlen(&self, index: u32, packets: u32) -> Result<(), NetlinkError> {
        self.set(index, LinkAttribute::TxQueueLen(packets), &format!("set txqlen {packets} on"))
    }

    /// Gives the device another name; kernels before 6.2 demand that it is down.
    pub fn rename(&self, index: u32, name: &str) -> Result<(), NetlinkError> {
        self.set(index, LinkAttribute::IfName(name.to_owned()), &format!("give name {name} to"))
    }

    /// Puts a free text on the device, at most 255 bytes.
    pub fn set_alias(&self, index: u32, alias: &str) -> Result<(), NetlinkError> {
        self.set(index, LinkAttribute::IfAlias(alias.to_owned()), "put an alias on")
    }

    /// Sets the device's reverse-path filter to loose: packets may come in by it whose source is reached by another device.
    /// Unlike the sysctl, this works where `/proc/sys` is read-only, as in containers.
    pub fn loosen_reverse_path(&self, index: u32) -> Result<(), NetlinkError> {
        let mut conf = InetDevConf::default();
        conf.rp_filter = LOOSE.into();
        let request = LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet(vec![AfSpecInet::DevConfRequest(conf)])]);
        self.set(index, request, "loosen the reverse-path filter of")
    }

    /// Makes the device a port of the bridge `master`, or of none.
    pub fn set_master(&self, index: u32, master: Option<u32>) -> Result<(), NetlinkError> {
        let attempt =
            master.map_or_else(|| "free from its bridge".to_owned(), |master| format!("make a port of device {master}"));
        self.set(index, LinkAttribute::Controller(master.unwrap_or(0)), &attempt)
    }

    /// Moves the device to another namespace, given as a descriptor.
    pub fn move_to(&self, index: u32, netns: BorrowedFd<'_>) -> Result<(), NetlinkError> {
        self.set(index, LinkAttribute::NetNsFd(netns.as_raw_fd()), "move to another namespace")
    }

    /// Removes the device.
    pub fn delete_link(&self, index: u32) -> Result<(), NetlinkError> {
        let name = self.device_name(index);
        self.change(RouteNetlinkMessage::DelLink(message(index)), 0, || format!("delete {name}"))
    }

    /// Creates a pair of devices joined back to back; the peer in `peer_netns` if given, else beside it.
    pub fn create_veth(&self, name: &str, peer: &str, peer_netns: Option<BorrowedFd<'_>>) -> Result<Link, NetlinkError> {
        let mut other = LinkMessage::default();
        other.attributes.push(LinkAttribute::IfName(peer.to_owned()));
        if let Some(netns) = peer_netns {
            other.attributes.push(LinkAttribute::NetNsFd(netns.as_raw_fd()));
        }
        self.create(name, InfoKind::Veth, Some(InfoData::Veth(InfoVeth::Peer(other))))
    }

    /// Creates a bridge.
    pub fn create_bridge(&self, name: &str) -> Result<Link, NetlinkError> {
        self.create(name, InfoKind::Bridge, None)
    }

    /// Creates a device that swallows what is sent through it. Needs the kernel's `dummy` module, which sandboxes may lack.
    pub fn create_dummy(&self, name: &str) -> Result<Link, NetlinkError> {
        self.create(name, InfoKind::Dummy, None)
    }

    /// For messages: `device NAME`, or `device INDEX` when it has none (any more).
    pub(super) fn device_name(&self, index: u32) -> String {
        let name = self.link_at(index).ok().flatten().map_or_else(|| index.to_string(), |link| link.name);
        format!("device {name}")
    }

    pub(super) fn create(&self, name: &str, kind: InfoKind, data: Option<InfoData>) -> Result<Link, NetlinkError> {
        let attempt = format!("create {kind} device {name}");
        let mut request = LinkMessage::default();
        let info = std::iter::once(LinkInfo::Kind(kind)).chain(data.map(LinkInfo::Data)).collect();
        request.attributes.extend([LinkAttribute::IfName(name.to_owned()), LinkAttribute::LinkInfo(info)]);
        self.change(RouteNetlinkMessage::NewLink(request), NLM_F_CREATE | NLM_F_EXCL, || attempt)?;
        self.link(name)
    }

    fn set_flag_up(&self, index: u32, up: bool) -> Result<(), NetlinkError> {
        let mut request = message(index);
        request.header.change_mask = LinkFlags::Up;
        request.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        let word = if up { "up" } else { "down" };
        self.change(RouteNetlinkMessage::SetLink(request), 0, || format!("set {} {word}", self.device_name(index)))
    }

    fn set(&self, index: u32, attribute: LinkAttribute, attempt: &str) -> Result<(), NetlinkError> {
        let mut request = message(index);
        request.attributes.push(attribute);
        self.change(RouteNetlinkMessage::SetLink(request), 0, || format!("{attempt} {}", self.device_name(index)))
    }
}

/// The device a message tells of; `None` when it tells of something else, such as a bridge's view of a port.
pub(super) fn as_link(message: &RouteNetlinkMessage) -> Option<Link> {
    let (RouteNetlinkMessage::NewLink(message) | RouteNetlinkMessage::DelLink(message)) = message else { return None };
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        mtu: 0,
        up: flags.contains(LinkFlags::Up),
        running: flags.contains(LinkFlags::Running),
        carrier: false,
        loopback: flags.contains(LinkFlags::Loopback),
        kind: None,
        state: State::Unknown,
        txqlen: 0,
        master: None,
        alias: None,
        reverse_path: None,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::TxQueueLen(packets) => link.txqlen = *packets,
            LinkAttribute::OperState(state) => link.state = *state,
            LinkAttribute::Controller(master) => link.master = Some(*master),
            LinkAttribute::Carrier(carrier) => link.carrier = *carrier == 1,
            LinkAttribute::IfAlias(alias) => link.alias = Some(alias.clone()),
            LinkAttribute::AfSpecUnspec(families) => link.reverse_path = families.iter().find_map(reverse_path),
            LinkAttribute::LinkInfo(info) => {
                link.kind = info.iter().find_map(|info| if let LinkInfo::Kind(kind) = info { Some(kind.clone()) } else { None });
            }
            _ => {}
        }
    }
    (message.header.interface_family == netlink_packet_route::AddressFamily::Unspec).then_some(link)
}

fn message(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

/// No such device is an answer, not a failure.
fn present(answer: Result<Option<RouteNetlinkMessage>, NetlinkError>) -> Result<Option<Link>, NetlinkError> {
    match answer {
        Ok(answer) => Ok(answer.as_ref().and_then(as_link)),
        Err(error) if error.is_no_device() => Ok(None),
        Err(error) => Err(error),
    }
}

fn reverse_path(family: &AfSpecUnspec) -> Option<u8> {
    let AfSpecUnspec::Inet(facts) = family else { return None };
    facts.iter().find_map(|fact| if let AfSpecInet::DevConf(conf) = fact { u8::try_from(conf.rp_filter).ok() } else { None })
}
