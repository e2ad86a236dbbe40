//! Whether something listens in a place, and whether a daemon there says it is ready.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::lab::{LabError, process};
use crate::sys::netns::Netns;

/// Everything here is one hop away at most.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether something accepts TCP connections on `address`, asked from within `netns`.
pub(in crate::lab) fn is_listening(netns: &Netns, address: SocketAddr) -> Result<bool, LabError> {
    netns.run_in(|| TcpStream::connect_timeout(&address, PATIENCE).is_ok()).map_err(process::netns_step)
}

/// Whether the daemon in `netns` answers `/readyz` with 200.
pub(in crate::lab) fn is_ready(netns: &Netns, port: u16) -> Result<bool, LabError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let status = netns.run_in(|| http_status(address, "/readyz")).map_err(process::netns_step)?;
    Ok(matches!(status, Ok(Some(200))))
}

/// The status of a GET; `None` if what answered does not speak HTTP/1.
fn http_status(address: SocketAddr, path: &str) -> io::Result<Option<u16>> {
    /// `HTTP/1.1 200`, the part of an answer looked at.
    const STATUS_BYTES: u64 = 12;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(STATUS_BYTES).read_to_end(&mut answer)?;
    Ok(parse_status(&answer))
}

fn parse_status(answer: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(answer).ok()?;
    let (version, status) = text.split_once(' ')?;
    version.starts_with("HTTP/1.").then(|| status.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_is_read() {
        assert_eq!(parse_status(b"HTTP/1.1 200"), Some(200));
        assert_eq!(parse_status(b"HTTP/1.0 503"), Some(503));
        for answer in [&b""[..], b"HTTP/1.1 2", b"SSH-2.0 200", b"HTTP/1.1\xff200"] {
            assert!(!matches!(parse_status(answer), Some(200 | 503)));
        }
    }
}
