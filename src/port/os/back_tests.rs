//! Writing back to kernels that do not take what they gave.

#![allow(clippy::cast_possible_truncation, reason = "bytes made of counters, and lengths of packets")]

use std::num::NonZeroU16;

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};

use super::super::standing::Switch;
use super::*;
use crate::net::{PartialChecksum, SegmentKind, Segmentation};

const STEP: usize = 1_000;

/// A kernel that may refuse to do anything that is left to do.
#[derive(Default)]
struct Kernel {
    /// What it answers to super-packets.
    supers: Option<i32>,
    /// What it answers to a partial checksum, of a super-packet or not.
    partial: Option<i32>,
    /// What it answers to everything.
    all: Option<i32>,
    host: Vec<(Vec<u8>, Offload)>,
    asked: usize,
}

impl Inward for Kernel {
    fn write<'a>(&mut self, offload: &Offload, parts: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        let bytes: Vec<u8> = parts.flatten().copied().collect();
        let is_super = offload.segmentation.is_some();
        self.asked += usize::from(is_super);
        let partial = self.partial.filter(|_| offload.checksum.is_some());
        if let Some(errno) = self.all.or(self.supers.filter(|_| is_super)).or(partial) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        if bytes[12..16] != [255; 4] {
            self.host.push((bytes, *offload));
        }
        Ok(())
    }
}

/// A TCP packet as a TUN hands it over, `count` segments long, with nothing in its checksum field that is of use.
fn read_packet(source_port: u16, count: usize) -> (Vec<u8>, Offload) {
    let payload: Vec<u8> = (0..count * STEP - 7).map(|at| (at / 251 + at) as u8).collect();
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4([10, 5, 1, 2], [10, 5, 1, 3], 63).tcp(source_port, 80, 77, 4096).ack(5);
    builder.write(&mut packet, &payload).unwrap();
    let pseudo = u32::from(u16::from_be_bytes([packet[36], packet[37]]));
    // Partial: what is there now, with the rest taken out, which is what adding the rest will put back.
    packet[36..38].copy_from_slice(&[0, 0]);
    let rest = crate::wire::checksum::sum(&packet[20..]);
    let partial = (0xffff - pseudo) + 0xffff - u32::from(rest);
    let partial = (partial & 0xffff) + (partial >> 16);
    packet[36..38].copy_from_slice(&u16::try_from(partial).unwrap().to_be_bytes());
    let segment_bytes = NonZeroU16::new(STEP as u16).unwrap();
    let segmentation = Segmentation { kind: SegmentKind::Tcp4, segment_bytes, header_bytes: 40, ecn: false };
    let checksum = Some(PartialChecksum { start: 20, offset: 16 });
    (packet, Offload { checksum, segmentation: (count > 1).then_some(segmentation) })
}

/// Some of a plain packet (0), a super-packet of three (1), and one whose checksum is partial (2).
fn batch(wanted: &[usize]) -> Batch<Offload> {
    let mut batch = Batch::<Offload>::new(4, SEGMENT_BYTES);
    let kinds = [(read_packet(1, 1).0, Offload::default()), read_packet(2, 3), read_packet(3, 1)];
    for (bytes, offload) in wanted.iter().map(|kind| &kinds[*kind]) {
        let (packet, note) = batch.vacant().unwrap();
        packet.fill(bytes);
        *note = *offload;
        batch.commit(1);
    }
    batch
}

fn on() -> TunStanding {
    TunStanding { tso: Switch::new(true), uso: Switch::new(true) }
}

fn back(kernel: &mut Kernel, standing: &TunStanding, wanted: &[usize]) -> io::Result<usize> {
    let mut room = vec![0; SEGMENT_BYTES];
    send(kernel, standing, &mut Doubts::default(), &batch(wanted), &mut room)
}

/// Source port and payload of each packet that got in, its checksums found right.
fn payloads(kernel: &Kernel) -> Vec<(u16, Vec<u8>)> {
    let read = |(bytes, offload): &(Vec<u8>, Offload)| {
        assert_eq!(*offload, Offload::default());
        let sliced = SlicedPacket::from_ip(bytes).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("{sliced:?}") };
        let sum = tcp.to_header().calc_checksum_ipv4_raw([10, 5, 1, 2], [10, 5, 1, 3], tcp.payload()).unwrap();
        assert_eq!(tcp.checksum(), sum);
        (tcp.source_port(), tcp.payload().to_vec())
    };
    kernel.host.iter().map(read).collect()
}

#[test]
fn packets_go_back_as_they_came_in_their_order() {
    let (mut kernel, batch) = (Kernel::default(), batch(&[2, 0, 1]));
    assert_eq!(back(&mut kernel, &on(), &[2, 0, 1]).unwrap(), 0);
    let expected: Vec<_> = batch.used().iter().map(|(packet, offload)| (packet.bytes().to_vec(), *offload)).collect();
    assert_eq!(kernel.host, expected);
    assert_eq!(back(&mut kernel, &on(), &[]).unwrap(), 0);
    assert_eq!(kernel.host.len(), 3);
}

#[test]
fn a_super_packet_that_is_refused_goes_back_in_segments() {
    for errno in [libc::EINVAL, libc::EIO] {
        let (mut kernel, standing) = (Kernel { supers: Some(errno), partial: Some(errno), ..Kernel::default() }, on());
        assert_eq!(back(&mut kernel, &standing, &[1, 2]).unwrap(), 0);
        let (whole, single) = (read_packet(2, 3).0, read_packet(3, 1).0);
        let mut expected: Vec<_> = whole[40..].chunks(STEP).map(|payload| (2, payload.to_vec())).collect();
        expected.push((3, single[40..].to_vec()));
        assert_eq!(payloads(&kernel), expected);
        // The probe was refused too, so the next one is not tried whole.
        assert!(!standing.tso.is_on() && standing.uso.is_on() && kernel.asked == 2);
        assert_eq!(back(&mut kernel, &standing, &[1]).unwrap(), 0);
        assert_eq!((kernel.asked, payloads(&kernel).len()), (2, 7));
    }
}

#[test]
fn a_device_that_is_down_refuses_all_and_one_that_is_gone_ends_it() {
    let (mut kernel, standing) = (Kernel { all: Some(libc::EIO), ..Kernel::default() }, on());
    assert_eq!(back(&mut kernel, &standing, &[0, 1, 2]).unwrap(), 5);
    assert!(standing.tso.is_on() && kernel.host.is_empty());
    kernel.all = Some(libc::EBADFD);
    for slot in [0, 1, 2] {
        assert_eq!(back(&mut kernel, &standing, &[slot]).unwrap_err().raw_os_error(), Some(libc::EBADFD));
    }
}
