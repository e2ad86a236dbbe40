//! One peer: which subnet it holds, and where it receives datagrams.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::lease::check_public_ip;
use crate::net::Prefix4;

/// A peer, named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// What it holds.
    pub subnet: Prefix4,
    /// Its address on the underlay.
    pub address: Ipv4Addr,
    /// The port it listens on and sends from, if not ours.
    pub port: Option<u16>,
}

/// Why a text names no peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PeerError(String);

impl Peer {
    /// Reads a line of a file: `SUBNET ADDRESS[:PORT]`.
    ///
    /// # Errors
    /// What was expected and what was found.
    pub fn of_line(line: &str) -> Result<Self, PeerError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [subnet, at] => Self::new(subnet, at),
            _ => {
                Err(PeerError(format!("expected SUBNET ADDRESS[:PORT], such as 10.5.2.0/24 192.0.2.7, found `{}`", line.trim())))
            }
        }
    }

    fn new(subnet: &str, at: &str) -> Result<Self, PeerError> {
        let subnet = Prefix4::exact(subnet).map_err(|error| PeerError(error.to_string()))?;
        if !(1..=31).contains(&subnet.len()) {
            return Err(PeerError(format!("expected a subnet with a prefix length from 1 to 31, found {subnet}")));
        }
        let (address, port) = at.split_once(':').map_or((at, None), |(address, port)| (address, Some(port)));
        let usable = |address: &Ipv4Addr| check_public_ip(*address).is_ok();
        let address = address.parse().ok().filter(usable);
        let port = port.map(|port| port.parse::<u16>().ok().filter(|port| *port > 0));
        match (address, port) {
            (Some(address), None) => Ok(Self { subnet, address, port: None }),
            (Some(address), Some(Some(port))) => Ok(Self { subnet, address, port: Some(port) }),
            _ => Err(PeerError(format!(
                "expected the IPv4 address of a node, and perhaps a port, such as 192.0.2.7 or 192.0.2.7:8285, found `{at}`"
            ))),
        }
    }
}

/// As it is typed: `SUBNET=ADDRESS[:PORT]`.
impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Self, PeerError> {
        let expected = || PeerError("expected SUBNET=ADDRESS[:PORT], such as 10.5.2.0/24=192.0.2.7".to_owned());
        let (subnet, at) = text.split_once('=').ok_or_else(expected)?;
        Self::new(subnet, at)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.subnet, self.address)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_read_as_typed_and_as_a_line() {
        let peer = Peer { subnet: "10.5.2.0/24".parse().unwrap(), address: Ipv4Addr::new(192, 0, 2, 7), port: None };
        assert_eq!("10.5.2.0/24=192.0.2.7".parse(), Ok(peer));
        assert_eq!(Peer::of_line(" 10.5.2.0/24\t192.0.2.7 "), Ok(peer));
        let other = Peer { port: Some(9000), ..peer };
        assert_eq!("10.5.2.0/24=192.0.2.7:9000".parse(), Ok(other));
        assert_eq!(Peer::of_line("10.5.2.0/24 192.0.2.7:9000"), Ok(other));
        assert_eq!((peer.to_string(), other.to_string().parse()), ("10.5.2.0/24=192.0.2.7".to_owned(), Ok(other)));
    }

    #[test]
    fn what_names_no_peer_is_told_with_what_was_expected() {
        for (text, part) in [
            ("", "expected SUBNET=ADDRESS"),
            ("10.5.2.0/24", "expected SUBNET=ADDRESS"),
            ("=192.0.2.7", "expected an IPv4 network"),
            ("10.5.2.1/24=192.0.2.7", "such as 10.5.2.0/24, found `10.5.2.1/24`"),
            ("10.5.2.0/33=192.0.2.7", "0 to 32"),
            ("10.5.2.0/32=192.0.2.7", "from 1 to 31"),
            ("0.0.0.0/0=192.0.2.7", "from 1 to 31"),
            ("10.5.2.0/24=", "the IPv4 address of a node"),
            ("10.5.2.0/24=node2", "found `node2`"),
            ("10.5.2.0/24=0.0.0.0", "found `0.0.0.0`"),
            ("10.5.2.0/24=192.0.2.7:", "found `192.0.2.7:`"),
            ("10.5.2.0/24=192.0.2.7:0", "found `192.0.2.7:0`"),
            ("10.5.2.0/24=192.0.2.7:65536", "found `192.0.2.7:65536`"),
            ("10.5.2.0/24=fd00::1", "found `fd00::1`"),
        ] {
            let error = text.parse::<Peer>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        for line in ["10.5.2.0/24", "10.5.2.0/24 192.0.2.7 8285", "10.5.2.0/24=192.0.2.7"] {
            assert!(Peer::of_line(line).unwrap_err().to_string().contains(&format!("found `{line}`")), "{line}");
        }
    }
}
