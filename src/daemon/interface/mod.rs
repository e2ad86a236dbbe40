//! Which interface and address the outer packets use, and what address is announced.
//!
//! The rules are those of flannel 0.20 and later: every `--iface` in order, then every `--iface-regex`, then
//! `--iface-can-reach`; the first that fits wins, and what did not fit is told if none does. Without any of them: the
//! interface that carries `--public-ip`, else that of the default route.
//!
//! One rule is flannel 0.7's, because later ones refuse to start where it is harmless: a `--public-ip` that no interface
//! carries (a host behind NAT) is announced all the same, and the socket is bound to the default route's interface.
//!
//! Of an interface's addresses the first is taken in this order: global before link-local, permanent before dynamic,
//! primary before secondary, then as the kernel lists them. Deprecated ones are never taken unless named.
//!
//! [`choose`] decides on [`Facts`] alone; [`find`] gathers them.

mod choice;
mod facts;

pub use choice::{External, InterfaceError, Wishes, choose, find, mtu_of_route};
pub use facts::Facts;
