//! Ports made of memory: a TUN whose other side is the test or bench itself, and an underlay that joins sockets by endpoint.
//!
//! For simulations and benches. Nothing here waits, loses, repeats or reorders; [`fault`](super::fault) does that on top.

use std::io;
use std::sync::Arc;

use crossbeam::queue::SegQueue;
use dashmap::DashMap;

use super::{TunPort, UdpPort};
use crate::buf::{Batch, Datagram, Gather, Packet, Piece, Refusal, TrainLimit};
use crate::net::{Endpoint, Offload, Supers};
use crate::wire::segment::Segments;

/// The worker's side of a TUN.
#[derive(Debug)]
pub struct Tun {
    queues: Arc<TunQueues>,
    supers: bool,
}

/// The host's side of a TUN: what the host sends into it and gets out of it.
#[derive(Clone, Debug)]
pub struct TunHost(Arc<TunQueues>);

#[derive(Debug, Default)]
struct TunQueues {
    to_worker: SegQueue<(Vec<u8>, Offload)>,
    to_host: SegQueue<(Vec<u8>, Offload)>,
}

/// Both sides of a new TUN.
#[must_use]
pub fn tun() -> (Tun, TunHost) {
    let queues = Arc::new(TunQueues::default());
    (Tun { queues: Arc::clone(&queues), supers: true }, TunHost(queues))
}

impl Tun {
    /// The same, but it takes no super-packets: what was put together is written as it came.
    #[must_use]
    pub fn without_supers(self) -> Self {
        Self { supers: false, ..self }
    }
}

impl TunHost {
    /// The host routes `packet` into the TUN.
    pub fn send(&self, packet: &[u8]) {
        self.send_offloaded(packet, Offload::default());
    }

    /// The host routes `packet` into the TUN, with this left to do.
    pub fn send_offloaded(&self, packet: &[u8], offload: Offload) {
        self.0.to_worker.push((packet.to_vec(), offload));
    }

    /// The next packet the TUN gave to the host, which the host has this left to do on.
    pub fn recv(&self) -> Option<(Vec<u8>, Offload)> {
        self.0.to_host.pop()
    }
}

impl TunPort for Tun {
    fn recv(&mut self, batch: &mut Batch<Offload>) -> io::Result<usize> {
        Ok(fill(
            batch,
            || self.queues.to_worker.pop(),
            |packet, note, (bytes, offload)| {
                packet.fill(&bytes);
                *note = offload;
            },
        ))
    }

    fn send<M>(&mut self, batch: &mut Batch<M>) -> io::Result<usize> {
        for (packet, _) in batch.used() {
            self.queues.to_host.push((packet.bytes().to_vec(), Offload::default()));
        }
        Ok(0)
    }

    fn supers(&self) -> Supers {
        Supers { tcp: self.supers, udp: self.supers }
    }

    fn send_gathered(&mut self, packets: &Gather, memory: &Batch<Datagram>) -> io::Result<usize> {
        let bytes = |piece: Piece| -> &[u8] {
            let slot = memory.used().get(usize::from(piece.slot));
            slot.and_then(|(packet, _)| packet.bytes().get(piece.range())).unwrap_or_default()
        };
        for packet in packets.packets() {
            if self.supers || packet.header().is_empty() {
                let whole = packet.pieces().map(bytes).fold(packet.header().to_vec(), |whole, piece| [&whole, piece].concat());
                self.queues.to_host.push((whole, *packet.offload()));
            } else {
                packet.originals().for_each(|piece| self.queues.to_host.push((bytes(piece).to_vec(), Offload::default())));
            }
        }
        Ok(0)
    }

    fn send_back(&mut self, batch: &Batch<Offload>) -> io::Result<usize> {
        let mut refused = 0;
        for (packet, offload) in batch.used() {
            if self.supers || offload.segmentation.is_none() {
                self.queues.to_host.push((packet.bytes().to_vec(), *offload));
                continue;
            }
            let Ok(segments) = Segments::new(packet.bytes(), offload) else {
                refused += 1;
                continue;
            };
            for at in 0..segments.count() {
                let mut bytes = vec![0; segments.len_of(at)];
                segments.write(at, &mut bytes);
                self.queues.to_host.push((bytes, Offload::default()));
            }
        }
        Ok(refused)
    }
}

type Inbox = SegQueue<(Vec<u8>, Datagram)>;

/// An underlay. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Wire {
    inboxes: Arc<DashMap<Endpoint, Arc<Inbox>>>,
    largest: usize,
    train: TrainLimit,
}

/// A socket on a [`Wire`].
#[derive(Debug)]
pub struct Socket {
    endpoint: Endpoint,
    inbox: Arc<Inbox>,
    wire: Wire,
}

impl Wire {
    /// An underlay without sockets that refuses payloads of more than `largest` bytes as too big.
    #[must_use]
    pub fn new(largest: usize) -> Self {
        Self { inboxes: Arc::default(), largest, train: TrainLimit::ONE }
    }

    /// The same, carrying trains as they are.
    #[must_use]
    pub fn with_trains(self, train: TrainLimit) -> Self {
        Self { train, ..self }
    }

    /// A socket that sends from `endpoint` and receives what is sent there; an older one at the same endpoint hears no more.
    #[must_use]
    pub fn socket(&self, endpoint: Endpoint) -> Socket {
        let inbox = Arc::new(Inbox::new());
        self.inboxes.insert(endpoint, Arc::clone(&inbox));
        Socket { endpoint, inbox, wire: self.clone() }
    }
}

impl UdpPort for Socket {
    fn recv(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize> {
        Ok(fill(
            batch,
            || self.inbox.pop(),
            |packet, note, (bytes, datagram)| {
                packet.fill(&bytes);
                *note = Datagram { truncated: bytes.len() > packet.capacity(), ..datagram };
            },
        ))
    }

    /// What is sent to an endpoint without a socket is gone, and nobody is told, as on a real network.
    fn send(&mut self, batch: &mut Batch<Datagram>) -> io::Result<usize> {
        let mut refused = 0;
        for (packet, note) in batch.used_mut() {
            note.refused = None;
            if note.range(0, packet.bytes().len()).len() > self.wire.largest {
                note.refuse(Refusal::TooBig);
                refused += 1;
            } else if let Some(inbox) = self.wire.inboxes.get(&note.peer).map(|entry| Arc::clone(&entry)) {
                inbox.push((packet.bytes().to_vec(), Datagram { peer: self.endpoint, ..*note }));
            }
        }
        Ok(refused)
    }

    /// What the underlay carries, with headers as on IPv4.
    fn path_mtu(&self, _: Endpoint) -> Option<u16> {
        u16::try_from(self.wire.largest + 28).ok()
    }

    fn train(&self) -> TrainLimit {
        self.wire.train
    }
}

/// Fills the free slots of `batch` from `next` until either is at its end, and says how many that were.
fn fill<M, T>(batch: &mut Batch<M>, mut next: impl FnMut() -> Option<T>, mut put: impl FnMut(&mut Packet, &mut M, T)) -> usize {
    let mut count = 0;
    while let Some((packet, note)) = batch.vacant()
        && let Some(item) = next()
    {
        put(packet, note, item);
        batch.commit(1);
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Ecn, PartialChecksum, SegmentKind, Segmentation};

    fn endpoint(host: u8) -> Endpoint {
        Endpoint::from(([192, 0, 2, host], 8285))
    }

    fn batch(datagrams: &[(&[u8], Endpoint)]) -> Batch<Datagram> {
        let mut batch = Batch::new(8, 16);
        for (bytes, peer) in datagrams {
            *batch.vacant().unwrap() =
                (Packet::with_capacity(16), Datagram { peer: *peer, ecn: Ecn::Ect0, ..Datagram::default() });
            batch.vacant().unwrap().0.fill(bytes);
            batch.commit(1);
        }
        batch
    }

    #[test]
    fn datagrams_arrive_in_order_with_their_sender_and_mark() {
        let wire = Wire::new(10);
        let (mut a, mut b) = (wire.socket(endpoint(1)), wire.socket(endpoint(2)));
        let to_b = endpoint(2);
        let mut sent = batch(&[(b"one", to_b), (b"two", endpoint(9)), (b"larger than ten", to_b), (b"three", to_b)]);
        assert_eq!(a.send(&mut sent).unwrap(), 1);
        let refused: Vec<_> = sent.used().iter().map(|(_, note)| note.refused.map(|refused| refused.reason)).collect();
        assert_eq!(refused, [None, None, Some(Refusal::TooBig), None]);

        let mut received = Batch::new(8, 4);
        assert_eq!(b.recv(&mut received).unwrap(), 2);
        let note = Datagram { peer: endpoint(1), ecn: Ecn::Ect0, ..Datagram::default() };
        assert_eq!((received.used()[0].0.bytes(), received.used()[0].1), (&b"one"[..], note));
        assert_eq!((received.used()[1].0.bytes(), received.used()[1].1), (&b"thre"[..], Datagram { truncated: true, ..note }));
        assert_eq!(b.recv(&mut received).unwrap(), 0);
    }

    #[test]
    fn a_tun_passes_packets_both_ways_and_stops_at_a_full_batch() {
        let plain = |bytes: &[u8]| Some((bytes.to_vec(), Offload::default()));
        let (mut tun, host) = tun();
        for packet in [b"a", b"b", b"c"] {
            host.send(packet);
        }
        let mut batch = Batch::new(2, 16);
        assert_eq!(tun.recv(&mut batch).unwrap(), 2);
        assert_eq!(tun.send(&mut batch).unwrap(), 0);
        assert_eq!((host.recv(), host.recv(), host.recv()), (plain(b"a"), plain(b"b"), None));
        batch.clear();
        assert_eq!(tun.recv(&mut batch).unwrap(), 1);
    }

    #[test]
    fn a_tun_takes_back_what_it_gave_whole_or_in_segments() {
        let mut packet = Vec::new();
        etherparse::PacketBuilder::ipv4([10, 5, 1, 2], [10, 5, 1, 3], 64).udp(7, 9).write(&mut packet, &[3; 250]).unwrap();
        let segment_bytes = 100.try_into().unwrap();
        let segmentation = Some(Segmentation { kind: SegmentKind::Udp, segment_bytes, header_bytes: 28, ecn: false });
        let offload = Offload { checksum: Some(PartialChecksum { start: 20, offset: 6 }), segmentation };
        for (supers, expected) in [(true, &[packet.len(), 28][..]), (false, &[128, 128, 78, 28])] {
            let (tun, host) = tun();
            let mut tun = if supers { tun } else { tun.without_supers() };
            host.send_offloaded(&packet, offload);
            host.send(&packet[..28]);
            let mut batch = Batch::new(2, 1000);
            assert_eq!(tun.recv(&mut batch).unwrap(), 2);
            assert_eq!(tun.send_back(&batch).unwrap(), 0);
            let back: Vec<_> = std::iter::from_fn(|| host.recv()).collect();
            assert_eq!(back.iter().map(|(bytes, _)| bytes.len()).collect::<Vec<_>>(), expected);
            assert_eq!(back[0].1, if supers { offload } else { Offload::default() });
        }
    }
}
