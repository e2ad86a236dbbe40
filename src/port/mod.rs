//! What a worker reads and writes: a batch in, a batch out. `os` is the real thing, `memory` a pair of queues for
//! simulations and benches, `fault` a wrapper that loses, repeats and reorders.

pub mod fault;
pub mod memory;
pub mod os;

use std::io;

use crate::buf::{Batch, Datagram, Gather, TrainLimit};
use crate::net::{Endpoint, Offload, Supers};

/// A TUN queue: inner IP packets, and super-packets where the device has offloads.
pub trait TunPort: Send {
    /// Appends the packets that are ready to `batch`, as many as fit, and says how many; 0 when none is ready.
    ///
    /// # Errors
    /// Only when the device itself is gone or unusable.
    fn recv(&mut self, batch: &mut Batch<Offload>) -> io::Result<usize>;

    /// Writes every packet of `batch` as it is; says how many the kernel refused.
    ///
    /// # Errors
    /// Only when the device itself is gone or unusable.
    fn send<M>(&mut self, batch: &mut Batch<M>) -> io::Result<usize>;

    /// Which super-packets it takes now. They get fewer when the kernel turns out to refuse them.
    fn supers(&self) -> Supers;

    /// Writes packets put together from pieces of `memory`. One that the kernel refuses as a whole is written as the packets
    /// it was made of, in order. Says how many of the packets they were made of the kernel refused.
    ///
    /// # Errors
    /// Only when the device itself is gone or unusable.
    fn send_gathered(&mut self, packets: &Gather, memory: &Batch<Datagram>) -> io::Result<usize>;

    /// Writes packets back that were read from here, with the same left to do as when they came, so a super-packet stays one. One
    /// that the kernel refuses as a whole is written as the packets of a wire that it stands for. Says how many packets of a wire
    /// the kernel refused.
    ///
    /// # Errors
    /// Only when the device itself is gone or unusable.
    fn send_back(&mut self, batch: &Batch<Offload>) -> io::Result<usize>;
}

/// A UDP socket on the underlay.
pub trait UdpPort: Send {
    /// Appends the datagrams that are ready to `batch`, as many as fit, and says how many slots that took; 0 when none is
    /// ready. A slot may hold a train of one peer's datagrams.
    ///
    /// # Errors
    /// Only when the socket itself is unusable.
    fn recv(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize>;

    /// Sends every datagram of `batch` to its peer, in order. Slots of which something did not leave carry their
    /// [`refused`](Datagram::refused) note afterwards; says how many slots those are.
    ///
    /// # Errors
    /// Only when the socket itself is unusable.
    fn send(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize>;

    /// The path MTU to `peer` as far as it is known now, in bytes of a whole outer packet.
    fn path_mtu(&self, peer: Endpoint) -> Option<u16>;

    /// How long a train may be now. It gets shorter, down to one datagram, when the kernel or a device turns out not to take it.
    fn train(&self) -> TrainLimit;
}
