//! rtnetlink, synchronously: links, addresses, routes, routing rules and neighbours of one network namespace.
//!
//! A [`Netlink`] belongs to the namespace of the thread that opened it and may then be used from any other. Requests are
//! answered by the kernel before the call returns; nothing here waits, retries on failure or decides. [`Monitor`] is the
//! one part that waits: it hears of devices, addresses, routing rules and, if asked to, routes that come and go.
//!
//! Message formats come from `netlink-packet-route`; the socket is plain and blocking, because an asynchronous one would
//! be tied to a runtime whose threads live in another namespace.

mod address;
mod error;
mod link;
mod monitor;
mod neighbour;
mod route;
mod rule;
mod socket;
mod vxlan;

pub use address::LinkAddress;
pub use error::NetlinkError;
pub use link::{LOOSE, Link};
pub use monitor::{Event, Monitor};
pub use neighbour::HardwareAddress;
pub use netlink_packet_route::link::{InfoKind as LinkKind, State as OperState};
pub use netlink_packet_route::route::{RouteProtocol, RouteScope, RouteType};
pub use netlink_packet_route::rule::RuleAction;
pub use route::{Route, TABLE_MAIN};
pub use rule::Rule;
pub use socket::Netlink;
pub use vxlan::VxlanDevice;
