//! News of devices, addresses, routing rules and routes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::address::as_address;
use super::link::as_link;
use super::route::as_route;
use super::rule::as_rule;
use super::socket::{messages, retry};
use super::{Link, LinkAddress, NetlinkError, Route, Rule};

/// `RTNLGRP_LINK`, `RTNLGRP_IPV4_IFADDR`, `RTNLGRP_IPV4_RULE` and `RTNLGRP_IPV6_RULE`.
const GROUPS: [u32; 4] = [1, 5, 8, 19];
/// `RTNLGRP_IPV4_ROUTE` and `RTNLGRP_IPV6_ROUTE`: a busy host has news of them all the time.
const ROUTE_GROUPS: [u32; 2] = [7, 11];
const BUFFER_BYTES: usize = 64 * 1024;

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A device is new or has changed in some way.
    Link(Link),
    /// A device is gone.
    LinkGone(Link),
    /// A device has an address, new or changed.
    Address(LinkAddress),
    /// A device has lost an address.
    AddressGone(LinkAddress),
    /// A rule is new.
    Rule(Rule),
    /// A rule is gone.
    RuleGone(Rule),
    /// A route is new, or has taken the place of another.
    Route(Route),
    /// A route is gone. One that goes with its device is not told of in IPv4.
    RouteGone(Route),
    /// More happened than could be told: look at everything again.
    Overrun,
}

/// Hears of devices, IPv4 addresses, routing rules and perhaps routes that come, change and go in the namespace it was opened in.
///
/// The descriptor is non-blocking: wait for it to be readable, then take events until there is none.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    pending: VecDeque<Event>,
}

impl Monitor {
    /// Begins to listen, to all but routes; what happened before is not told.
    pub fn open() -> Result<Self, NetlinkError> {
        Self::of(&[])
    }

    /// The same, and routes of all tables too. Whoever listens should let news gather, and be choosy.
    pub fn open_with_routes() -> Result<Self, NetlinkError> {
        Self::of(&ROUTE_GROUPS)
    }

    fn of(more: &[u32]) -> Result<Self, NetlinkError> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            for group in GROUPS.iter().chain(more) {
                socket.add_membership(*group)?;
            }
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|error| NetlinkError::refused("listen for changes of devices", error))?;
        Ok(Self { socket, pending: VecDeque::new() })
    }

    /// The next event, if there is one.
    pub fn next_event(&mut self) -> Result<Option<Event>, NetlinkError> {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            buffer.clear();
            match retry(|| self.socket.recv(&mut buffer, libc::MSG_TRUNC)) {
                Ok(length) if length > buffer.len() => return Ok(Some(Event::Overrun)),
                Ok(_) => self.take(&buffer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return Ok(Some(Event::Overrun)),
                Err(error) => return Err(NetlinkError::refused("hear of changes of devices", error)),
            }
        }
    }

    /// The same as something that a task can wait for. Must be called within a runtime that does I/O.
    pub fn awaitable(self) -> Result<AsyncFd<Self>, NetlinkError> {
        // SAFETY: a `Monitor` owns its socket, closes it only when dropped, never replaces it, and `as_raw_fd` always gives
        // that socket's descriptor.
        let registered = unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) };
        registered.map_err(|error| NetlinkError::refused("wait for changes of devices", error.into()))
    }

    fn take(&mut self, datagram: &[u8]) {
        for message in messages(datagram) {
            match message.map(|message| message.payload) {
                Ok(NetlinkPayload::InnerMessage(message)) => self.pending.extend(as_event(&message)),
                Ok(_) => {}
                Err(_) => self.pending.push_back(Event::Overrun),
            }
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: `self` owns the socket and keeps it open for as long as the borrow lives.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }
}

impl AsRawFd for Monitor {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn as_event(message: &RouteNetlinkMessage) -> Option<Event> {
    match message {
        RouteNetlinkMessage::NewLink(_) => as_link(message).map(Event::Link),
        RouteNetlinkMessage::DelLink(_) => as_link(message).map(Event::LinkGone),
        RouteNetlinkMessage::NewAddress(_) => as_address(message).map(Event::Address),
        RouteNetlinkMessage::DelAddress(_) => as_address(message).map(Event::AddressGone),
        RouteNetlinkMessage::NewRule(_) => as_rule(message).map(Event::Rule),
        RouteNetlinkMessage::DelRule(_) => as_rule(message).map(Event::RuleGone),
        RouteNetlinkMessage::NewRoute(_) => as_route(message).map(Event::Route),
        RouteNetlinkMessage::DelRoute(_) => as_route(message).map(Event::RouteGone),
        _ => None,
    }
}
