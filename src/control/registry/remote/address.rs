//! The server's address as `--remote` takes it.

use std::fmt;
use std::str::FromStr;

/// `host:port`, as in flannel; a scheme in front is taken for what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Whether the scheme asked for TLS; `None` without one.
    pub(super) tls: Option<bool>,
    host: String,
    port: u16,
}

/// Not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the registry server's HOST:PORT, found `{found}`: {problem}")]
pub struct AddressError {
    found: String,
    problem: &'static str,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let fail = |problem| AddressError { found: text.to_owned(), problem };
        let (tls, rest) = match text.split_once("://") {
            None => (None, text),
            Some(("http", rest)) => (Some(false), rest),
            Some(("https", rest)) => (Some(true), rest),
            Some(_) => return Err(fail("the scheme is neither http nor https")),
        };
        let (host, port) = rest.trim_end_matches('/').rsplit_once(':').ok_or_else(|| fail("the port is missing"))?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(|| fail("the port is no number from 1 to 65535"))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if bare.is_none() && host.contains(':') {
            return Err(fail("an IPv6 address stands in brackets"));
        }
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let host_valid = match bare {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.chars().all(valid),
        };
        if !host_valid {
            return Err(fail("the host is neither a name nor an address"));
        }
        Ok(Self { tls, host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        for (text, tls, shown) in [
            ("127.0.0.1:8888", None, "127.0.0.1:8888"),
            ("registry.example:1", None, "registry.example:1"),
            ("[::1]:8888", None, "[::1]:8888"),
            ("https://h:443/", Some(true), "h:443"),
            ("http://h:80", Some(false), "h:80"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.tls, address.to_string().as_str()), (tls, shown));
        }
        for text in ["", "h", "h:", "h:0", "h:99999", ":8888", "::1:8888", "[::g]:1", "a b:1", "h/x:1", "etcd://h:1", "u@h:1"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
