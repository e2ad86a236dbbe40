//! Packets made and seen byte by byte.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use etherparse::{IpEcn, IpFragOffset, Ipv4Header, UdpHeader};
use felt::sys::netns::Netns;
use socket2::{Domain, Protocol, Socket, Type};

/// `IPPROTO_RAW`: whoever sends through it writes the IP header, too.
const HEADER_INCLUDED: i32 = 255;
const GLANCE: Duration = Duration::from_millis(200);

/// An inner UDP packet.
#[derive(Clone, Debug)]
pub struct Inner {
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    pub ttl: u8,
    pub ecn: u8,
    pub dont_fragment: bool,
    pub payload: Vec<u8>,
}

impl Inner {
    /// A packet with a fresh TTL.
    pub fn new(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), payload: &[u8]) -> Self {
        let (from, to) = (SocketAddrV4::new(from.0, from.1), SocketAddrV4::new(to.0, to.1));
        Self { from, to, ttl: 64, ecn: 0, dont_fragment: false, payload: payload.to_vec() }
    }

    /// Its bytes, with right checksums.
    pub fn bytes(&self) -> Vec<u8> {
        let udp = UdpHeader::with_ipv4_checksum(
            self.from.port(),
            self.to.port(),
            &Ipv4Header::new(0, 0, etherparse::IpNumber::UDP, self.from.ip().octets(), self.to.ip().octets()).unwrap(),
            &self.payload,
        )
        .unwrap();
        let length = u16::try_from(UdpHeader::LEN + self.payload.len()).unwrap();
        let (from, to) = (self.from.ip().octets(), self.to.ip().octets());
        let mut ip = Ipv4Header::new(length, self.ttl, etherparse::IpNumber::UDP, from, to).unwrap();
        ip.ecn = IpEcn::try_new(self.ecn).unwrap();
        ip.identification = 0x1234;
        ip.dont_fragment = self.dont_fragment;
        ip.fragment_offset = IpFragOffset::ZERO;
        ip.header_checksum = ip.calc_header_checksum();
        let mut bytes = Vec::new();
        ip.write(&mut bytes).unwrap();
        udp.write(&mut bytes).unwrap();
        bytes.extend(&self.payload);
        bytes
    }
}

/// A raw socket: whole IPv4 packets of one protocol, headers included.
#[derive(Debug)]
pub struct RawIp(Socket);

/// A socket in `netns` that sees every incoming UDP packet.
pub fn sniffer(netns: &Netns) -> RawIp {
    RawIp::open(netns, Protocol::UDP)
}

/// A socket in `netns` that sees every incoming ICMP packet.
pub fn icmp_errors(netns: &Netns) -> RawIp {
    RawIp::open(netns, Protocol::ICMPV4)
}

/// A UDP socket in `netns` that gives up waiting after a while.
pub fn udp_in(netns: &Netns, address: (Ipv4Addr, u16)) -> UdpSocket {
    let socket = netns.run_in(|| UdpSocket::bind(address)).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

impl RawIp {
    fn open(netns: &Netns, protocol: Protocol) -> Self {
        let open = || Socket::new(Domain::IPV4, Type::RAW, Some(protocol));
        let socket = netns.run_in(open).unwrap().unwrap();
        socket.set_read_timeout(Some(GLANCE)).unwrap();
        Self(socket)
    }

    /// Sends a whole packet from `netns`. The kernel sets header checksum and length, and an identification of 0.
    pub fn send(netns: &Netns, packet: &[u8]) {
        let socket = Self::open(netns, Protocol::from(HEADER_INCLUDED)).0;
        let to = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
        socket.send_to(packet, &SocketAddr::from((to, 0)).into()).unwrap();
    }

    /// The next packet that `wanted` takes; `None` after `patience`.
    pub fn find(&self, patience: Duration, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let begin = Instant::now();
        let mut buffer = vec![0; 65_536];
        while begin.elapsed() < patience {
            if let Ok(length) = (&self.0).read(&mut buffer)
                && wanted(&buffer[..length])
            {
                return Some(buffer[..length].to_vec());
            }
        }
        None
    }
}
