//! A bad underlay: wraps a socket and loses, repeats and reorders what is sent through it, the same way for the same seed.

use std::io;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::UdpPort;
use crate::buf::{Batch, Datagram, Packet, TrainLimit};
use crate::net::Endpoint;

/// How often what goes wrong: probabilities per datagram, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// It is lost, and nobody is told.
    pub loss: f64,
    /// It arrives twice.
    pub duplicate: f64,
    /// It is held back until a later send, or until [`Faulty::flush`].
    pub reorder: f64,
}

/// A [`UdpPort`] with faults on the sending side.
#[derive(Debug)]
pub struct Faulty<P> {
    inner: P,
    faults: Faults,
    random: StdRng,
    held: Vec<(Packet, Datagram)>,
}

impl<P: UdpPort> Faulty<P> {
    /// `inner` with `faults`, drawn from `seed`.
    pub fn new(inner: P, faults: Faults, seed: u64) -> Self {
        Self { inner, faults, random: StdRng::seed_from_u64(seed), held: Vec::new() }
    }

    /// Sends what is held back, newest first.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some((mut packet, note)) = self.held.pop() {
            self.pass(&mut packet, note)?;
        }
        Ok(())
    }

    /// Sends one datagram and gives back its note.
    fn pass(&mut self, packet: &mut Packet, note: Datagram) -> io::Result<Datagram> {
        let mut single = Batch::new(1, 0);
        single.swap_in(packet, note);
        self.inner.send(&mut single)?;
        let Some((sent, note)) = single.used_mut().first_mut() else { return Ok(note) };
        std::mem::swap(packet, sent);
        Ok(*note)
    }
}

impl<P: UdpPort> UdpPort for Faulty<P> {
    fn recv(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize> {
        self.inner.recv(batch)
    }

    fn send(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize> {
        let late = std::mem::take(&mut self.held);
        let mut refused = 0;
        for (packet, note) in batch.used_mut() {
            note.refused = None;
            if self.random.random_bool(self.faults.loss) {
                continue;
            }
            if self.random.random_bool(self.faults.reorder) {
                let mut copy = Packet::with_capacity(packet.bytes().len());
                copy.fill(packet.bytes());
                self.held.push((copy, *note));
                continue;
            }
            if self.random.random_bool(self.faults.duplicate) {
                self.pass(packet, *note)?;
            }
            *note = self.pass(packet, *note)?;
            refused += usize::from(note.refused.is_some());
        }
        for (mut packet, note) in late {
            self.pass(&mut packet, note)?;
        }
        Ok(refused)
    }

    fn path_mtu(&self, peer: Endpoint) -> Option<u16> {
        self.inner.path_mtu(peer)
    }

    fn train(&self) -> TrainLimit {
        self.inner.train()
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Wire;
    use super::*;

    /// The numbers that arrive of 0..200 sent, ten in a batch.
    fn arrivals(faults: Faults, seed: u64) -> Vec<u8> {
        let wire = Wire::new(100);
        let to = Endpoint::from(([192, 0, 2, 2], 8285));
        let mut sender = Faulty::new(wire.socket(Endpoint::from(([192, 0, 2, 1], 8285))), faults, seed);
        let mut receiver = wire.socket(to);
        let mut batch = Batch::<Datagram>::new(500, 16);
        for number in 0..200u8 {
            let slot = batch.vacant().unwrap();
            slot.0.fill(&[number]);
            slot.1.peer = to;
            batch.commit(1);
            if batch.len() == 10 {
                assert_eq!(sender.send(&mut batch).unwrap(), 0);
                batch.clear();
            }
        }
        sender.flush().unwrap();
        receiver.recv(&mut batch).unwrap();
        batch.used().iter().map(|(packet, _)| packet.bytes()[0]).collect()
    }

    #[test]
    fn each_fault_does_what_it_says_and_nothing_else() {
        let all: Vec<u8> = (0..200).collect();
        assert_eq!(arrivals(Faults::default(), 1), all);

        let lossy = arrivals(Faults { loss: 0.3, ..Faults::default() }, 1);
        assert!(lossy.len() < 180 && lossy.is_sorted_by(|a, b| a < b));

        let mut doubled = arrivals(Faults { duplicate: 0.3, ..Faults::default() }, 1);
        assert!(doubled.len() > 220 && doubled.is_sorted());
        doubled.dedup();
        assert_eq!(doubled, all);

        let mut shuffled = arrivals(Faults { reorder: 0.3, ..Faults::default() }, 1);
        assert!(!shuffled.is_sorted());
        shuffled.sort_unstable();
        assert_eq!(shuffled, all);
    }

    #[test]
    fn the_same_seed_is_the_same_weather() {
        let faults = Faults { loss: 0.2, duplicate: 0.2, reorder: 0.2 };
        assert_eq!(arrivals(faults, 7), arrivals(faults, 7));
        assert_ne!(arrivals(faults, 7), arrivals(faults, 8));
    }
}
