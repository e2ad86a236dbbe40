//! What a worker reads and writes: a batch in, a batch out. `os` is the real thing, `memory` a pair of queues for
//! simulations and benches, `fault` a wrapper that loses, repeats and reorders.

pub mod fault;
pub mod memory;
pub mod os;

use std::io;

use crate::buf::{Batch, Datagram};

/// A TUN queue: whole inner IP packets.
pub trait TunPort: Send {
    /// Appends the packets that are ready to `batch`, as many as fit, and says how many; 0 when none is ready.
    ///
    /// # Errors
    /// Only when the device itself is gone or unusable.
    fn recv(&mut self, batch: &mut Batch<()>) -> io::Result<usize>;

    /// Writes every packet of `batch`; says how many the kernel refused.
    ///
    /// # Errors
    /// Only when the device itself is gone or unusable.
    fn send<M>(&mut self, batch: &mut Batch<M>) -> io::Result<usize>;
}

/// A UDP socket on the underlay.
pub trait UdpPort: Send {
    /// Appends the datagrams that are ready to `batch`, as many as fit, and says how many; 0 when none is ready.
    ///
    /// # Errors
    /// Only when the socket itself is unusable.
    fn recv(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize>;

    /// Sends every datagram of `batch` to its peer, in order. Those that did not leave carry their
    /// [`refused`](Datagram::refused) note afterwards; says how many those are.
    ///
    /// # Errors
    /// Only when the socket itself is unusable.
    fn send(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize>;
}
