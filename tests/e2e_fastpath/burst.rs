//! Bursts (R09): what the buffers hold is not lost, and what they do not hold is counted.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket as StdSocket};
use std::os::fd::AsFd as _;
use std::time::Duration;

use felt::lab::LabPlan;
use felt::sys::udp::{BufferBytes, UdpSocket};

use crate::support::{Flannel, Inner, PATIENCE, StoppedThread, eventually, metrics, node, note, plan, pod, pod_address};
use crate::support::{receive_overflows, up};

const BURST: u32 = 5_000;
/// Bytes of an inner packet, with its headers.
const WIDTH: usize = 1_400;
/// Of `BURST`, what may be lost of a burst that the buffers hold: nothing at the socket, but the kernel's own queues between
/// the devices of a lab are short.
const BUDGET: u32 = BURST / 100;

/// What came of a burst at the node that was asked for buffers of `buffer` bytes: how many of it arrived, and how many the
/// metrics say that the buffer had no room for.
fn burst(name: &str, buffer: usize) -> (u32, u64) {
    let run_args = vec![format!("--udp-buffer={buffer}")];
    let lab = up(LabPlan { run_args, ..plan(name, 1) });
    let peer = Flannel::join(&lab, 77, true, None);
    Flannel::wait_known(&lab, 1);
    let (netns, own) = (node(&lab, 1), pod_address(&lab, 1));
    let before = metrics(&netns);
    for name in ["felt_receive_buffer_bytes", "felt_send_buffer_bytes"] {
        // The kernel counts what it grants twice.
        assert_eq!(before.value(name), 2 * buffer as u64, "{name}");
    }
    let open = || UdpSocket::bind(SocketAddr::from((own, 0)), BufferBytes::default());
    let listener = pod(&lab, 1).run_in(open).unwrap().unwrap();
    let port = listener.local().port();
    let listener = StdSocket::from(listener.as_fd().try_clone_to_owned().unwrap());
    listener.set_nonblocking(false).unwrap();
    listener.set_read_timeout(Some(Duration::from_secs(1))).unwrap();

    // All of it is there before the worker looks once.
    let stopped = StoppedThread::of(lab.node(1).unwrap().running_pid().unwrap(), "worker 0 in");
    let overflows = receive_overflows(&netns);
    send_burst(&peer, lab.plan().underlay(1), (own, port));
    drop(stopped);
    let (mut arrived, mut bytes) = (0, vec![0; 2048]);
    while arrived < BURST
        && let Ok(len) = listener.recv(&mut bytes)
    {
        let number = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert!(number >= arrived && bytes[..len] == payload(number), "{number} after {arrived} others");
        arrived += 1;
    }
    let lost = receive_overflows(&netns) - overflows;
    let counted = || metrics(&netns).value("felt_receive_overflows_total") - before.value("felt_receive_overflows_total");
    eventually("what was lost is counted", PATIENCE, || (counted() == lost).then_some(()));
    assert_eq!(metrics(&netns).drops_since(&before), []);
    note(&format!("buffer {buffer}: {arrived} of {BURST} arrived, {lost} had no room"));
    (arrived, lost)
}

fn payload(number: u32) -> Vec<u8> {
    let mut payload = vec![u8::try_from(number % 251).unwrap(); WIDTH - 28];
    payload[..4].copy_from_slice(&number.to_le_bytes());
    payload
}

fn send_burst(peer: &Flannel, underlay: Ipv4Addr, to: (Ipv4Addr, u16)) {
    let packets: Vec<_> = (0..BURST).map(|number| Inner::new((peer.pod(3), 7), to, &payload(number)).bytes()).collect();

    for packet in &packets {
        peer.socket.send_to(packet, (underlay, 8285)).unwrap();
    }
}

#[test]
fn a_burst_that_the_buffers_hold_arrives() {
    let (arrived, lost) = burst("burst", 16 << 20);
    assert!(lost == 0 && arrived >= BURST - BUDGET, "{arrived} {lost}");
}

#[test]
fn a_burst_that_they_do_not_hold_is_counted() {
    let (arrived, lost) = burst("flood", 256 << 10);
    assert!(lost > 0 && u64::from(arrived) + lost >= u64::from(BURST - BUDGET), "{arrived} {lost}");
    assert!(arrived > 50, "what there was room for");
}
