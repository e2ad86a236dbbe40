//! Writing to kernels that refuse super-packets.

#![allow(clippy::cast_possible_truncation, reason = "few packets, small ones, and bytes made of counters")]

use std::num::NonZeroU16;

use super::*;
use crate::net::{PartialChecksum, Segmentation};

const HEADER: usize = 40;

/// A kernel with a way of its own to refuse things.
#[derive(Debug, Default)]
struct Kernel {
    /// What it answers to packets wider than the MTU.
    wide: Option<i32>,
    /// What it answers to real super-packets only.
    real: Option<i32>,
    /// What it answers to everything.
    all: Option<i32>,
    /// The packets that got in, and how many super-packets it was asked to take.
    host: Vec<Vec<u8>>,
    asked: usize,
}

impl Inward for Kernel {
    fn write<'a>(&mut self, offload: &Offload, parts: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        let parts: Vec<_> = parts.collect();
        let bytes = parts.concat();
        let is_super = offload.segmentation.is_some();
        assert!(is_super || *offload == Offload::default());
        assert!(parts.len() < WRITE_PARTS);
        self.asked += usize::from(is_super);
        let is_probe = bytes[12..16] == [255; 4];
        let errno = self.all.or(self.wide.filter(|_| bytes.len() > 1472)).or(self.real.filter(|_| is_super && !is_probe));
        if let Some(errno) = errno {
            return Err(io::Error::from_raw_os_error(errno));
        }
        if !is_probe {
            self.host.push(bytes);
        }
        Ok(())
    }
}

/// A slot of `count` packets of `size` bytes each, all different, and what they are in one super-packet of `kind`.
fn memory(count: usize, size: usize) -> Batch<Datagram> {
    let mut memory = Batch::<Datagram>::new(1, count * size);
    let bytes: Vec<u8> = (0..count * size).map(|at| (at / size + at % size) as u8 ^ 0x55).collect();
    memory.vacant().unwrap().0.fill(&bytes);
    memory.commit(1);
    memory
}

fn merge(gather: &mut Gather, from: usize, count: usize, size: usize, kind: SegmentKind) {
    let piece = |at: usize, skip: usize| Piece { slot: 0, start: ((from + at) * size + skip) as u32, len: (size - skip) as u32 };
    let number = gather.push(piece(0, 0)).unwrap();
    (1..count).for_each(|at| assert!(gather.append(number, piece(at, HEADER))));
    let segment_bytes = NonZeroU16::new((size - HEADER) as u16).unwrap();
    let segmentation = Some(Segmentation { kind, segment_bytes, header_bytes: HEADER as u16, ecn: false });
    let checksum = Some(PartialChecksum { start: 20, offset: 16 });
    if count > 1 {
        assert!(gather.crown(number, &[number as u8; HEADER], Offload { checksum, segmentation }));
    }
}

/// Ten packets: one alone, six as TCP, three as UDP.
fn mixed() -> (Gather, Batch<Datagram>, Vec<Vec<u8>>) {
    let mut gather = Gather::new(8, 100);
    merge(&mut gather, 0, 1, 1000, SegmentKind::Tcp4);
    merge(&mut gather, 1, 6, 1000, SegmentKind::Tcp6);
    merge(&mut gather, 7, 3, 1000, SegmentKind::Udp);
    let memory = memory(10, 1000);
    let originals = memory.used()[0].0.bytes().chunks(1000).map(<[u8]>::to_vec).collect();
    (gather, memory, originals)
}

fn on() -> TunStanding {
    TunStanding { tso: Switch::new(true), uso: Switch::new(true) }
}

fn wholes(originals: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let join = |header: u8, packets: &[Vec<u8>]| {
        packets.iter().fold(vec![header; HEADER], |whole, packet| [&whole[..], &packet[HEADER..]].concat())
    };
    vec![originals[0].clone(), join(1, &originals[1..7]), join(2, &originals[7..])]
}

#[test]
fn super_packets_get_in_whole() {
    let (gather, memory, originals) = mixed();
    let (mut kernel, standing) = (Kernel::default(), on());
    assert_eq!(send(&mut kernel, &standing, &mut Doubts::default(), &gather, &memory).unwrap(), 0);
    assert_eq!((kernel.host, kernel.asked), (wholes(&originals), 2));
    assert!(standing.tso.is_on() && standing.uso.is_on());
}

/// R14.
#[test]
fn a_kernel_that_refuses_what_is_wide_gets_every_packet_by_itself() {
    for errno in [libc::EINVAL, libc::EIO] {
        let (gather, memory, originals) = mixed();
        let (mut kernel, standing, mut doubts) = (Kernel { wide: Some(errno), ..Kernel::default() }, on(), Doubts::default());
        assert_eq!(send(&mut kernel, &standing, &mut doubts, &gather, &memory).unwrap(), 0);
        assert_eq!((&kernel.host, kernel.asked), (&originals, 4), "each kind once, and once as a probe");
        for switch in [&standing.tso, &standing.uso] {
            assert_eq!(switch.news().and_then(|error| error.raw_os_error()), Some(errno));
            assert!(switch.news().is_none() && !switch.is_on());
        }
        // From then on nobody asks.
        kernel.host.clear();
        assert_eq!(send(&mut kernel, &standing, &mut doubts, &gather, &memory).unwrap(), 0);
        assert_eq!((&kernel.host, kernel.asked), (&originals, 4));
        assert!(standing.tso.news().is_none() && standing.uso.news().is_none());
    }
}

#[test]
fn an_odd_packet_ends_nothing_but_many_in_a_row_do() {
    let (gather, memory, originals) = mixed();
    let (mut kernel, standing, mut doubts) = (Kernel { real: Some(libc::EINVAL), ..Kernel::default() }, on(), Doubts::default());
    for _ in 1..PATIENCE {
        kernel.host.clear();
        assert_eq!(send(&mut kernel, &standing, &mut doubts, &gather, &memory).unwrap(), 0);
        assert_eq!(kernel.host, originals);
        assert!(standing.tso.is_on() && standing.uso.is_on());
    }
    // One that is taken makes up for all that were not.
    kernel.real = None;
    send(&mut kernel, &standing, &mut doubts, &gather, &memory).unwrap();
    kernel.real = Some(libc::EINVAL);
    for _ in 0..PATIENCE {
        assert!(standing.tso.is_on() && standing.uso.is_on());
        assert_eq!(send(&mut kernel, &standing, &mut doubts, &gather, &memory).unwrap(), 0);
    }
    assert!(standing.tso.news().is_some() && standing.uso.news().is_some());
}

#[test]
fn a_device_that_is_down_or_out_of_memory_is_no_fault_of_the_offload() {
    let (gather, memory, originals) = mixed();
    let (mut kernel, standing, mut doubts) = (Kernel { all: Some(libc::EIO), ..Kernel::default() }, on(), Doubts::default());
    for _ in 0..2 * PATIENCE {
        assert_eq!(send(&mut kernel, &standing, &mut doubts, &gather, &memory).unwrap(), originals.len());
    }
    assert!(!probe::probe(&mut kernel, &standing).unwrap(), "nothing to be found out");
    kernel = Kernel { wide: Some(libc::ENOMEM), ..Kernel::default() };
    for _ in 0..2 * PATIENCE {
        assert_eq!(send(&mut kernel, &standing, &mut doubts, &gather, &memory).unwrap(), 0);
    }
    assert!(standing.tso.is_on() && standing.uso.is_on());
    kernel.all = Some(libc::EBADFD);
    assert_eq!(send(&mut kernel, &standing, &mut doubts, &gather, &memory).unwrap_err().raw_os_error(), Some(libc::EBADFD));
    assert!(probe::probe(&mut kernel, &standing).is_err());
}

#[test]
fn a_probe_finds_out_beforehand() {
    let (mut kernel, standing) = (Kernel::default(), on());
    assert!(probe::probe(&mut kernel, &standing).unwrap() && standing.tso.is_on() && standing.uso.is_on());
    kernel.wide = Some(libc::EINVAL);
    assert!(probe::probe(&mut kernel, &standing).unwrap() && !standing.tso.is_on() && !standing.uso.is_on());
    assert!(kernel.host.is_empty());
}

#[test]
fn what_has_too_many_pieces_for_one_write_goes_as_it_came() {
    let (count, size) = (WRITE_PARTS, HEADER + 1);
    let memory = memory(count, size);
    for (count, whole) in [(WRITE_PARTS - 2, true), (WRITE_PARTS, false)] {
        let mut gather = Gather::new(1, count);
        merge(&mut gather, 0, count, size, SegmentKind::Tcp4);
        let (mut kernel, standing) = (Kernel::default(), on());
        assert_eq!(send(&mut kernel, &standing, &mut Doubts::default(), &gather, &memory).unwrap(), 0);
        assert_eq!(kernel.host.len(), if whole { 1 } else { count });
        assert!(standing.tso.is_on());
    }
}
