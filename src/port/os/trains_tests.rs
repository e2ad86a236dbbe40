//! Sending against kernels that refuse.

#![allow(clippy::cast_possible_truncation, reason = "few datagrams, and bytes made of counters")]

use proptest::prelude::*;

use super::*;
use crate::net::{Ecn, Endpoint};

/// A datagram as it leaves.
type Arrival = (Vec<u8>, Endpoint, Ecn);

/// A kernel with a way of its own to refuse things.
#[derive(Debug)]
struct Kernel {
    /// What it answers to trains.
    trains: Option<i32>,
    /// Datagrams it cuts of one train.
    segments: usize,
    /// Widest datagram of the path.
    width: usize,
    /// What it says to a train of datagrams wider than that.
    too_wide: i32,
    /// Messages it still has room for, and again after a wait.
    room: [usize; 2],
    /// What it answers to messages first.
    before: Vec<i32>,
    /// Messages of one call.
    burst: usize,
    splitting: bool,
    calls: usize,
    wire: Vec<Arrival>,
}

impl Kernel {
    fn new() -> Self {
        let room = [usize::MAX, 0];
        let (trains, before, wire) = (None, Vec::new(), Vec::new());
        Self {
            trains,
            segments: 128,
            width: 1472,
            too_wide: libc::EMSGSIZE,
            room,
            before,
            burst: 4,
            splitting: false,
            calls: 0,
            wire,
        }
    }

    fn take(&mut self, message: &Outgoing<'_>) -> Result<(), i32> {
        if let Some(errno) = self.before.pop() {
            return Err(errno);
        }
        if self.room[0] == 0 {
            return Err(libc::EAGAIN);
        }
        let segment = usize::from(message.segment_bytes);
        if segment == 0 {
            if message.bytes.len() > self.width && !self.splitting {
                return Err(libc::EMSGSIZE);
            }
            self.wire.push((message.bytes.to_vec(), message.peer, message.ecn));
        } else {
            assert!(message.bytes.len() > segment, "a segment size on a single datagram");
            if segment > self.width {
                return Err(self.too_wide);
            }
            if message.bytes.len().div_ceil(segment) > self.segments {
                return Err(libc::EINVAL);
            }
            if let Some(errno) = self.trains {
                return Err(errno);
            }
            self.wire.extend(message.bytes.chunks(segment).map(|bytes| (bytes.to_vec(), message.peer, message.ecn)));
        }
        self.room[0] -= 1;
        Ok(())
    }
}

impl Outlet for Kernel {
    fn send<'a>(&mut self, messages: impl Iterator<Item = Outgoing<'a>>) -> io::Result<usize> {
        self.calls += 1;
        let mut sent = 0;
        for message in messages.take(self.burst) {
            match self.take(&message) {
                Ok(()) => sent += 1,
                Err(errno) if sent == 0 => return Err(io::Error::from_raw_os_error(errno)),
                Err(_) => break,
            }
        }
        Ok(sent)
    }

    fn set_splitting(&mut self, may_split: bool) -> io::Result<()> {
        assert_ne!(self.splitting, may_split);
        self.splitting = may_split;
        Ok(())
    }

    fn wait_for_room(&mut self) -> io::Result<()> {
        self.room[0] = std::mem::take(&mut self.room[1]);
        Ok(())
    }
}

/// A slot of `count` datagrams of `size` bytes, the last of which has `last`; each filled with `mark` and its number.
fn slot(mark: u8, count: usize, size: u16, last: usize) -> Slot {
    let size_bytes = usize::from(size);
    let len = (count - 1) * size_bytes + last;
    let mut packet = Packet::with_capacity(len);
    let bytes: Vec<u8> = (0..len).map(|at| if (at % size_bytes) % 2 == 0 { mark } else { (at / size_bytes) as u8 }).collect();
    packet.fill(&bytes);
    let peer = Endpoint::from(([192, 0, 2, mark], 8285));
    let segment_bytes = if count > 1 { size } else { 0 };
    (packet, Datagram { peer, ecn: Ecn::ALL[usize::from(mark % 4)], segment_bytes, ..Datagram::default() })
}

/// Each datagram of `slots` as it should arrive, and whether it is said to have been refused.
fn datagrams(slots: &[Slot]) -> Vec<(Arrival, Option<Refusal>)> {
    let of_slot = |(packet, note): &Slot| {
        let (bytes, note) = (packet.bytes().to_vec(), *note);
        let each = (0..note.count(bytes.len())).map(move |at| {
            let refused = note.refused.filter(|refused| refused.contains(at)).map(|refused| refused.reason);
            ((bytes[note.range(at, bytes.len())].to_vec(), note.peer, note.ecn), refused)
        });
        each.collect::<Vec<_>>()
    };
    slots.iter().flat_map(of_slot).collect()
}

fn arrived(kernel: &Kernel, slots: &[Slot]) {
    let expected: Vec<_> = datagrams(slots).into_iter().filter(|(_, refused)| refused.is_none()).map(|(sent, _)| sent).collect();
    assert_eq!(kernel.wire, expected);
    assert!(!kernel.splitting);
}

fn mixed() -> Vec<Slot> {
    vec![slot(1, 1, 900, 900), slot(2, 40, 1400, 1400), slot(3, 3, 600, 1), slot(4, 1, 10, 10), slot(5, 2, 1000, 999)]
}

#[test]
fn trains_leave_whole_while_that_works() {
    let (mut kernel, standing, mut slots) = (Kernel::new(), UdpStanding::new(true, false), mixed());
    assert_eq!(send(&mut kernel, &standing, &mut slots).unwrap(), 0);
    arrived(&kernel, &slots);
    assert_eq!((kernel.calls, standing.gso.is_on(), standing.segments()), (2, true, 128));
}

#[test]
fn without_trains_each_datagram_leaves_by_itself() {
    let (mut kernel, standing, mut slots) = (Kernel::new(), UdpStanding::new(false, false), mixed());
    kernel.trains = Some(libc::EIO);
    assert_eq!(send(&mut kernel, &standing, &mut slots).unwrap(), 0);
    arrived(&kernel, &slots);
    assert!(standing.gso.news().is_none(), "that is no news");
}

/// R11.
#[test]
fn a_train_refused_by_the_offload_is_repeated_singly_and_is_the_last() {
    for errno in [libc::EIO, libc::EINVAL] {
        let (mut kernel, standing) = (Kernel::new(), UdpStanding::new(true, false));
        kernel.trains = Some(errno);
        let mut slots = mixed();
        assert_eq!(send(&mut kernel, &standing, &mut slots).unwrap(), 0, "{errno}");
        arrived(&kernel, &slots);
        assert!(!standing.gso.is_on() && standing.segments() == 1);
        assert_eq!(standing.gso.news().and_then(|error| error.raw_os_error()), Some(errno));

        // Whatever comes later is not even tried as a train, and nothing is said again.
        kernel.trains = Some(libc::EBADF);
        kernel.wire.clear();
        assert_eq!(send(&mut kernel, &standing, &mut slots).unwrap(), 0);
        arrived(&kernel, &slots);
        assert!(standing.gso.news().is_none());
    }
}

#[test]
fn a_kernel_that_cuts_fewer_gets_shorter_trains() {
    let (mut kernel, standing) = (Kernel::new(), UdpStanding::new(true, false));
    kernel.segments = 64;
    let mut slots = vec![slot(1, 65, 100, 100), slot(2, 64, 100, 7), slot(3, 128, 100, 100)];
    assert_eq!(send(&mut kernel, &standing, &mut slots).unwrap(), 0);
    arrived(&kernel, &slots);
    assert_eq!((standing.segments(), standing.gso.is_on()), (64, true));
    // One that refuses these, too, does not cut at all.
    kernel.segments = 1;
    kernel.wire.clear();
    let mut slots = vec![slot(1, 64, 100, 100)];
    assert_eq!(send(&mut kernel, &standing, &mut slots).unwrap(), 0);
    arrived(&kernel, &slots);
    assert_eq!(standing.segments(), 1);
}

#[test]
fn a_narrow_path_is_no_fault_of_the_offload() {
    for too_wide in [libc::EMSGSIZE, libc::EINVAL] {
        let (mut kernel, standing) = (Kernel::new(), UdpStanding::new(true, false));
        (kernel.width, kernel.too_wide) = (500, too_wide);
        let mut slots = vec![slot(1, 1, 600, 600), slot(2, 30, 1400, 1400), slot(3, 30, 501, 500), slot(4, 30, 500, 500)];
        assert_eq!(send(&mut kernel, &standing, &mut slots).unwrap(), 3);
        arrived(&kernel, &slots);
        assert!(standing.gso.is_on() && standing.gso.news().is_none());
        let refused: Vec<_> = datagrams(&slots).iter().map(|(_, refused)| *refused).collect();
        assert!(refused[..60].iter().all(|refused| *refused == Some(Refusal::TooBig)));
        assert!(refused[60..].iter().all(Option::is_none), "the short end of the third slot fits");
        // One call for each finding: single; train, its first; train, its first, the rest.
        assert_eq!(kernel.calls, 6);
    }
}

#[test]
fn what_may_be_split_is_split_in_its_place() {
    let (mut kernel, standing) = (Kernel::new(), UdpStanding::new(true, false));
    kernel.width = 500;
    let mut slots =
        vec![slot(1, 5, 1400, 1400), slot(2, 9, 600, 20), slot(3, 1, 700, 700), slot(4, 2, 600, 600), slot(5, 1, 9, 9)];
    for at in [0, 1, 2] {
        slots[at].1.may_fragment = true;
    }
    assert_eq!(send(&mut kernel, &standing, &mut slots).unwrap(), 1);
    arrived(&kernel, &slots);
    assert_eq!(slots[3].1.refused.map(|refused| (refused.reason, refused.which)), Some((Refusal::TooBig, 0b11)));
}

#[test]
fn a_full_buffer_is_waited_for_once() {
    let (mut kernel, standing) = (Kernel::new(), UdpStanding::new(true, false));
    (kernel.trains, kernel.room) = (Some(libc::EIO), [10, 7]);
    let mut slots = mixed();
    assert_eq!(send(&mut kernel, &standing, &mut slots).unwrap(), 4);
    arrived(&kernel, &slots);
    let refused: Vec<_> = datagrams(&slots).iter().map(|(_, refused)| *refused).collect();
    assert!(refused[..17].iter().all(Option::is_none));
    assert!(refused[17..].iter().all(|refused| *refused == Some(Refusal::NoBuffer)));
}

#[test]
fn errors_of_the_moment_and_of_others_lose_nothing() {
    let (mut kernel, standing, mut slots) = (Kernel::new(), UdpStanding::new(true, false), mixed());
    kernel.before = vec![libc::ECONNREFUSED, libc::EINTR, libc::ECONNREFUSED];
    assert_eq!(send(&mut kernel, &standing, &mut slots).unwrap(), 0);
    arrived(&kernel, &slots);

    // Without a way to the peer the train is lost, and what is behind it is not.
    kernel.wire.clear();
    let mut slots = slots.split_off(1);
    kernel.before = vec![libc::ENETUNREACH];
    assert_eq!(send(&mut kernel, &standing, &mut slots).unwrap(), 1);
    arrived(&kernel, &slots);
    assert!(slots[0].1.refused.is_some_and(|refused| refused.reason == Refusal::Other && refused.contains(39)));
    assert!(standing.gso.is_on());
    kernel.before = vec![libc::EBADF];
    assert_eq!(send(&mut kernel, &standing, &mut slots).unwrap_err().raw_os_error(), Some(libc::EBADF));
}

proptest! {
    /// Whatever the kernel does, each datagram arrives or is said not to have, and those that arrive do so in order.
    #[test]
    fn nothing_is_lost_unsaid_doubled_or_reordered(
        shape in proptest::collection::vec((1usize..=128, 1u16..=600, any::<u16>(), any::<bool>()), 0..6),
        trains in prop_oneof![Just(None), Just(Some(libc::EIO)), Just(Some(libc::EINVAL)), Just(Some(libc::EPERM))],
        segments in prop_oneof![Just(1usize), Just(64), Just(128)],
        width in 1usize..700,
        too_wide in prop_oneof![Just(libc::EMSGSIZE), Just(libc::EINVAL)],
        room in any::<[u8; 2]>(),
        before in proptest::collection::vec(
            prop_oneof![Just(libc::EINTR), Just(libc::ECONNREFUSED), Just(libc::EMSGSIZE), Just(libc::EIO), Just(libc::ENOBUFS), Just(libc::EPERM)], 0..4),
        burst in 1usize..5,
        gso: bool,
    ) {
        let room = room.map(usize::from);
        let mut kernel = Kernel { trains, segments, width, too_wide, room, before, burst, ..Kernel::new() };
        let standing = UdpStanding::new(gso, false);
        let mut slots: Vec<_> = shape.iter().enumerate().map(|(at, (count, size, last, may_fragment))| {
            let mut slot = slot(at as u8 + 1, *count, *size, 1 + usize::from(last % size));
            slot.1.may_fragment = *may_fragment;
            slot
        }).collect();
        let refused = send(&mut kernel, &standing, &mut slots).unwrap();
        prop_assert_eq!(refused, slots.iter().filter(|(_, note)| note.refused.is_some()).count());
        arrived(&kernel, &slots);
        for (_, note) in &slots {
            prop_assert!(note.refused.is_none_or(|refused| refused.which != 0));
        }
    }
}
