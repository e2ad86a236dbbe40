//! TUN queues against the running kernel. Needs root.

mod sys_support;

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

use felt::buf::Batch;
use felt::net::{Offload, Supers};
use felt::port::TunPort;
use felt::port::os::{OsTun, TurnLimit};
use felt::sys::netlink::{LinkKind, Netlink, Route};
use felt::sys::poll::{self, Interest};
use felt::sys::tun::{Multiqueue, TunError, TunQueue};
use sys_support::TestNetns;

fn inside<T: Send>(purpose: &str, work: impl FnOnce(&Netlink) -> T + Send) -> T {
    TestNetns::new(purpose).run_in(|| work(&Netlink::open().unwrap())).unwrap()
}

fn up(netlink: &Netlink, name: &str) -> u32 {
    let link = netlink.link(name).unwrap();
    netlink.set_up(link.index).unwrap();
    link.index
}

#[test]
fn a_template_takes_the_first_free_number() {
    inside("tpl", |netlink| {
        let first = TunQueue::open("flannel%d", Multiqueue::No).unwrap();
        let second = TunQueue::open("flannel%d", Multiqueue::Yes).unwrap();
        assert_eq!((first.name(), second.name()), ("flannel0", "flannel1"));
        assert_eq!(netlink.link("flannel0").unwrap().kind, Some(LinkKind::Tun));
        drop(first);
        assert!(netlink.find_link("flannel0").unwrap().is_none(), "not persistent: gone with its queue");
    });
}

#[test]
fn refusals_are_told_apart() {
    inside("refused", |netlink| {
        let single = TunQueue::open("felt0", Multiqueue::No).unwrap();
        assert!(matches!(TunQueue::open("felt0", Multiqueue::No).unwrap_err(), TunError::Busy { device } if device == "felt0"));
        assert!(matches!(TunQueue::open("felt0", Multiqueue::Yes).unwrap_err(), TunError::OtherKind { .. }));
        netlink.create_bridge("br0").unwrap();
        assert!(matches!(TunQueue::open("br0", Multiqueue::No).unwrap_err(), TunError::OtherKind { .. }));
        assert!(matches!(TunQueue::open("a b", Multiqueue::No).unwrap_err(), TunError::InvalidName { .. }));
        drop(single);
        let queues = [(); 2].map(|()| TunQueue::open("felt0", Multiqueue::Yes).unwrap());
        assert!(queues.iter().all(|queue| queue.name() == "felt0"));
    });
}

#[test]
fn a_persistent_device_is_found_again() {
    inside("persist", |netlink| {
        let queue = TunQueue::open("felt0", Multiqueue::No).unwrap();
        queue.set_persistent(true).unwrap();
        let index = netlink.link("felt0").unwrap().index;
        drop(queue);
        let queue = TunQueue::open("felt0", Multiqueue::No).unwrap();
        assert_eq!(netlink.link("felt0").unwrap().index, index);
        queue.set_persistent(false).unwrap();
        drop(queue);
        assert!(netlink.find_link("felt0").unwrap().is_none());
    });
}

#[test]
fn packets_pass_in_batches_both_ways() {
    inside("pass", |netlink| {
        let mut port = OsTun::new(TunQueue::open("felt0", Multiqueue::No).unwrap(), TurnLimit::NONE, Supers::default());
        let index = up(netlink, "felt0");
        netlink.add_address(index, "10.5.1.0/32".parse().unwrap()).unwrap();
        netlink.add_route(&Route::new("10.5.0.0/16".parse().unwrap()).device(index)).unwrap();
        let mut batch = Batch::new(4, 1500);
        while port.recv(&mut batch).unwrap() > 0 {
            batch.clear(); // What IPv6 has to say on a new device.
        }
        let socket = UdpSocket::bind("10.5.1.0:9000").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        for text in [b"one", b"two"] {
            socket.send_to(text, "10.5.2.2:9000").unwrap();
        }
        assert_eq!(poll::wait(&mut [Interest::readable(port.as_fd())], Some(Duration::from_secs(5))).unwrap(), 1);
        let mut mine = Batch::<Offload>::new(8, 1500);
        while mine.len() < 2 {
            batch.clear();
            port.recv(&mut batch).unwrap();
            for (packet, offload) in batch.used_mut() {
                if packet.bytes()[0] >> 4 == 4 {
                    assert!(mine.swap_in(packet, *offload));
                }
            }
        }
        assert_eq!(mine.used()[0].0.bytes()[28..], *b"one");
        assert_eq!(mine.used()[1].0.bytes()[16..20], [10, 5, 2, 2]);

        // Turned round, the packets are answers: swapping both addresses keeps the checksums right.
        for (packet, _) in mine.used_mut() {
            let (from, to) = packet.bytes_mut()[12..20].split_at_mut(4);
            from.swap_with_slice(to);
        }
        mine.vacant().unwrap().0.fill(b"\0 no IP packet: version 0");
        mine.commit(1);
        assert_eq!(port.send(&mut mine).unwrap(), 1, "one refused, the others went");
        let mut buffer = [0; 16];
        for text in [b"one", b"two"] {
            let (length, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from.to_string().as_str()), (&text[..], "10.5.2.2:9000"));
        }
    });
}

#[test]
fn a_device_that_is_down_refuses_and_one_that_is_gone_fails() {
    inside("gone", |netlink| {
        let mut port = OsTun::new(TunQueue::open("felt0", Multiqueue::No).unwrap(), TurnLimit::NONE, Supers::default());
        let index = up(netlink, "felt0");
        let mut batch = Batch::<()>::new(4, 1500);
        batch.vacant().unwrap().0.fill(&[0x45; 40]);
        batch.commit(1);
        netlink.set_down(index).unwrap();
        assert_eq!(port.send(&mut batch).unwrap(), 1);
        let mut empty = Batch::new(4, 1500);
        while port.recv(&mut empty).unwrap() > 0 {
            empty.clear();
        }

        netlink.delete_link(index).unwrap();
        let mut interests = [Interest::readable(port.as_fd())];
        assert_eq!(poll::wait(&mut interests, Some(Duration::from_secs(5))).unwrap(), 1);
        assert!(interests[0].is_broken());
        let gone = |error: io::Error| assert_eq!(error.raw_os_error(), Some(libc::EBADFD));
        gone(port.recv(&mut Batch::new(4, 1500)).unwrap_err());
        gone(port.send(&mut batch).unwrap_err());
        // The name is free again at once.
        TunQueue::open("felt0", Multiqueue::Yes).unwrap();
    });
}
