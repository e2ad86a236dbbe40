//! Ports without memory of their own, so that what is measured, or counted, is the packet path alone.

use std::io;

use felt::buf::{Batch, Datagram, Gather, Refusal, TrainLimit};
use felt::net::{Endpoint, Offload, Supers};
use felt::port::{TunPort, UdpPort};

use super::overlay::endpoint;

/// A TUN that reads the same packets again and again and swallows what is written, without memory of its own.
pub struct Tun {
    packets: Vec<(Vec<u8>, Offload)>,
    next: usize,
    pub written: u64,
}

/// A socket to itself: what is sent is received, but for what it refuses.
pub struct Loop {
    wire: Batch<Datagram>,
    pub receives: bool,
    faults: bool,
}

impl Tun {
    /// Reads `packets` in turn, for ever; nothing if there are none.
    pub fn new(packets: Vec<(Vec<u8>, Offload)>) -> Self {
        Self { packets, next: 0, written: 0 }
    }
}

impl Loop {
    /// Keeps up to `slots` slots of what is sent; node 1 is who sends.
    pub fn new(slots: usize) -> Self {
        Self { wire: Batch::new(slots, 65_536), receives: true, faults: false }
    }

    /// The same, but of each batch one slot is refused, and one comes from a stranger.
    pub fn with_faults(self) -> Self {
        Self { faults: true, ..self }
    }
}

impl TunPort for Tun {
    fn recv(&mut self, batch: &mut Batch<Offload>) -> io::Result<usize> {
        let before = batch.len();
        while let Some((packet, note)) = batch.vacant().filter(|_| !self.packets.is_empty()) {
            let (bytes, offload) = &self.packets[self.next % self.packets.len()];
            packet.fill(bytes);
            *note = *offload;
            batch.commit(1);
            self.next += 1;
        }
        Ok(batch.len() - before)
    }

    fn send<M>(&mut self, _: &mut Batch<M>) -> io::Result<usize> {
        Ok(0)
    }

    fn supers(&self) -> Supers {
        Supers { tcp: true, udp: true }
    }

    fn send_gathered(&mut self, packets: &Gather, _: &Batch<Datagram>) -> io::Result<usize> {
        self.written += packets.packets().map(|packet| packet.count() as u64).sum::<u64>();
        Ok(0)
    }

    fn send_back(&mut self, batch: &Batch<Offload>) -> io::Result<usize> {
        self.written += batch.len() as u64;
        Ok(0)
    }
}

impl UdpPort for Loop {
    fn recv(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize> {
        if !self.receives {
            return Ok(0);
        }
        for (packet, note) in self.wire.used_mut() {
            let peer = if self.faults && batch.len() == 3 { endpoint(66) } else { endpoint(1) };
            assert!(batch.swap_in(packet, Datagram { peer, ..*note }));
        }
        self.wire.clear();
        Ok(batch.len())
    }

    fn send(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize> {
        let mut refused = 0;
        for (at, (packet, note)) in batch.used_mut().iter_mut().enumerate() {
            if self.faults && at == 5 {
                note.refuse(Refusal::TooBig);
                refused += 1;
            } else if let Some((slot, copy)) = self.wire.vacant() {
                slot.fill(packet.bytes());
                *copy = *note;
                self.wire.commit(1);
            }
        }
        Ok(refused)
    }

    fn path_mtu(&self, _: Endpoint) -> Option<u16> {
        Some(900)
    }

    fn train(&self) -> TrainLimit {
        TrainLimit { datagrams: 64, bytes: 65_507 }
    }
}
