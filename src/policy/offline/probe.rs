//! What a matrix asks of each pair of ends: a protocol and a destination port.

use std::fmt;

use crate::net::Protocol;

/// A protocol that has ports, and one of its destination ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probe {
    /// TCP, UDP or SCTP.
    pub protocol: Protocol,
    /// From 1.
    pub port: u16,
}

/// Text that is no probe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected PROTOCOL/PORT such as TCP/80, with TCP, UDP or SCTP and a port from 1 to 65535, found `{0}`")]
pub struct ProbeError(pub String);

impl Probe {
    /// Understands `TCP/80`, in letters of either size.
    ///
    /// # Errors
    /// [`ProbeError`] with the text.
    pub fn parse(text: &str) -> Result<Self, ProbeError> {
        let parts = text.split_once('/').and_then(|(protocol, port)| {
            let known = [("TCP", Protocol::TCP), ("UDP", Protocol::UDP), ("SCTP", Protocol::SCTP)];
            let protocol = known.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(protocol))?.1;
            let digits = port.bytes().all(|byte| byte.is_ascii_digit());
            let port = port.parse().ok().filter(|port| digits && *port > 0)?;
            Some(Self { protocol, port })
        });
        parts.ok_or_else(|| ProbeError(text.to_owned()))
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.protocol, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_read_as_they_are_written() {
        for text in ["TCP/80", "UDP/1", "SCTP/65535"] {
            assert_eq!(Probe::parse(text).unwrap().to_string(), text);
            assert_eq!(Probe::parse(&text.to_lowercase()), Probe::parse(text));
        }
        for text in ["", "TCP", "80", "TCP/", "TCP/0", "TCP/65536", "TCP/+80", "ICMP/8", "TCP/80/1", "80/TCP", "TCP/ 80"] {
            assert_eq!(Probe::parse(text), Err(ProbeError(text.to_owned())), "{text}");
        }
    }
}
