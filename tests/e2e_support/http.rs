//! HTTP from within a namespace, and the counters of a daemon.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use felt::lab::HEALTH_PORT;
use felt::sys::netns::Netns;

const PATIENCE: Duration = Duration::from_secs(5);

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// Asks a server that `netns` can reach.
pub fn request(netns: &Netns, server: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<Answer> {
    netns.run_in(|| speak(server, method, path, body)).unwrap()
}

/// Asks the health server of the daemon in `netns`.
pub fn get(netns: &Netns, path: &str) -> io::Result<Answer> {
    request(netns, SocketAddr::from((Ipv4Addr::LOCALHOST, HEALTH_PORT)), "GET", path, "")
}

/// The text of a scrape.
pub fn scrape(netns: &Netns) -> String {
    let answer = get(netns, "/metrics").unwrap();
    assert_eq!(answer.status, 200);
    answer.body
}

/// What the daemon in `netns` has counted.
pub fn metrics(netns: &Netns) -> Metrics {
    let text = scrape(netns);
    let samples = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    Metrics(samples.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
}

/// The samples of a scrape.
#[derive(Clone, Debug)]
pub struct Metrics(HashMap<String, u64>);

impl Metrics {
    /// A sample by its name with labels.
    pub fn value(&self, name: &str) -> u64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no sample {name}"))
    }

    /// Packets dropped for a reason.
    pub fn dropped(&self, reason: &str) -> u64 {
        self.value(&format!("felt_drops_total{{reason=\"{reason}\"}}"))
    }

    /// Packets dropped, of every reason for which there were more than `before`.
    pub fn drops_since(&self, before: &Self) -> Vec<(String, u64)> {
        let mut grown: Vec<_> = self
            .0
            .iter()
            .filter_map(|(name, count)| {
                let reason = name.strip_prefix("felt_drops_total{reason=\"")?.strip_suffix("\"}")?;
                let more = count - before.value(name);
                (more > 0).then(|| (reason.to_owned(), more))
            })
            .collect();
        grown.sort();
        grown
    }
}

fn speak(server: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let odd = || io::Error::other(format!("no answer: {text:?}"));
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(odd)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(odd)?;
    Ok(Answer { status, body: body.to_owned() })
}
