//! ICMP echo packets and the socket they go through.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::open_in;
use crate::lab::LabError;
use crate::sys::netns::Netns;

const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;
/// Type, code, checksum, identifier, sequence number.
const HEADER_BYTES: usize = 8;
/// What `ping` sends by default, so that packets have the usual 84 bytes with their headers.
const PAYLOAD_BYTES: usize = 56;
/// A raw socket gives IPv4 headers, too.
const MAX_DATAGRAM: usize = 2048;

/// A raw ICMP socket of one namespace that speaks with one address. Raw, because a datagram ICMP socket is refused even
/// to root unless `ping_group_range` of that namespace says otherwise.
#[derive(Debug)]
pub(super) struct EchoSocket {
    socket: Socket,
    identifier: u16,
}

impl EchoSocket {
    /// Opens a socket in `netns`.
    pub(super) fn open(netns: &Netns, to: Ipv4Addr) -> Result<Self, LabError> {
        let socket = open_in(netns, "a raw ICMP socket", || {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
            socket.connect(&SocketAddrV4::new(to, 0).into())?;
            Ok(socket)
        })?;
        // Several may ask one address from one place: each knows its own answers by this.
        Ok(Self { socket, identifier: rand::random() })
    }

    /// Sends an echo request.
    pub(super) fn send(&self, sequence: u16) -> io::Result<()> {
        self.socket.send(&request(self.identifier, sequence)).map(drop)
    }

    /// The sequence number of the next reply to one of ours; `None` after `patience`, or when something else came.
    pub(super) fn receive(&self, patience: Duration) -> io::Result<Option<u16>> {
        // Zero would mean to wait for ever.
        self.socket.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
        let mut buffer = [0; MAX_DATAGRAM];
        match (&self.socket).read(&mut buffer) {
            Ok(length) => Ok(buffer.get(..length).and_then(|datagram| reply_to(self.identifier, datagram))),
            // An ICMP error that some router sent about an earlier request is no answer, and no fault of this socket.
            Err(error) if is_transient(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a socket that said this may be asked again: nothing came, or the way there is broken at the moment.
pub(super) fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted | ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

fn request(identifier: u16, sequence: u16) -> [u8; HEADER_BYTES + PAYLOAD_BYTES] {
    let mut packet = [0; HEADER_BYTES + PAYLOAD_BYTES];
    packet[0] = ECHO_REQUEST;
    packet[4..6].copy_from_slice(&identifier.to_be_bytes());
    packet[6..8].copy_from_slice(&sequence.to_be_bytes());
    for (fill, byte) in packet[HEADER_BYTES..].iter_mut().zip(0u8..) {
        *fill = byte;
    }
    let checksum = internet_checksum(&packet);
    packet[2..4].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// The sequence number of an echo reply with this identifier; the datagram begins with its IPv4 header.
fn reply_to(identifier: u16, datagram: &[u8]) -> Option<u16> {
    let header_bytes = usize::from(datagram.first()? & 0x0f) * 4;
    let message = datagram.get(header_bytes..)?;
    let &[kind, code, _, _, id0, id1, seq0, seq1] = message.first_chunk::<HEADER_BYTES>()?;
    let is_ours = kind == ECHO_REPLY && code == 0 && u16::from_be_bytes([id0, id1]) == identifier;
    (is_ours && internet_checksum(message) == 0).then(|| u16::from_be_bytes([seq0, seq1]))
}

/// RFC 1071.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits just above")]
    let folded = sum as u16;
    !folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(mut message: Vec<u8>) -> Vec<u8> {
        message[0] = ECHO_REPLY;
        message[2..4].fill(0);
        let checksum = internet_checksum(&message);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        let mut datagram = vec![0u8; 20];
        datagram[0] = 0x45;
        datagram.extend(message);
        datagram
    }

    #[test]
    fn a_request_is_what_an_independent_parser_expects() {
        let packet = request(0x1234, 7);
        let (parsed, rest) = etherparse::Icmpv4Header::from_slice(&packet).unwrap();
        let echo = etherparse::IcmpEchoHeader { id: 0x1234, seq: 7 };
        assert_eq!(parsed.icmp_type, etherparse::Icmpv4Type::EchoRequest(echo));
        assert_eq!(parsed.icmp_type.calc_checksum(rest), parsed.checksum);
    }

    #[test]
    fn only_our_own_unharmed_replies_count() {
        let reply = answered(request(9, 513).to_vec());
        assert_eq!(reply_to(9, &reply), Some(513));
        assert_eq!(reply_to(10, &reply), None);
        let mut harmed = reply.clone();
        *harmed.last_mut().unwrap() ^= 1;
        assert_eq!(reply_to(9, &harmed), None);
        for length in 0..28 {
            assert_eq!(reply_to(9, &reply[..length]), None, "{length}");
        }
        let mut echoed = vec![0x45];
        echoed.resize(20, 0);
        echoed.extend(request(9, 513));
        assert_eq!(reply_to(9, &echoed), None);
    }
}
