//! A registry behind another node's server: ours (`felt serve`) or a flanneld's of 0.5 to 0.7, over HTTP or TLS.
//!
//! Flannel's servers have habits to live with: a renewal there overwrites whoever holds the subnet and ends a reservation, and its
//! answer garbles backend data. So a renewal looks first, and only the time in the answer is believed. Time left is reckoned by the
//! server's own clock (the `Date` of its answer), so the hosts' clocks may differ.
//!
//! The watch lists, then polls with the cursor; after any failure it lists again. A poll may hang for hours, which is its purpose:
//! death of the other side shows by TCP keep-alive, and a poll is renewed after a while for what that cannot see.
//!
//! Policy objects are kept by our own servers only. Their watch goes on where it was after a failure; the server says when that is not
//! possible, by sending everything.

mod address;
mod client;
mod failure;
mod policies;
mod registry;
mod watch;

pub use address::AddressError;
pub use client::RemoteError;
pub use registry::RemoteRegistry;
