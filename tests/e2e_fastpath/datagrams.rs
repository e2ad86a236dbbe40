//! UDP flows of numbered datagrams: each carries its number, a hash and noise, all of which, the size included, follow from
//! the number. So whatever arrives is known to be whole, and to be later than the one before it.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket as StdSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use felt::net::{Ecn, Endpoint};
use felt::sys::netns::Netns;
use felt::sys::udp::{BufferBytes, Outgoing, Sender, UdpSocket};

use crate::noise::Noise;
use crate::support::note;

/// Datagrams that are sent at once, as one train where they are all alike.
const TURN: u32 = 32;
/// How many may be under way, so that no queue on the way overflows.
const UNDER_WAY: u32 = 2 * TURN;
/// A datagram of which nothing is heard for so long is taken for lost.
const LOST: Duration = Duration::from_millis(50);
/// How long the listener waits for the next datagram before it takes the rest for lost.
const SILENCE: Duration = Duration::from_secs(10);
/// Number and hash.
const HEADER: usize = 12;
/// Of UDP over IPv4.
const OVERHEAD: usize = 28;

/// Where a flow begins or ends.
#[derive(Clone, Copy)]
pub struct End<'a> {
    pub netns: &'a Netns,
    pub address: Ipv4Addr,
}

/// What datagrams a flow consists of.
#[derive(Clone, Copy, Debug)]
pub enum Sizes {
    /// Of every kind in turn: 1 to 1472 bytes, trains of equal ones that the sender's kernel handed over in one piece, and
    /// some that are wider than the device, so go in fragments.
    Mixed { mtu: u32 },
    /// As small as can be numbered: these come in at the greatest rate.
    Small,
}

/// What came of it. Whatever arrived was right and in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub sent: u32,
    pub arrived: u32,
}

/// Sends `count` datagrams from one end to the other, whole turns of them.
pub fn flow(from: End<'_>, to: End<'_>, sizes: Sizes, count: u32, seed: u64) -> Report {
    let count = count.next_multiple_of(TURN);
    let plan = Plan { sizes, seed, noise: Noise::new(seed) };
    let speaker = bind(from);
    let listener = bind(to);
    let peer = listener.local();
    let listener = StdSocket::from(listener.as_fd().try_clone_to_owned().unwrap());
    listener.set_nonblocking(false).unwrap();
    listener.set_read_timeout(Some(SILENCE)).unwrap();
    // Of the datagrams that have arrived.
    let next = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| plan.send(&speaker, peer, count, &next));
        Report { sent: count, arrived: plan.listen(&listener, count, &next) }
    })
}

fn bind(end: End<'_>) -> UdpSocket {
    let open = || UdpSocket::bind(SocketAddr::from((end.address, 0)), BufferBytes::default());
    let socket = end.netns.run_in(open).unwrap().unwrap();
    socket.set_splitting(true).unwrap();
    socket
}

struct Plan {
    sizes: Sizes,
    seed: u64,
    noise: Noise,
}

impl Plan {
    /// Payload bytes of a datagram.
    fn size(&self, number: u32) -> usize {
        let Sizes::Mixed { mtu } = self.sizes else { return HEADER };
        let widest = mtu as usize - OVERHEAD;
        let (turn, at) = (number / TURN, number % TURN);
        let random = |of: u32, below: usize| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(self.seed ^ u64::from(of));
            usize::try_from(hasher.finish() % below as u64).unwrap()
        };
        match turn % 8 {
            // Fragments, among others.
            0 if at % 4 == 0 => widest + 1 + random(number, 4 * widest),
            // Trains: all as long as the first, the last one shorter.
            2 | 4 | 6 => {
                let first = HEADER + 1 + random(turn * TURN, widest.min(1472) - HEADER);
                if at == TURN - 1 { 1 + random(number, first - 1) } else { first }
            }
            _ => 1 + random(number, 1472),
        }
    }

    fn payload(&self, number: u32, into: &mut Vec<u8>) {
        let size = self.size(number);
        let noise = self.noise.at(u64::from(number) * 1_531, size);
        let mut hasher = DefaultHasher::new();
        hasher.write_u32(number);
        hasher.write(noise);
        let header = [&number.to_le_bytes()[..], &hasher.finish().to_le_bytes()].concat();
        into.extend(&header[..size.min(HEADER)]);
        into.extend(&noise[size.min(HEADER)..]);
    }

    fn send(&self, speaker: &UdpSocket, peer: Endpoint, count: u32, next: &AtomicU32) {
        let mut sender = Sender::new(TURN as usize);
        for first in (0..count).step_by(TURN as usize) {
            let begin = Instant::now();
            while first.saturating_sub(next.load(Ordering::Relaxed)) > UNDER_WAY - TURN && begin.elapsed() < LOST {
                thread::sleep(Duration::from_micros(100));
            }
            let (mut bytes, mut ends) = (Vec::new(), vec![0]);
            for number in first..first + TURN {
                self.payload(number, &mut bytes);
                ends.push(bytes.len());
            }
            let sizes: Vec<usize> = ends.windows(2).map(|ends| ends[1] - ends[0]).collect();
            let (last, others) = sizes.split_last().unwrap();
            let message = |bytes, segment_bytes| Outgoing { bytes, peer, ecn: Ecn::NotEct, segment_bytes };
            let messages = if others.iter().all(|size| *size == others[0] && last <= size) {
                vec![message(&bytes[..], u16::try_from(others[0]).unwrap())]
            } else {
                ends.windows(2).map(|ends| message(&bytes[ends[0]..ends[1]], 0)).collect()
            };
            let mut left = &messages[..];
            while !left.is_empty() {
                match speaker.send(&mut sender, left.iter().copied()) {
                    Ok(sent) => left = &left[sent..],
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => thread::sleep(Duration::from_micros(100)),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// How many arrived.
    fn listen(&self, listener: &StdSocket, count: u32, next: &AtomicU32) -> u32 {
        let (mut buffer, mut expected) = (vec![0; 65_536], Vec::new());
        let (mut due, mut arrived) = (0, 0);
        while due < count
            && let Ok(len) = listener.recv(&mut buffer)
        {
            let found = &buffer[..len];
            let number = number(found, due);
            let in_order = (due..count).contains(&number);
            if in_order {
                expected.clear();
                self.payload(number, &mut expected);
            }
            if !in_order || found != expected {
                // The speaker need not go on.
                next.store(count, Ordering::Relaxed);
                assert!(in_order, "{number} came when {due} was due");
                panic!("datagram {number} of {} bytes is altered: {len} bytes came, {due} was due", expected.len());
            }
            (due, arrived) = (number + 1, arrived + 1);
            next.store(due, Ordering::Relaxed);
        }
        if due < count {
            note(&format!("of {count} datagrams {arrived} came until none did for {SILENCE:?}, when {due} was due"));
        }
        // Those on the way may all be lost.
        next.store(count, Ordering::Relaxed);
        arrived
    }
}

/// The number in a datagram; the next that ends in such bytes if it is too short for a whole one.
fn number(payload: &[u8], due: u32) -> u32 {
    let mut bytes = [0; 4];
    let len = payload.len().min(4);
    bytes[..len].copy_from_slice(&payload[..len]);
    let found = u32::from_le_bytes(bytes);
    if len == 4 {
        return found;
    }
    let mask = (1 << (8 * len)) - 1;
    due + (found.wrapping_sub(due) & mask)
}

#[test]
fn short_datagrams_are_known_by_what_was_due() {
    assert_eq!(number(&[7, 0, 0, 1, 9], 5), 0x0100_0007);
    assert_eq!((number(&[0xff], 0x01fd), number(&[0x02], 0x01fd), number(&[0, 2], 0x01fd)), (0x01ff, 0x0202, 0x0200));
}

/// Has a listener hear these datagrams of a flow of mixed sizes, after `change` has been made to each.
fn hear(numbers: &[u32], change: impl Fn(&mut Vec<u8>)) -> u32 {
    let plan = Plan { sizes: Sizes::Mixed { mtu: 1472 }, seed: 1, noise: Noise::new(1) };
    let [speaker, listener] = [(); 2].map(|()| StdSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listener.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    for number in numbers {
        let mut bytes = Vec::new();
        plan.payload(*number, &mut bytes);
        change(&mut bytes);
        speaker.send_to(&bytes, listener.local_addr().unwrap()).unwrap();
    }
    plan.listen(&listener, 4 * TURN, &AtomicU32::new(0))
}

#[test]
fn loss_is_told() {
    assert_eq!(hear(&[0, 1, 2, 33, 34, 90], |_| {}), 6);
}

#[test]
#[should_panic(expected = "33 came when 35 was due")]
fn disorder_is_noticed() {
    hear(&[32, 34, 33], |_| {});
}

#[test]
#[should_panic(expected = "datagram 0 of")]
fn damage_is_noticed() {
    hear(&[0, 1], |bytes| *bytes.last_mut().unwrap() ^= 1);
}

#[test]
#[should_panic(expected = "datagram 32 of")]
fn a_wrong_length_is_noticed() {
    hear(&[32], |bytes| bytes.truncate(bytes.len() - 1));
}
