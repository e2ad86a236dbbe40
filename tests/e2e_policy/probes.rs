//! Real packets between pods: what answers, and whether it did.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use felt::lab::Interrupt;
use felt::lab::probe::ping;
use felt::net::{FlowKey, Protocol};
use felt::sys::netns::Netns;
use socket2::{Domain, Socket, Type};

/// How long an answer is waited for. Refusals are silent, so each takes as long.
const PATIENCE: Duration = Duration::from_millis(700);
/// How often a server looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(50);
/// Bytes of a datagram that crosses every link of a lab in several fragments.
const FRAGMENTED: usize = 4_000;
/// IP's number for SCTP.
const SCTP: i32 = 132;
/// Bytes of an IPv4 header.
const IP_LEN: usize = 20;

/// What is sent from pod to pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A TCP connection, with a byte there and back.
    Tcp(u16),
    /// A UDP datagram and its echo.
    Udp(u16),
    /// The same in fragments.
    Fragments(u16),
    /// One packet of the protocol; nobody speaks it here, so its arrival is all.
    Sctp(u16),
    /// An echo request and its reply.
    Ping,
}

/// A pod: where it is, and what answers there.
pub struct Pod {
    pub name: String,
    pub netns: Netns,
    pub address: Ipv4Addr,
    stop: Arc<AtomicBool>,
    servers: Vec<JoinHandle<()>>,
}

impl Probe {
    /// The flow that policy is asked about.
    pub fn key(self, from: Ipv4Addr, to: Ipv4Addr) -> FlowKey {
        let (protocol, port) = match self {
            Self::Tcp(port) => (Protocol::TCP, port),
            Self::Udp(port) | Self::Fragments(port) => (Protocol::UDP, port),
            Self::Sctp(port) => (Protocol::SCTP, port),
            Self::Ping => (Protocol::ICMP, 0),
        };
        FlowKey::new(protocol, (from.into(), if port == 0 { 0 } else { 40_000 }), (to.into(), port))
    }

    /// Whether it gets from one pod to the other, and its answer back.
    pub fn passes(self, from: &Pod, to: &Pod) -> bool {
        match self {
            Self::Tcp(port) => connect(from, to, port).is_some(),
            Self::Udp(port) => echoed(from, to, port, 16),
            Self::Fragments(port) => echoed(from, to, port, FRAGMENTED),
            Self::Sctp(port) => arrives(from, to, port),
            Self::Ping => ping(&from.netns, to.address, PATIENCE, &Interrupt::new()).unwrap().is_some(),
        }
    }
}

impl Pod {
    /// A pod whose `tcp` and `udp` ports answer with what they are sent.
    pub fn serving(name: &str, netns: Netns, address: Ipv4Addr, tcp: &[u16], udp: &[u16]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut servers = Vec::new();
        for port in tcp {
            let listener = netns.run_in(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port))).unwrap().unwrap();
            listener.set_nonblocking(true).unwrap();
            let stop = Arc::clone(&stop);
            servers.push(thread::spawn(move || answer_connections(&listener, &stop)));
        }
        for port in udp {
            let socket = netns.run_in(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, *port))).unwrap().unwrap();
            socket.set_read_timeout(Some(GLANCE)).unwrap();
            let stop = Arc::clone(&stop);
            servers.push(thread::spawn(move || answer_datagrams(&socket, &stop)));
        }
        Self { name: name.to_owned(), netns, address, stop, servers }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for server in self.servers.drain(..) {
            server.join().unwrap();
        }
    }
}

/// A connection over which a byte went there and back.
pub fn connect(from: &Pod, to: &Pod, port: u16) -> Option<TcpStream> {
    let address = SocketAddrV4::new(to.address, port).into();
    let mut stream = from.netns.run_in(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap().ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    exchange(&mut stream).then_some(stream)
}

/// Whether a byte sent over `stream` comes back.
pub fn exchange(stream: &mut TcpStream) -> bool {
    stream.write_all(&[7]).is_ok() && stream.read_exact(&mut [0]).is_ok()
}

fn echoed(from: &Pod, to: &Pod, port: u16, bytes: usize) -> bool {
    let socket = from.netns.run_in(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let sent: Vec<u8> = (0..bytes).map(|at| u8::try_from(at % 251).unwrap()).collect();
    if socket.send_to(&sent, (to.address, port)).is_err() {
        return false;
    }
    let mut buffer = [0; 8_192];
    socket.recv(&mut buffer).is_ok_and(|length| buffer[..length] == sent)
}

fn arrives(from: &Pod, to: &Pod, port: u16) -> bool {
    let raw = |netns: &Netns| {
        netns.run_in(|| Socket::new(Domain::IPV4, Type::RAW, Some(socket2::Protocol::from(SCTP)))).unwrap().unwrap()
    };
    let (sender, receiver) = (raw(&from.netns), raw(&to.netns));
    receiver.set_read_timeout(Some(GLANCE)).unwrap();
    // Common header and an INIT chunk; the tag tells probes apart that run at the same time.
    let tag = from.address.octets();
    let mut packet = Vec::new();
    packet.extend(40_000_u16.to_be_bytes());
    packet.extend(port.to_be_bytes());
    packet.extend(tag);
    packet.extend([0; 4]);
    packet.extend([1, 0, 0, 20]);
    packet.extend([0; 16]);
    sender.send_to(&packet, &SocketAddrV4::new(to.address, 0).into()).unwrap();
    let (begin, mut buffer) = (Instant::now(), [0; 2048]);
    while begin.elapsed() < PATIENCE {
        if let Ok(length) = (&receiver).read(&mut buffer)
            && buffer[..length].get(IP_LEN..) == Some(&packet[..])
        {
            return true;
        }
    }
    false
}

fn answer_connections(listener: &TcpListener, stop: &Arc<AtomicBool>) {
    let mut served = Vec::new();
    while !stop.load(Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            thread::sleep(Duration::from_millis(2));
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(GLANCE)).unwrap();
        let stop = Arc::clone(stop);
        served.push(thread::spawn(move || {
            let mut buffer = [0; 8_192];
            while !stop.load(Relaxed) {
                match stream.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(length) if stream.write_all(&buffer[..length]).is_err() => return,
                    Err(error) if !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                        return;
                    }
                    _ => {}
                }
            }
        }));
    }
    for thread in served {
        thread.join().unwrap();
    }
}

fn answer_datagrams(socket: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = [0; 8_192];
    while !stop.load(Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            // Its sender may be gone by now.
            let _ = socket.send_to(&buffer[..length], from);
        }
    }
}
