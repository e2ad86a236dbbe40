//! System calls: the only room with unsafe code. Thin, synchronous, and without decisions; what to do with an answer is
//! the caller's business.
//!
//! Everything here acts on the network namespace of the calling thread, and descriptors stay in the namespace they were
//! opened in.

#![allow(unsafe_code, reason = "this room exists to hold it; every block says why it is sound")]

pub mod activation;
pub mod capability;
pub mod ethtool;
pub mod limits;
pub mod memory;
pub mod netfilter;
pub mod netlink;
pub mod netns;
pub mod poll;
pub mod process;
pub mod program;
pub mod tun;
pub mod udp;
