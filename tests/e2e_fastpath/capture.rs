//! IP packets as they pass the devices of a namespace, seen through a packet socket.

use std::io::Read as _;
use std::time::{Duration, Instant};

use felt::sys::netns::Netns;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

const GLANCE: Duration = Duration::from_millis(100);
/// Enough for every packet a test looks at.
const ROOM: usize = 8 << 20;
/// Where an IPv4 header says what it carries.
const PROTOCOL: u8 = 9;
const UDP: u8 = 17;

/// Sees the UDP packets of a namespace.
pub struct Capture(Socket);

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// What comes in.
    Incoming,
    /// What comes in, and what goes out.
    All,
}

impl Capture {
    /// Begins to look.
    pub fn udp(netns: &Netns, seen: Seen) -> Self {
        let kind = match seen {
            Seen::Incoming => libc::ETH_P_IP,
            Seen::All => libc::ETH_P_ALL,
        };
        let protocol = Protocol::from(i32::from(u16::try_from(kind).unwrap().to_be()));
        // Without link headers.
        let socket = netns.run_in(|| Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol))).unwrap().unwrap();
        let statement = |code, k| SockFilter::new(code, 0, 0, k);
        let load = u16::try_from(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS).unwrap();
        let equal = u16::try_from(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K).unwrap();
        let done = u16::try_from(libc::BPF_RET | libc::BPF_K).unwrap();
        let filter = [
            statement(load, PROTOCOL.into()),
            SockFilter::new(equal, 0, 1, UDP.into()),
            statement(done, u32::MAX),
            statement(done, 0),
        ];
        socket.attach_filter(&filter).unwrap();
        socket.set_recv_buffer_size(ROOM).unwrap();
        socket.set_read_timeout(Some(GLANCE)).unwrap();
        Self(socket)
    }

    /// The next `count` packets that `wanted` takes; fewer if no more come within `patience`.
    pub fn find(&self, count: usize, patience: Duration, wanted: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let (begin, mut buffer, mut found) = (Instant::now(), vec![0; 65_536], Vec::new());
        while found.len() < count && begin.elapsed() < patience {
            if let Ok(len) = (&self.0).read(&mut buffer)
                // Some may have come before there was a filter.
                && buffer[usize::from(PROTOCOL)] == UDP
                && wanted(&buffer[..len])
            {
                found.push(buffer[..len].to_vec());
            }
        }
        found
    }
}
