//! Where the server listens: `--listen` as flannel spells it, and sockets handed over by a supervisor.

use std::fmt;
use std::io;
use std::str::FromStr;

use tokio::net::TcpListener;

use crate::sys::activation::adopt_listener;

/// The first descriptor a supervisor hands over (`SD_LISTEN_FDS_START`).
const FIRST_DESCRIPTOR: i32 = 3;

/// An optional scheme and an address: `host:port`, `:port`, `tcp://host:port`, `fd://`, `fd://N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A TCP address; an empty host means every address of this machine.
    Tcp {
        /// Name or address, without brackets.
        host: String,
        /// 0 lets the kernel choose.
        port: u16,
    },
    /// A listening socket inherited under this descriptor.
    Descriptor(i32),
}

/// Why there is nothing to listen on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum ListenError {
    /// Not an address.
    #[error(
        "expected a listen address such as `0.0.0.0:8888`, `tcp://HOST:PORT`, `fd://` or `fd://N`, found `{found}`: {problem}"
    )]
    Syntax { found: String, problem: String },
    /// The address is taken, not ours, or forbidden.
    #[error("failed to listen on {address}: {source}")]
    Bind { address: String, source: io::Error },
    /// No supervisor handed us that socket.
    #[error("failed to use {address}: {problem}; start this through a systemd socket unit, or give a host and port")]
    Activation { address: String, problem: String },
}

impl FromStr for ListenAddress {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let fail = |problem: &str| ListenError::Syntax { found: text.to_owned(), problem: problem.to_owned() };
        let (scheme, address) = text.split_once("://").unwrap_or(("", text));
        match scheme {
            "" | "tcp" => {
                let (host, port) = address.rsplit_once(':').ok_or_else(|| fail("the port is missing"))?;
                let port = port.parse().map_err(|_| fail("the port is no number from 0 to 65535"))?;
                let host = match host.strip_prefix('[') {
                    Some(rest) => rest.strip_suffix(']').ok_or_else(|| fail("the bracket is not closed"))?,
                    None if host.contains(':') => return Err(fail("an IPv6 address stands in brackets")),
                    None => host,
                };
                Ok(Self::Tcp { host: host.to_owned(), port })
            }
            "fd" if address.is_empty() => Ok(Self::Descriptor(FIRST_DESCRIPTOR)),
            "fd" => match address.parse() {
                Ok(descriptor) if descriptor >= FIRST_DESCRIPTOR => Ok(Self::Descriptor(descriptor)),
                _ => Err(fail("a descriptor is a number from 3 up")),
            },
            other => Err(fail(&format!("the scheme `{other}` is not supported"))),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Descriptor(descriptor) => write!(f, "fd://{descriptor}"),
        }
    }
}

impl ListenAddress {
    /// Listens there.
    pub(super) async fn bind(&self) -> Result<TcpListener, ListenError> {
        match self {
            Self::Tcp { host, port } => {
                let bound =
                    if host.is_empty() { bind_everywhere(*port).await } else { TcpListener::bind((&**host, *port)).await };
                bound.map_err(|source| ListenError::Bind { address: self.to_string(), source })
            }
            Self::Descriptor(descriptor) => {
                let variable = |name| std::env::var(name).ok();
                handed_over(
                    variable("LISTEN_PID").as_deref(),
                    variable("LISTEN_FDS").as_deref(),
                    std::process::id(),
                    *descriptor,
                )
                .map_err(|problem| ListenError::Activation { address: self.to_string(), problem })?;
                let adopted = adopt_listener(*descriptor).and_then(TcpListener::from_std);
                adopted.map_err(|error| ListenError::Activation { address: self.to_string(), problem: error.to_string() })
            }
        }
    }
}

/// Both families where there are two.
async fn bind_everywhere(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind(("::", port)).await {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {
            TcpListener::bind(("0.0.0.0", port)).await
        }
        done => done,
    }
}

/// Whether a supervisor handed `descriptor` to this very process.
fn handed_over(pid: Option<&str>, count: Option<&str>, own_pid: u32, descriptor: i32) -> Result<(), String> {
    match pid.map(str::parse::<u32>) {
        Some(Ok(pid)) if pid == own_pid => {}
        Some(_) => return Err("the sockets were handed to another process (LISTEN_PID)".into()),
        None => return Err("no sockets were handed over (LISTEN_PID is not set)".into()),
    }
    let count: i32 = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    if descriptor - FIRST_DESCRIPTOR < count {
        return Ok(());
    }
    Err(format!("only {count} sockets were handed over, from descriptor {FIRST_DESCRIPTOR} (LISTEN_FDS)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> ListenAddress {
        ListenAddress::Tcp { host: host.into(), port }
    }

    #[test]
    fn flannels_grammar() {
        for (text, expected) in [
            ("127.0.0.1:8888", tcp("127.0.0.1", 8888)),
            ("tcp://registry.example:1", tcp("registry.example", 1)),
            (":8888", tcp("", 8888)),
            ("://h:1", tcp("h", 1)),
            ("[::1]:8888", tcp("::1", 8888)),
            ("fd://", ListenAddress::Descriptor(3)),
            ("fd://5", ListenAddress::Descriptor(5)),
        ] {
            assert_eq!(text.parse::<ListenAddress>().unwrap(), expected, "{text}");
        }
        assert_eq!(tcp("::1", 8888).to_string(), "[::1]:8888");
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        for (text, problem) in [
            ("127.0.0.1", "port is missing"),
            ("", "port is missing"),
            ("h:http", "no number"),
            ("h:65536", "no number"),
            ("::1:8888", "brackets"),
            ("[::1:8888", "not closed"),
            ("unix:///run/felt.sock", "`unix` is not supported"),
            ("fd://2", "from 3 up"),
            ("fd://x", "from 3 up"),
        ] {
            let error = text.parse::<ListenAddress>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn only_sockets_meant_for_us_are_used() {
        assert_eq!(handed_over(Some("7"), Some("2"), 7, 4), Ok(()));
        assert!(handed_over(Some("7"), Some("2"), 7, 5).unwrap_err().contains("only 2 sockets"));
        assert!(handed_over(Some("8"), Some("2"), 7, 3).unwrap_err().contains("another process"));
        assert!(handed_over(None, Some("2"), 7, 3).unwrap_err().contains("not set"));
        assert!(handed_over(Some("7"), None, 7, 3).unwrap_err().contains("only 0 sockets"));
    }

    #[tokio::test]
    async fn a_taken_address_is_named() {
        let first = tcp("127.0.0.1", 0).bind().await.unwrap();
        let port = first.local_addr().unwrap().port();
        let error = tcp("127.0.0.1", port).bind().await.unwrap_err().to_string();
        assert!(error.contains(&format!("127.0.0.1:{port}")) && error.contains("in use"), "{error}");
        assert!(tcp("", 0).bind().await.is_ok());
    }
}
