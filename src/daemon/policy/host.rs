//! Which addresses this host has: traffic of theirs is the host's own, also where they lie in the pods' subnet.

use std::collections::BTreeSet;
use std::net::IpAddr;

use tokio::io::unix::AsyncFd;

use crate::sys::netlink::{Monitor, Netlink, NetlinkError};

/// Hears of addresses that come and go.
pub(super) struct Host {
    monitor: Option<AsyncFd<Monitor>>,
}

impl Host {
    /// Begins to listen. Where that cannot be, whoever waits waits for ever, and has to look now and then.
    pub(super) fn listen() -> Self {
        match Monitor::open().and_then(Monitor::awaitable) {
            Ok(monitor) => Self { monitor: Some(monitor) },
            Err(error) => {
                tracing::debug!("policy does not hear of this host's addresses and looks at them now and then: {error}");
                Self { monitor: None }
            }
        }
    }

    /// Completes after something has changed, addresses perhaps.
    pub(super) async fn changed(&mut self) {
        let Some(monitor) = &mut self.monitor else { return std::future::pending().await };
        // Cleared first: what comes while the rest is taken wakes us again.
        if let Ok(mut ready) = monitor.readable_mut().await {
            ready.clear_ready();
        }
        while matches!(monitor.get_mut().next_event(), Ok(Some(_))) {}
    }
}

/// The host's addresses, in order, but for those that lead nowhere else: loopback and those of one link only, of which every
/// pod's device brings one.
pub(super) fn addresses() -> Result<Vec<IpAddr>, NetlinkError> {
    let found = Netlink::open()?.addresses()?;
    let far = found.iter().filter(|address| !address.link_scope && !address.host_scope);
    let far = far.map(|address| address.address.ip()).filter(|address| !address.is_loopback());
    Ok(far.collect::<BTreeSet<_>>().into_iter().collect())
}
