//! Whether a TCP connection can be opened from one place to a port of another.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::echo::is_transient;
use super::open_in;
use crate::lab::{LabError, process};
use crate::sys::netns::Netns;

/// A port of a place that takes every connection and does nothing with it.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    address: SocketAddrV4,
}

impl Door {
    /// Opens a port in `netns`.
    ///
    /// # Errors
    /// When the port is taken, or `address` is not of that place.
    pub fn open(netns: &Netns, address: Ipv4Addr, port: u16) -> Result<Self, LabError> {
        let address = SocketAddrV4::new(address, port);
        let listener = open_in(netns, &format!("TCP port {port}"), || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        Ok(Self { listener, address })
    }

    /// How long it took to connect from `netns`, or `None` if nothing answered within `patience`.
    ///
    /// # Errors
    /// When something answered that there is no such port, which is no silence; when no socket can be had.
    pub fn admits(&self, netns: &Netns, patience: Duration) -> Result<Option<Duration>, LabError> {
        let failed = || LabError::step(format!("connect to {} from {}", self.address, netns.name()));
        let begin = Instant::now();
        let connected =
            netns.run_in(|| TcpStream::connect_timeout(&self.address.into(), patience)).map_err(process::netns_step)?;
        let took = begin.elapsed();
        match connected {
            Ok(stream) => {
                drop(stream);
                self.clear();
                Ok(Some(took))
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Err(failed()(error)),
            Err(error) if is_transient(&error) => Ok(None),
            Err(error) => Err(failed()(error)),
        }
    }

    /// Lets everybody in who waits, so that the next finds room.
    fn clear(&self) {
        while self.listener.accept().is_ok() {}
    }
}
