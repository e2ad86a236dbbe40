//! The transport layer: ports, flags, ICMP.

use super::inspected::{FirstFragment, Inspected, TcpFlags, Unfit};
use super::network::{Extent, Network};
use crate::net::{FlowKey, Protocol};

/// Bytes of a TCP header without options.
const TCP_LEN: usize = 20;
/// Bytes of it that a first fragment has to bring: sequence numbers and flags (RFC 1858 section 4).
const TCP_FIRST: usize = 16;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;
/// Bytes of SCTP's common header.
const SCTP_LEN: usize = 12;
/// Bytes of it that a first fragment has to bring. Fewer than 8 there cannot be, were it for the ports alone.
const SCTP_FIRST: usize = 8;
/// Bytes that every ICMP message has.
const ICMP_LEN: usize = 8;
/// Types of ICMP messages that ask, and of their answers; both carry an identifier in the same place. Echo and timestamp
/// (RFC 792), and extended echo (RFC 8335).
const QUERIES: [(u8, u8); 3] = [(8, 0), (13, 14), (42, 43)];
/// The same for IPv6: echo (RFC 4443), and extended echo.
const QUERIES_V6: [(u8, u8); 2] = [(128, 129), (160, 161)];

/// Finds out what a packet is to policy.
#[inline]
#[must_use]
pub fn inspect(packet: &[u8]) -> Inspected {
    let network = match Network::read(packet, Extent::Whole) {
        Ok(network) => network,
        Err(unfit) => return Inspected::Unfit(unfit),
    };
    let first_fragment = match network.fragment {
        Some(fragment) if fragment.offset != 0 => {
            if network.protocol == Protocol::TCP && usize::from(fragment.offset) < TCP_FIRST {
                return Inspected::Unfit(Unfit::OverlappingFragment);
            }
            return Inspected::LaterFragment { id: fragment.id, offset: fragment.offset };
        }
        Some(fragment) => Some(FirstFragment { id: fragment.id, bytes: fragment.bytes }),
        None => None,
    };
    let (whole, first) = match network.protocol {
        Protocol::TCP => (TCP_LEN, TCP_FIRST),
        Protocol::UDP => (UDP_LEN, UDP_LEN),
        Protocol::SCTP => (SCTP_LEN, SCTP_FIRST),
        protocol if is_icmp(&network, protocol) => (ICMP_LEN, ICMP_LEN),
        _ => return Inspected::Flow { key: key(&network, 0, 0), tcp: None, first_fragment },
    };
    let (least, short) = if first_fragment.is_some() { (first, Unfit::TinyFragment) } else { (whole, Unfit::NoTransport) };
    if network.payload.len() < least {
        return Inspected::Unfit(short);
    }
    if !network.protocol.has_ports() {
        return look_at_icmp(&network, first_fragment);
    }
    let flags = network.payload.get(13).map(|flags| TcpFlags(*flags));
    let tcp = flags.filter(|_| network.protocol == Protocol::TCP);
    Inspected::Flow { key: with_ports(&network), tcp, first_fragment }
}

/// Only a whole message is an error or neighbour discovery (RFC 6980); in fragments it is a message like any other.
fn look_at_icmp(network: &Network<'_>, first_fragment: Option<FirstFragment>) -> Inspected {
    let Some((&[kind, ..], rest)) = network.payload.split_first_chunk::<ICMP_LEN>() else {
        return Inspected::Unfit(Unfit::NoTransport);
    };
    if let Some((key, answers)) = query(network) {
        return if answers {
            Inspected::Answer { key, first_fragment }
        } else {
            Inspected::Flow { key, tcp: None, first_fragment }
        };
    }
    if network.v6 && matches!(kind, 133..=137) && first_fragment.is_none() {
        return Inspected::Neighbour;
    }
    let is_error = if network.v6 { matches!(kind, 1..=4) } else { matches!(kind, 3 | 11 | 12) };
    let quoted = if is_error && first_fragment.is_none() { quoted(rest, network) } else { None };
    let key = key(network, 0, 0);
    match quoted {
        Some(quoted) => Inspected::IcmpError { key, quoted },
        None => Inspected::Message { key, first_fragment },
    }
}

/// The packet an error is about. Its sender is who the error goes to: otherwise anybody with a flow of their own could send
/// errors to everybody.
fn quoted(bytes: &[u8], error: &Network<'_>) -> Option<FlowKey> {
    let quoted = Network::read(bytes, Extent::Quoted).ok()?;
    if quoted.v6 != error.v6 || quoted.source != error.destination || quoted.fragment.is_some_and(|it| it.offset != 0) {
        return None;
    }
    match quoted.protocol {
        protocol if protocol.has_ports() => (quoted.payload.len() >= 4).then(|| with_ports(&quoted)),
        protocol if is_icmp(&quoted, protocol) => query(&quoted).map(|(key, _)| key),
        _ => Some(key(&quoted, 0, 0)),
    }
}

/// The flow of an ICMP query or its answer, and whether it is an answer.
///
/// The identifier and what is asked stand in for ports, such that the key of an answer is the reverse of its query's, and no
/// query's key is the reverse of any other's: the port of who asks is at least `0x8000`, the other one's is below.
#[inline]
fn query(network: &Network<'_>) -> Option<(FlowKey, bool)> {
    let &[kind, _, _, _, high, low, ..] = network.payload.first_chunk::<ICMP_LEN>()?;
    let queries = if network.v6 { &QUERIES_V6[..] } else { &QUERIES };
    let &(asked, _) = queries.iter().find(|(query, answer)| kind == *query || kind == *answer)?;
    let identifier = u16::from_be_bytes([high, low]);
    let (asking, answering) = (0x8000 | identifier >> 1, u16::from(asked) << 1 | identifier & 1);
    let answers = kind != asked;
    Some((if answers { key(network, answering, asking) } else { key(network, asking, answering) }, answers))
}

#[inline]
fn is_icmp(network: &Network<'_>, protocol: Protocol) -> bool {
    protocol == if network.v6 { Protocol::ICMPV6 } else { Protocol::ICMP }
}

/// The flow of a packet whose transport begins with its ports.
#[inline]
fn with_ports(network: &Network<'_>) -> FlowKey {
    let [a, b, c, d] = network.payload.first_chunk().copied().unwrap_or_default();
    key(network, u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

#[inline]
fn key(network: &Network<'_>, source_port: u16, destination_port: u16) -> FlowKey {
    let Network { source, destination, protocol, .. } = *network;
    FlowKey { source, destination, source_port, destination_port, protocol }
}
